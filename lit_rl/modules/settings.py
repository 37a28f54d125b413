"""Arguments of the modules, in groups: optimization and evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable

from lit_rl.errors import UsageError
from lit_rl.math.masking import AggregateMode
from lit_rl.signature_check import NonNegativeInt, PositiveFloat, PositiveInt, PositiveShare, checked_dataclass
from lit_rl.types import Sampling


class AdamWByDefault(dict[str, Any]):
    """AdamW with a learning rate of 1e-6: a function of the parameters that a configuration can write and change.

    The command line reads defaults from an object of the group, and could not write a plain function as a class.
    """

    def __init__(self) -> None:
        super().__init__(class_path="torch.optim.AdamW", init_args={"lr": 1e-6})

    def __call__(self, parameters: Any) -> torch.optim.Optimizer:
        """Build the optimizer."""
        return torch.optim.AdamW(parameters, **self["init_args"])

    __hash__ = object.__hash__  # type: ignore[assignment]  # nothing changes it, so it may be a default


@checked_dataclass
@dataclass(frozen=True)
class Optimization:
    """Settings of one optimizer step.

    Args:
        optimizer: a function that makes an optimizer from parameters.
        lr_scheduler: a function that makes a schedule for the optimizer. The schedule is stepped once per training
            step, or whenever its metric was measured if it is a ``ReduceLROnPlateau``.
        gradient_clip_norm: largest norm of the gradient of an update; ``None`` for no limit.
        microbatch_size: rows per forward and backward on one rank (``SFT``, ``DPO``: problems); ``None`` for all of
            an update at once. Changes memory and speed, never the gradient.
    """

    optimizer: OptimizerCallable = AdamWByDefault()  # noqa: RUF009
    lr_scheduler: LRSchedulerCallable | None = None
    gradient_clip_norm: PositiveFloat | None = 1.0
    microbatch_size: PositiveInt | None = None


@checked_dataclass
@dataclass(frozen=True)
class UpdateConfig(Optimization):
    """Settings of a rollout's updates: ``epochs * minibatches`` optimizer steps.

    Args:
        epochs: passes over the experience of one rollout.
        minibatches: optimizer steps per pass; rows are dealt out at random.
        microbatch_tokens: largest number of tokens in a micro-batch, padding included; a shared prompt counts once. A
            longer row is a micro-batch of its own. With ``microbatch_size`` both limits apply.
        aggregate: how to average token losses, see :func:`lit_rl.math.masking.aggregate`.
        mask_truncated: leave completions cut by the token limit out of the loss (they stay in the baseline).
        max_kl: skip the rest of a rollout's updates once the policy is further than this from where the updates began
            (nats per token, mean over all ranks); ``None`` for no limit.
        refresh_reference_every: number of rollouts after which the policy becomes the new reference; ``None``: never.
        refresh_reference_share: how far the reference then moves towards the policy: 1 all the way, less for an
            exponential moving average of the policy's weights.
    """

    epochs: PositiveInt = 1
    minibatches: PositiveInt = 1
    microbatch_tokens: PositiveInt | None = None
    aggregate: AggregateMode = "token_mean"
    mask_truncated: bool = False
    max_kl: PositiveFloat | None = None
    refresh_reference_every: PositiveInt | None = None
    refresh_reference_share: PositiveShare = 1.0

    def __post_init__(self) -> None:
        if self.refresh_reference_share < 1 and self.refresh_reference_every is None:
            raise UsageError(
                f"refresh_reference_share={self.refresh_reference_share:g} needs refresh_reference_every: set "
                "refresh_reference_every to 1 for a moving average"
            )

    @cached_property
    def steps_per_rollout(self) -> int:
        """Optimizer steps of one rollout."""
        return self.epochs * self.minibatches


@checked_dataclass
@dataclass(frozen=True)
class CriticConfig:
    """Settings of the critic's updates.

    Args:
        learning_rate: learning rate of the critic; ``None`` for the policy's, but at least 1e-5: the critic's head is
            new and learns nothing at 1e-6, which is usual for a policy.
        gradient_clip_norm: largest norm of the critic's gradient; ``None`` for no limit.
        coef: weight of the critic's loss; with Adam, which divides by the gradient's size, it affects only the clipping
            of the norm and regularisation.
        value_clip: largest move of a value per rollout, reward units; ``None`` for plain squared error.
        warmup_rollouts: number of first rollouts in which only the critic learns.
        bootstrap_truncated: for completions that the token limit cut, use the critic's value in place of the reward,
            unless their program passed; see :func:`lit_rl.math.returns.treat_truncation`.
    """

    learning_rate: PositiveFloat | None = None
    gradient_clip_norm: PositiveFloat | None = 1.0
    coef: PositiveFloat = 1.0
    value_clip: PositiveFloat | None = None
    warmup_rollouts: NonNegativeInt = 0
    bootstrap_truncated: bool = False


@checked_dataclass
@dataclass(frozen=True)
class EvaluationConfig:
    """Settings of evaluation.

    Args:
        sampling: settings of validation by name; metrics are ``val/<name>/...``. ``None`` for one greedy completion
            with the ``max_tokens`` of training.
        predict: sampling settings of ``predict``.
    """

    sampling: Mapping[str, Sampling] | None = None
    predict: Sampling = Sampling(num_samples=8)  # noqa: RUF009  # frozen

    def samplings_or_greedy(self, max_tokens: int | None = None) -> dict[str, Sampling]:
        """Return the sampling settings of validation; by default greedy, with this token limit."""
        if self.sampling:
            return dict(self.sampling)
        greedy = Sampling(temperature=0.0)
        return {"greedy": greedy if max_tokens is None else Sampling(temperature=0.0, max_tokens=max_tokens)}
