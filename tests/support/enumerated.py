"""A world small enough to add up: completions of L tokens out of V, with one row of logits for each prefix."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from lit_rl.data.toys.toy_models import ToyPolicy
from lit_rl.execution.checks import TokenTarget
from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.modules import UpdateConfig
from lit_rl.modules.rollout_module import RolloutModule
from lit_rl.rewards import RewardTerm, TermScore
from lit_rl.rollout import Rollout
from lit_rl.types import Completions, Judgement, Problem, StopReason, Turn

Answer = tuple[int, ...]
ONE_SUM = UpdateConfig(aggregate="sequence_sum")
"""One update of a rollout, whose loss is the sum over tokens: what is added up below has no other scale."""


class PrefixPolicy(ToyPolicy):
    """A parameter for each token after each prefix."""

    def __init__(self, vocabulary_size: int = 2, length: int = 3, init_seed: int = 0) -> None:
        super().__init__(init_seed)
        self.answers = list(product(range(vocabulary_size), repeat=length))
        self.prefixes = [p for n in range(length) for p in product(range(vocabulary_size), repeat=n)]
        self.size, self.length = vocabulary_size, length
        self.load()

    def build_model(self, generator: torch.Generator) -> nn.Module:
        table = nn.Embedding(len(self.prefixes), self.size).double()
        nn.init.normal_(table.weight, std=0.7, generator=generator)
        return table

    def accepts_prompt(self, numbers: Answer) -> bool:
        return True

    def is_complete(self, prompt: Sequence[int], ids: Sequence[int]) -> bool:
        return len(ids) == self.length

    def logits(self, prompt_ids: Tensor, completion_ids: Tensor, weights: Any = None) -> Tensor:
        rows = [[self.prefixes.index(tuple(row[:t])) for t in range(len(row))] for row in completion_ids.tolist()]
        found: Tensor = (self.weights if weights is None else weights)(torch.tensor(rows))
        return found

    @property
    def table(self) -> Tensor:
        return self.weights.weight

    def token_logprobs(self, answer: Answer, table: Tensor) -> list[Tensor]:
        of_all = table.log_softmax(-1)
        return [of_all[self.prefixes.index(answer[:t]), token] for t, token in enumerate(answer)]

    def probabilities(self, table: Tensor) -> Tensor:
        """[K] of all answers."""
        return torch.stack([sum(self.token_logprobs(one, table), table.new_zeros(())) for one in self.answers]).exp()


class AnswerReward(RewardTerm):
    """Scores an answer by a function of its tokens."""

    def __init__(self, value: Callable[[Answer], float | TermScore]) -> None:
        super().__init__(1.0, "answer")
        self.value = value

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        found = [self.value(tuple(row)) for row in completions.completion_ids.tolist()]
        return [one if isinstance(one, TermScore) else TermScore(one) for one in found]


def rollout_of(policy: PrefixPolicy, answers: Sequence[Answer], table: Tensor | None = None) -> Rollout:
    """Answers to one problem, sampled with the policy's weights or, as stale rows, with an older table."""
    size = len(answers)
    ids, mask = torch.tensor(answers), torch.ones(size, policy.length, dtype=torch.bool)
    sampled_by = policy.table if table is None else table
    logprobs = torch.stack([torch.stack(policy.token_logprobs(one, sampled_by)) for one in answers]).detach()
    spans = tuple((t, t + 1) for t in range(policy.length))
    problem = Problem("p", "", TokenTarget())
    completions = Completions(
        problems=(problem,) * size,
        prompt_ids=torch.zeros(size, 1, dtype=torch.long),
        prompt_mask=torch.ones(size, 1, dtype=torch.bool),
        completion_ids=ids,
        completion_mask=mask,
        token_mask=mask,
        sampler_logprobs=logprobs,
        turns=((Turn(0, policy.length, "x" * policy.length, spans, StopReason.EOS),),) * size,
        group_ids=torch.zeros(size, dtype=torch.long),
        weights_versions=(policy.version - (table is not None),) * size,
    )
    return Rollout(completions, (Judgement(problem, None, Outcome(Verdict.NO_PROGRAM)),) * size)


def gradient(module: RolloutModule, rollout: Rollout) -> Tensor:
    """Direction [prefixes, V] in which a module moves the table after a rollout: minus its loss's gradient."""
    policy: Any = module.policy
    with torch.no_grad():
        rewards = module.compute_rewards(rollout)
        module.measure_age_and_entropy(rollout.completions)
        experience = module.make_experience(rollout, rewards)
    loss, _ = module.policy_loss(experience, module.update_denominator(experience))
    (found,) = torch.autograd.grad(loss, policy.table)
    return -found


def expected_gradient(module: RolloutModule, num_rows: int, table: Tensor | None = None) -> Tensor:
    """Mean of :func:`gradient` over all groups of answers, by their probability under the sampler's table."""
    policy: Any = module.policy
    chances = policy.probabilities(policy.table if table is None else table).detach().tolist()
    total = torch.zeros_like(policy.table)
    for chosen in product(range(len(chances)), repeat=num_rows):
        answers = [policy.answers[k] for k in chosen]
        total += math.prod(chances[k] for k in chosen) * gradient(module, rollout_of(policy, answers, table))
    return total
