"""GRPO and its family: a group of completions per problem, and the group's own rewards as the baseline. No critic.

    1. sample G completions of each problem and run their programs          RolloutModule.collect
    2. reward each completion by what happened                             rewards/
    3. advantage = reward - mean of its group (/ standard deviation)       make_experience, below
    4. minimise the clipped surrogate (+ KL to the reference)              objective.py

Differences from Shao et al. 2024: token-mean loss by default (DAPO); a group of equal rewards is recognised by
equality and skipped before the forward pass; with one update per rollout the policy that sampled is the one that
learns, so no second forward pass computes the old log-probabilities.

Letters: B problems, G completions per problem, N = B * G rows, T completion tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from lit_rl.advantages import RowAdvantages
from lit_rl.bounds import require_at_least
from lit_rl.functional.advantages import Scale
from lit_rl.functional.masking import turn_starts
from lit_rl.models.policy import Policy
from lit_rl.models.streams import StreamKey
from lit_rl.modules.named_advantages import BaselineName, baseline_of, require_group
from lit_rl.modules.options import RolloutOptions
from lit_rl.modules.resampling import FreshProblems, one_sided_groups, replace_groups
from lit_rl.modules.rollout_module import RolloutModule
from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import Rollout
from lit_rl.training.ranks import Means, max_over_ranks
from lit_rl.types import Experience, Problem, Sampling


class GRPO(RolloutModule):
    """Group Relative Policy Optimization on executed programs, and its relatives by arguments.

    Args:
        policy: the policy to train.
        sampling: how training samples; ``num_samples`` is the group size G.
        baseline: a class of :mod:`lit_rl.advantages` or one of your own, with arguments of its own; or by name
            ``group_mean`` (GRPO); ``leave_one_out`` (RLOO: mean of the others); ``batch_mean`` (all completions of all
            ranks); ``none`` (the bare reward); ``max_rewards`` (keep only the rewards that are the largest of their
            group).
        scale_by: with a baseline by name, divide the advantage by the standard deviation of group or batch (``std``,
            the default) or not (``none``, Dr. GRPO).
        token_weights: weigh each token's advantage by its share of the completion's credit (mean 1 over the
            tokens with credit), instead of all alike.
        mask_truncated: leave completions cut by the token limit out of the loss (they stay in the baseline).
        max_resamples: replace groups in which all programs passed, or none did, by groups of other training
            problems, at most this many times per rollout (DAPO's dynamic sampling); 0 keeps them.
        **options: see :class:`RolloutModule`.

    Source:
        Shao et al. 2024, section 4.1, https://arxiv.org/abs/2402.03300
    """

    def __init__(
        self,
        policy: Policy,
        *,
        sampling: Sampling = Sampling(num_samples=8),  # noqa: B008  # frozen
        baseline: RowAdvantages | BaselineName = "group_mean",
        scale_by: Scale | None = None,
        token_weights: bool = False,
        mask_truncated: bool = False,
        max_resamples: int = 0,
        **options: Unpack[RolloutOptions],
    ) -> None:
        super().__init__(policy, sampling=sampling, **options)
        self.baseline = baseline_of(baseline, scale_by)
        require_group(self.baseline, sampling, f"baseline {type(self.baseline).__name__}")
        if sampling.num_samples < 2 and max_resamples:
            raise ValueError(
                f"max_resamples={max_resamples} replaces groups in which all completions do alike, and groups of "
                f"{sampling.num_samples} always do: num_samples must be 2 or more, or max_resamples 0"
            )
        require_at_least(0, max_resamples=max_resamples)
        if max_resamples and self.staleness:
            raise ValueError(
                f"max_resamples={max_resamples} waits for verdicts before it samples again, and staleness 1 is there "
                "not to wait for them: set one of the two to 0"
            )
        self.token_weights = token_weights
        self.mask_truncated = mask_truncated
        self.max_resamples = max_resamples

    def on_train_start(self) -> None:
        """Check whether there are other problems to draw from.

        Raises:
            ValueError: ``max_resamples`` with a loader that does not know all problems.
        """
        super().on_train_start()
        if self.max_resamples and not hasattr(self.trainer.train_dataloader, "problems"):
            raise ValueError(
                f"max_resamples={self.max_resamples} draws other training problems, and this loader has batches only: "
                "train on a TaskDataModule or a ProblemLoader, or set max_resamples to 0"
            )

    def collect_training(self, batch: Sequence[Problem]) -> Rollout:
        """Sample and judge; while some rank has one-sided groups, sample other problems in their place."""
        rollout = super().collect_training(batch)
        if not self.max_resamples:
            return rollout
        loader: Any = self.trainer.train_dataloader
        purpose = StreamKey(self.seed, "resample", self.rollout_step)
        fresh = FreshProblems(loader.problems, batch, purpose, self.trainer.global_rank)
        for attempt in range(self.max_resamples):
            groups = one_sided_groups(rollout)
            problems = fresh.take(len(groups))
            # Every rank samples as often as the others, even one with nothing to replace.
            if max_over_ranks(len(problems), self.device) == 0:
                break
            key = StreamKey(self.seed, f"resample/{attempt}", self.rollout_step)
            groups = groups[: len(problems)]
            rollout = replace_groups(rollout, groups, self.collect(problems, self.sampling, key))
        return rollout

    def algorithm_metrics(self, batch: Sequence[Problem], rollout: Rollout, experience: Experience) -> Means:
        """Log the share of groups that were replaced: those that now answer another problem."""
        means = Means()
        if self.max_resamples:
            firsts = [rows[0] for rows in rollout.completions.groups().values()]
            now = [rollout.completions.problems[row].task_id for row in firsts]
            replaced = sum(task_id != before.task_id for task_id, before in zip(now, batch, strict=True))
            means.add_sum("group/resampled_fraction", replaced, len(batch))
        return means

    def make_experience(self, rollout: Rollout, rewards: RewardOutput) -> Experience:
        """Advantages from rewards; log-probabilities of reference and old policy where the loss needs them."""
        completions, valid = rollout.completions, rewards.valid
        mask = completions.completion_mask
        logprobs = token_rewards = None
        if self.objective.penalises_rewards:  # before advantages: any row may get one
            logprobs = self.logprobs_of(completions, valid)
            token_rewards = self.objective.penalised(rewards.credit, *logprobs, mask & valid[:, None])
        totals = rewards.rewards if token_rewards is None else token_rewards.sum(-1)
        weights = credit_weights(rewards.credit, mask) if self.token_weights else 1.0
        advantages = self.baseline(totals, valid, completions.group_ids)[:, None] * weights * mask
        row_mask = valid & ~completions.truncated if self.mask_truncated else valid
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

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """A baseline may have state."""
        super().on_save_checkpoint(checkpoint)
        checkpoint["baseline"] = self.baseline.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore it."""
        super().on_load_checkpoint(checkpoint)
        if "baseline" in checkpoint:
            self.baseline.load_state_dict(checkpoint["baseline"])


def credit_weights(credit: Tensor, mask: Tensor) -> Tensor:
    """[N, T] weights of the tokens by the size of their credit.

        w_it = n_i |c_it| / sum_t |c_it|        sums over the n_i tokens of one turn, so the mean weight of a turn is 1

    A turn without any credit keeps weight 1 everywhere, as all turns before the last do.

    Args:
        credit: [N, T] reward units.
        mask: [N, T] bool; a turn lies between two holes.
    """
    first = turn_starts(mask)
    turn = first.cumsum(-1)
    weights = torch.zeros_like(credit)
    for number in range(1, int(first.sum(-1).max()) + 1 if mask.numel() else 1):
        here = mask & (turn == number)
        sizes = credit.abs() * here
        total = sizes.sum(-1, keepdim=True)
        lengths = here.sum(-1, keepdim=True)
        weighed = torch.where(total > 0, lengths * sizes / total.clamp(min=1e-30), torch.ones_like(credit))
        weights = torch.where(here, weighed, weights)
    return weights
