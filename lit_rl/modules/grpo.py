"""GRPO: critic-free reinforcement learning; a problem's other completions are the baseline.

    1. sample G completions of each problem and run their programs          RolloutModule.collect
    2. advantage of a completion = its reward minus the group's mean        make_experience, lit_rl/advantages.py
    3. minimise the clipped surrogate                                        objective.py, lit_rl/losses.py

Letters: B problems, G completions per problem, N = B * G rows, T completion tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lit_rl.advantages import GroupMean, RewardAdvantages, TurnAdvantages, decoupled_advantages
from lit_rl.arguments import UsageError
from lit_rl.execution.interface import ProgramRunner
from lit_rl.functional.masking import spread_over_turns, sum_over_turns
from lit_rl.models.policy import Policy
from lit_rl.modules.objective import Objective
from lit_rl.modules.rollout_module import RolloutModule
from lit_rl.modules.settings import Evaluate, Update
from lit_rl.rewards.composite import Composite
from lit_rl.rewards.term import RewardOutput, RewardTerm
from lit_rl.rollout import Collect, Rollout, RunnerFactory
from lit_rl.training.ranks import sum_over_ranks
from lit_rl.types import Experience, Sampling


class GRPO(RolloutModule):
    """Group Relative Policy Optimization on executed programs, and its relatives by arguments.

    Args:
        policy: the policy to train.
        rewards: reward terms.
        sandbox: runs programs; or a function that builds it when a run starts.
        sampling: how training samples; ``num_samples`` is the group size G.
        baseline: from rewards to advantages, a class of :mod:`lit_rl.advantages` or one of your own: ``GroupMean``
            (GRPO; with ``normalize: none`` Dr. GRPO, ``mean`` MaxRL), ``LeaveOneOut`` (RLOO), ``BatchMean``,
            ``RunningMean``, ``NoBaseline`` (the bare reward), or ``MaxRewards`` (only the largest rewards of a group).
            In rows of several turns ``TurnReturns`` and ``Murphy`` give each turn an advantage of its own.
        decouple_terms: compare each reward term on its own, then sum by weight (GDPO), so that a term of small spread
            is not lost beside one of large spread; see :func:`lit_rl.advantages.decoupled_advantages`.
        objective: the policy's loss.
        collect: how rollouts come about: engine, environment, staleness, dynamic sampling.
        update: how a rollout is learned from: optimizer, epochs, minibatches, micro-batches.
        evaluate: how the policy is measured.
        max_rollouts: the run ends after this many rollouts; ``None`` leaves it to the trainer.
        seed: of every random stream of the run; that of Lightning's ``seed_everything`` unless set, else 0.

    Source:
        Shao et al. 2024, section 4.1, https://arxiv.org/abs/2402.03300
    """

    def __init__(
        self,
        policy: Policy,
        rewards: list[RewardTerm] | Composite,
        *,
        sandbox: RunnerFactory | ProgramRunner | None = None,
        sampling: Sampling = Sampling(num_samples=8),  # noqa: B008  # frozen
        baseline: RewardAdvantages = GroupMean(),  # noqa: B008  # has no state
        decouple_terms: bool = False,
        objective: Objective = Objective(),  # noqa: B008
        collect: Collect = Collect(),  # noqa: B008
        update: Update = Update(),  # noqa: B008
        evaluate: Evaluate = Evaluate(),  # noqa: B008
        max_rollouts: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            policy,
            rewards=rewards,
            sandbox=sandbox,
            sampling=sampling,
            objective=objective,
            collect=collect,
            update=update,
            evaluate=evaluate,
            max_rollouts=max_rollouts,
            seed=seed,
        )
        self.by_turn = baseline if isinstance(baseline, TurnAdvantages) else None
        if self.by_turn is not None:
            _require_turns(self.by_turn, collect, objective)
        self.baseline = baseline.comparison
        self.compare_by(self.baseline, "baseline")
        self.decouple_terms = decouple_terms
        assert self.rewards is not None
        if decouple_terms and (self.by_turn or self.objective.penalises_rewards or self.rewards.is_clipped):
            raise UsageError(
                "decouple_terms compares terms, not their sum: leave out the limits of Composite, a baseline of turns "
                "and kl_in: reward"
            )

    def make_experience(self, rollout: Rollout, rewards: RewardOutput) -> Experience:
        """Advantages from rewards; log-probabilities of reference and old policy where the loss needs them."""
        completions, valid = rollout.completions, rewards.valid
        mask = completions.completion_mask
        logprobs = token_rewards = None
        if self.objective.penalises_rewards:  # for all valid rows: which ones get an advantage is not known yet
            logprobs = self.logprobs_of(completions, valid)
            token_rewards = self.kl_penalty.penalise(rewards.credit, logprobs, mask & valid[:, None])
        totals = rewards.rewards if token_rewards is None else token_rewards.sum(-1)
        if self.decouple_terms:
            advantages = self.decoupled(rewards, completions.group_ids)[:, None] * mask
        elif self.by_turn is None:
            advantages = self.baseline(totals, valid, completions.group_ids)[:, None] * mask
        else:
            parts = rewards.decided if token_rewards is None else token_rewards
            advantages = self.advantages_of_turns(self.by_turn, rollout, totals, parts, valid)
        row_mask = valid & ~completions.truncated if self.update.mask_truncated else valid
        if logprobs is None:
            logprobs = self.logprobs_of(completions, self.rows_to_train(row_mask, advantages))
        return Experience(
            completions=completions,
            rewards=rewards.rewards,
            row_mask=row_mask,
            advantages=advantages,
            old_logprobs=logprobs.old,
            ref_logprobs=logprobs.ref,
            token_rewards=token_rewards,
        )

    def decoupled(self, rewards: RewardOutput, group_ids: Tensor) -> Tensor:
        """[N] advantages of the reward terms with a weight, each compared on its own."""
        assert self.rewards is not None
        terms = [term for term in self.rewards.terms if term.weight]
        values = torch.stack([rewards.term_values[term.name] for term in terms], -1)
        weights = values.new_tensor([term.weight for term in terms])
        return decoupled_advantages(
            values, weights, rewards.valid, group_ids, self.baseline, sum_over_ranks=sum_over_ranks
        )

    def advantages_of_turns(
        self, by_turn: TurnAdvantages, rollout: Rollout, totals: Tensor, parts: Tensor, valid: Tensor
    ) -> Tensor:
        """[N, T] the advantage of each turn on its tokens.

        Args:
            by_turn: from rewards to advantages.
            rollout: N rows.
            totals: [N] reward of each row.
            parts: [N, T] what earlier turns earned of it, on their tokens; the last turn earned the rest.
            valid: [N] bool.
        """
        completions, mask = rollout.completions, rollout.completions.completion_mask
        rewards = sum_over_turns(parts.double(), mask, rollout.max_turns)
        counts = torch.tensor([len(turns) for turns in completions.turns], device=mask.device)
        number = torch.arange(rewards.shape[1], device=mask.device)
        is_last = number == counts[:, None] - 1
        if by_turn.judges_every_turn:
            rewards = self.rewards_after_turns(rollout, rewards.shape[1])
            last = totals.double()
        else:
            last = totals - rewards.masked_fill(is_last, 0.0).sum(-1)
        # Equal rewards are told by equality: single precision drops what the sums of parts differ by.
        rewards = torch.where(is_last, last[:, None], rewards).to(totals.dtype)
        return spread_over_turns(by_turn(rewards, number < counts[:, None], valid, completions.group_ids), mask)

    def rewards_after_turns(self, rollout: Rollout, num_turns: int) -> Tensor:
        """[N, K] rewards that rows would have had, had they ended with each turn but their last; NaN if not judged."""
        assert self.rewards is not None
        found = torch.zeros(len(rollout.judgements), num_turns, dtype=torch.float64)
        for number in range(1, num_turns):
            rows = [i for i, turns in enumerate(rollout.completions.turns) if len(turns) > number]
            if rows:
                judgements = [rollout.turn_judgements[i][number - 1] for i in rows]
                earlier = self.rewards(rollout.completions.select(rows).after_turn(number), judgements)
                found[rows, number - 1] = earlier.known_rewards().double().cpu()
        return found.to(rollout.completions.completion_mask.device)


def _require_turns(baseline: TurnAdvantages, collect: Collect, objective: Objective) -> None:
    """Require turns to compare, and a loss that keeps their advantages apart.

    Raises:
        UsageError: the settings leave the baseline no meaning.
    """
    name = type(baseline).__name__
    if collect.environment is None or collect.environment.max_turns < 2:
        raise UsageError(
            f"baseline {name} compares turns, got rows of one turn: set collect.environment to Repair, or baseline to "
            f"{type(baseline.comparison).__name__}"
        )
    if objective.ratio_level == "sequence_product":
        raise UsageError(
            f"objective.ratio_level sequence_product has one term per completion, got baseline {name}, which has one "
            "per turn: set objective.ratio_level to token or sequence"
        )
    if baseline.judges_every_turn and objective.penalises_rewards:
        raise UsageError(
            f"baseline {name} reads the reward of each turn's program, got objective.kl_in reward, which takes the KL "
            "off tokens: set objective.kl_in to loss"
        )
