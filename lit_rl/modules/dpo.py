"""Direct preference optimization: make the better of two completions likelier than the worse one.

    1. pairs of completions whose execution rewards differ            data/preferences.py
    2. log-probability of both under policy and reference             loss_and_metrics, below
    3. minimise sigmoid, hinge or IPO loss of the margin              preference_loss, below

Training samples nothing and runs no program; validation runs what the policy writes for the tasks named in
``validation_tasks``.

Letters: M pairs, N = 2 M rows: chosen, rejected, chosen, rejected ..., T completion tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack, assert_never

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from lit_rl.data.preferences import pair_from_problem
from lit_rl.math.masking import aggregate, loss_denominator
from lit_rl.models.policy import Policy
from lit_rl.models.reference import NoGradScorer
from lit_rl.modules.text_module import Metrics, TextModule, TextModuleOptions
from lit_rl.rollout import Evaluated
from lit_rl.signature_check import PositiveFloat
from lit_rl.training.ranks import eval_mode, max_over_ranks
from lit_rl.types import Completions, Problem

PreferenceLoss = Literal["sigmoid", "ipo", "hinge"]
"""Shape of the loss over the difference of implicit rewards; see :func:`preference_loss`."""


class DPO(TextModule):
    """Learn from pairs of completions; the reference is the initial policy.

    Dropout is off, so that the first margin between policy and reference is exactly 0.

    Args:
        policy: the policy to train. The reference is a frozen copy of the policy; with new adapters, it is the base;
            with a loaded adapter, it is a frozen copy of that adapter.
        kind: ``sigmoid`` (DPO), ``ipo`` or ``hinge``.
        beta: reward units per nat; smaller lets the policy go further from the reference.
        average: divide a completion's log-probability by its number of tokens. ``None`` divides only for ``ipo``, as do
            TRL and the results in IPO's paper; for L tokens this is the loss of sums with ``beta / L``, divided by L^2.
        **options: arguments of :class:`~lit_rl.modules.text_module.TextModule`.

    Source:
        Rafailov et al. 2023, eq. 7, https://arxiv.org/abs/2305.18290
    """

    metric_prefix = "dpo"
    lacks = "has no pair to learn from: train DPO on lit_rl.data.PreferencePairs"
    nothing_left = "pairs whose texts are then equal"

    def __init__(
        self,
        policy: Policy,
        *,
        kind: PreferenceLoss = "sigmoid",
        beta: PositiveFloat = 0.1,
        average: bool | None = None,
        **options: Unpack[TextModuleOptions],
    ) -> None:
        super().__init__(policy, **options)
        self.kind = kind
        self.beta = beta
        self.average = kind == "ipo" if average is None else average
        self.reference: NoGradScorer | None = None

    def configure_model(self) -> None:
        super().configure_model()
        self.reference = self.policy.make_reference()

    def training_step(self, batch: Sequence[Problem], batch_idx: int) -> None:
        with eval_mode(self):
            super().training_step(batch, batch_idx)

    def texts_to_learn(self, problem: Problem) -> tuple[str, ...]:
        if "pair" not in problem.fields:
            return ()
        pair = pair_from_problem(problem)
        return pair.chosen, pair.rejected

    def are_texts_finished(self, problem: Problem) -> tuple[bool, ...]:
        if "pair" not in problem.fields:
            return ()
        pair = pair_from_problem(problem)
        return pair.chosen_finished, pair.rejected_finished

    def has_target_tokens(self, problem: Problem, ids: Sequence[tuple[int, ...]]) -> bool:
        """Return whether the two texts still differ; for equal texts the loss is log 2, whatever is learned."""
        return ids[0] != ids[1]

    def denominator_part(self, completions: Completions) -> Tensor:
        return loss_denominator(completions.completion_mask, "sequence_sum") / 2

    def loss_and_metrics(self, completions: Completions, denominator: Tensor) -> tuple[Tensor, Metrics]:
        assert self.reference is not None
        tokens = completions.lengths if self.average else 1
        logprobs = self.policy.logprobs(completions).sum(-1) / tokens
        ref_logprobs = self.reference.logprobs(completions).sum(-1) / tokens
        chosen, rejected = logprobs[0::2], logprobs[1::2]
        ref_chosen, ref_rejected = ref_logprobs[0::2], ref_logprobs[1::2]
        losses = preference_loss(chosen, rejected, ref_chosen, ref_rejected, beta=self.beta, kind=self.kind)
        every = torch.ones_like(losses, dtype=torch.bool)[:, None]
        loss = aggregate(losses[:, None], every, mode="sequence_sum", denominator=denominator)
        chosen_rewards = implicit_rewards(chosen.detach(), ref_chosen, beta=self.beta)
        rejected_rewards = implicit_rewards(rejected.detach(), ref_rejected, beta=self.beta)
        margin = chosen_rewards - rejected_rewards
        return loss, {
            "margin": margin.mean(),
            "accuracy": (margin > 0).to(margin.dtype).mean(),
            "chosen_reward": chosen_rewards.mean(),
            "rejected_reward": rejected_rewards.mean(),
        }

    def evaluate_by_execution(self, batch: Sequence[Problem], batch_idx: int, dataloader_idx: int) -> Evaluated:
        """Run what the policy writes; pairs have no program to judge, only texts."""
        tasks = [problem for problem in batch if "pair" not in problem.fields]
        if not max_over_ranks(len(tasks), self.device):  # all ranks sample, or none
            return Evaluated({})
        return super().evaluate_by_execution(tasks, batch_idx, dataloader_idx)


def implicit_rewards(logprobs: Tensor, ref_logprobs: Tensor, *, beta: float) -> Tensor:
    """Return the reward for which the policy would be optimal, up to a constant per prompt (KL of weight ``beta``).

        r_i = beta * (logprobs_i - ref_logprobs_i)

    Args:
        logprobs: [M] nats, summed (or averaged) over tokens, under the policy. May carry the gradient.
        ref_logprobs: [M] nats of the same completions under the reference. No gradient.
        beta: reward units per nat, > 0.

    Returns:
        [M] in reward units. Chosen minus rejected is the margin that is logged.

    Source:
        Rafailov et al. 2023, eq. 5, https://arxiv.org/abs/2305.18290

    Example:
        >>> implicit_rewards(torch.tensor([-3.0]), torch.tensor([-5.0]), beta=0.1)
        tensor([0.2000])
    """
    return beta * (logprobs - ref_logprobs.detach())


def preference_loss(
    chosen_logprobs: Tensor,
    rejected_logprobs: Tensor,
    ref_chosen_logprobs: Tensor,
    ref_rejected_logprobs: Tensor,
    *,
    beta: float,
    kind: PreferenceLoss = "sigmoid",
) -> Tensor:
    """Return the loss of each pair, which makes the chosen completion likelier than the rejected one.

        margin   = implicit_rewards(chosen) - implicit_rewards(rejected)      reward units
        sigmoid:  -log sigmoid(margin)                                        DPO
        hinge:    max(0, 1 - margin)                                          SLiC
        ipo:      (margin / beta - 1 / (2 beta))^2                            IPO

    Beyond the target margin (0, 1, 1/2) ``sigmoid`` keeps pushing, ever less, ``hinge`` stops, and ``ipo`` pulls back.

    Args:
        chosen_logprobs: [M] nats, summed (or averaged) over tokens, under the policy. Carries the gradient.
        rejected_logprobs: [M] nats of the rejected completions. Carries the gradient.
        ref_chosen_logprobs: [M] under the reference. No gradient.
        ref_rejected_logprobs: [M] under the reference. No gradient.
        beta: reward units per nat, > 0; smaller lets the policy go further from the reference.
        kind: see above.

    Returns:
        [M] loss per pair; average it over the pairs of the whole update.

    Source:
        sigmoid: Rafailov et al. 2023, eq. 7, https://arxiv.org/abs/2305.18290
        hinge: Zhao et al. 2023, https://arxiv.org/abs/2305.10425
        ipo: Azar et al. 2023, eq. 17, https://arxiv.org/abs/2310.12036

    Example:
        >>> chosen, rejected, reference = torch.tensor([-1.0]), torch.tensor([-3.0]), torch.tensor([-2.0])
        >>> preference_loss(chosen, rejected, reference, reference, beta=0.5)  # margin 1: log(1 + 1/e)
        tensor([0.3133])
    """
    chosen = implicit_rewards(chosen_logprobs, ref_chosen_logprobs, beta=beta)
    rejected = implicit_rewards(rejected_logprobs, ref_rejected_logprobs, beta=beta)
    margin = chosen - rejected
    match kind:
        case "sigmoid":
            return -logsigmoid(margin)
        case "hinge":
            return torch.relu(1.0 - margin)
        case "ipo":
            return (margin / beta - 1.0 / (2.0 * beta)).square()
        case _:
            assert_never(kind)
