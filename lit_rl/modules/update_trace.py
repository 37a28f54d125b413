"""Tensors of the current update, for callbacks and crash dumps, and the likely cause of a number that is not finite."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from lit_rl.errors import LitRLError
from lit_rl.training.ranks import gather_whole_tensor
from lit_rl.types import Completions, Experience

Snapshot = dict[str, Any]
"""Plain data and tensors: ``torch.load(file, weights_only=True)`` reads it."""


class NotFiniteError(LitRLError, FloatingPointError):
    """A loss or a gradient is NaN or infinite."""


def snapshot_of_completions(completions: Completions) -> Snapshot:
    """Return rows as they went into the model."""
    return {
        "task_ids": [problem.task_id for problem in completions.problems],
        "texts": [[turn.text for turn in turns] for turns in completions.turns],
        "turns": [[(turn.start, turn.end) for turn in turns] for turns in completions.turns],
        "prompt_ids": completions.prompt_ids.cpu(),
        "completion_ids": completions.completion_ids.cpu(),
        "completion_mask": completions.completion_mask.cpu(),
        "token_mask": completions.token_mask.cpu(),
        "sampler_logprobs": completions.sampler_logprobs.cpu(),
    }


def weight_and_gradient_norms(module: nn.Module, masters: Mapping[nn.Parameter, nn.Parameter]) -> Snapshot:
    """Return norms of trained weights and of gradients (of masters, if there are any): the first place to look at."""
    learning = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    gradients = {name: masters.get(p, p).grad for name, p in learning}
    return {
        "weight_norms": {name: _norm(p) for name, p in learning},
        "gradient_norms": {name: _norm(gradient) for name, gradient in gradients.items() if gradient is not None},
    }


def likely_cause_of_nonfinite(evidence: Mapping[str, Any]) -> str:
    """Locate the first non-finite number between rewards and gradients, and say what helps."""
    inputs = ("rewards", "advantages", "old_logprobs", "ref_logprobs", "token_rewards", "returns")
    bad = [name for name in inputs if name in evidence and not evidence[name].isfinite().all()]
    rate = f" (learning rate {evidence['learning_rate']:.2g})" if "learning_rate" in evidence else ""
    if not all(map(math.isfinite, evidence["weight_norms"].values())):
        return f"weights are not finite: an earlier update was too large{rate}, or a checkpoint is damaged"
    if bad:
        return f"{', '.join(bad)} were not finite before the update: check the reward terms and the reference"
    if "logprobs" in evidence and not evidence["logprobs"].isfinite().all():
        return f"the forward pass overflowed: steps may be too large{rate}, or the dtype too narrow"
    if not all(map(math.isfinite, evidence["gradient_norms"].values())):
        return (
            f"the backward pass overflowed: steps may be too large{rate}, a log-ratio too large or the dtype too narrow"
        )
    return "the loss overflowed: a log-ratio may be too large; lower the learning rate or update.epochs"


def _norm(tensor: Tensor) -> float:
    return float(gather_whole_tensor(tensor.detach().float().norm()))


class UpdateTrace:
    """The current micro-batch and, over a rollout's updates, per-token values of its forward passes.

    Attributes:
        micro: n rows that are being learned from.
        logprobs: [n, T] nats of the policy, once its forward pass is done.
        recorded: [N, T] nats of the rollout, by name: ``logprobs`` and, if computed, ``entropy`` of each token in the
            forward pass of the last update that its row was part of; NaN in rows that were not trained.
    """

    micro: Experience | None
    logprobs: Tensor | None
    _entropy: Tensor | None

    def __init__(self) -> None:
        self.recorded: dict[str, Tensor] = {}
        self.drop_microbatch()

    def begin_microbatch(self, micro: Experience) -> None:
        """Start a micro-batch."""
        self.drop_microbatch()
        self.micro = micro

    def record_forward_pass(self, logprobs: Tensor, entropy: Tensor | None) -> None:
        """Keep the results of the policy's forward pass over the micro-batch, [n, T] nats each."""
        self.logprobs = logprobs.detach()
        self._entropy = None if entropy is None else entropy.detach()

    def store_in_rollout(self, rows: Tensor, like: Tensor) -> None:
        """Store the per-token values at their places in the rollout."""
        for name, values in (("logprobs", self.logprobs), ("entropy", self._entropy)):
            if values is not None and len(rows):
                kept = self.recorded.setdefault(name, torch.full_like(like, torch.nan))
                kept[rows.to(kept.device), : values.shape[1]] = values.to(kept.dtype)

    def drop_microbatch(self) -> None:
        """Drop the micro-batch after its update."""
        self.micro = self.logprobs = self._entropy = None

    def crash_snapshot(self) -> Snapshot:
        """Return the rows as they went into the loss, and their present log-probabilities, each if known."""
        names = ("rewards", "row_mask", "advantages", "old_logprobs", "ref_logprobs", "token_rewards", "returns")
        known = {name: getattr(self.micro, name, None) for name in names} | {"logprobs": self.logprobs}
        rows = snapshot_of_completions(self.micro.completions) if self.micro is not None else {}
        return rows | {name: value.cpu() for name, value in known.items() if value is not None}
