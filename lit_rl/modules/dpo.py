"""Direct preference optimization: make the better of two completions likelier than the worse one.

    1. pairs of completions whose execution rewards differ            data/preferences.py
    2. log-probability of both under policy and reference             loss, below
    3. minimise sigmoid, hinge or IPO loss of the margin              functional/preference_losses.py

No sampling and no program runs in training; validation runs what the policy writes for the tasks named in
``validation_tasks``.

Letters: M pairs, N = 2 M rows: chosen, rejected, chosen, rejected ..., T completion tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor

from lit_rl.data.preferences import pair_of
from lit_rl.functional.masking import aggregate, loss_denominator
from lit_rl.functional.preference_losses import PreferenceLoss, implicit_rewards, preference_loss
from lit_rl.models.policy import Policy
from lit_rl.models.reference import Reference
from lit_rl.modules.options import TextOptions
from lit_rl.modules.text_module import Metrics, TextModule
from lit_rl.rollout import Evaluated
from lit_rl.training.modes import evaluating
from lit_rl.training.ranks import max_over_ranks
from lit_rl.types import Completions, Problem


class DPO(TextModule):
    """Learn from pairs of completions; the reference is the policy at its start.

    Dropout is off: policy and reference are compared, and the first margin is exactly 0.

    Args:
        policy: the policy to train. Its reference is a frozen copy, its adapters switched off, or the frozen copy of
            the adapter it started from.
        kind: ``sigmoid`` (DPO), ``ipo`` or ``hinge``.
        beta: reward units per nat; smaller lets the policy go further from the reference.
        **options: see :class:`TextModule`.

    Source:
        Rafailov et al. 2023, eq. 7, https://arxiv.org/abs/2305.18290
    """

    metric_prefix = "dpo"

    def __init__(
        self, policy: Policy, *, kind: PreferenceLoss = "sigmoid", beta: float = 0.1, **options: Unpack[TextOptions]
    ) -> None:
        super().__init__(policy, **options)
        if not beta > 0:
            raise ValueError(f"beta must be above 0, got {beta}: it says how much a nat of log-ratio is worth")
        self.kind = kind
        self.beta = beta
        self.reference: Reference | None = None

    def configure_model(self) -> None:
        """Load the policy; keep its start as the reference."""
        super().configure_model()
        self.reference = self.policy.make_reference()

    def training_step(self, batch: Sequence[Problem], batch_idx: int) -> None:
        """One update, without dropout."""
        with evaluating(self):
            super().training_step(batch, batch_idx)

    def texts(self, problem: Problem) -> tuple[str, ...]:
        """The chosen and the rejected completion.

        Raises:
            ValueError: in training, a problem without a pair.
        """
        if "pair" in problem.fields:
            pair = pair_of(problem)
            return pair.chosen, pair.rejected
        if self.trainer.training:
            raise ValueError(
                f"problem {problem.task_id} has no pair to learn from: train DPO on lit_rl.data.PreferencePairs"
            )
        return ()

    def share(self, completions: Completions) -> Tensor:
        """Number of pairs."""
        return loss_denominator(completions.completion_mask, "sequence_sum") / 2

    def loss(self, completions: Completions, denominator: Tensor) -> tuple[Tensor, Metrics]:
        """Mean loss of the update's pairs, and means to log."""
        logprobs = self.policy.logprobs(completions).sum(-1)
        assert self.reference is not None
        ref_logprobs = self.reference.logprobs(completions).sum(-1)
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

    def evaluate(self, batch: Sequence[Problem], batch_idx: int, dataloader_idx: int) -> Evaluated:
        """Run what the policy writes; pairs have no program to judge, only texts."""
        tasks = [problem for problem in batch if "pair" not in problem.fields]
        if not max_over_ranks(len(tasks), self.device):  # all ranks sample, or none
            return Evaluated({})
        return super().evaluate(tasks, batch_idx, dataloader_idx)
