"""What a rule may look at: the numbers of a run so far, and its last rollout."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import FinishedRollout, Rollout

_NUM_TENSORS, _NUM_WEIGHTS = 16, 256

LAG = "engine/lag_updates"
"""Optimizer steps that the policy was ahead of the weights that sampled, mean over rows of a rollout."""


class RunSoFar:
    """Numbers of the last rollouts, the first and best means of each, validations, and the last rollout itself.

    Args:
        patience: how many rollouts a mean is taken over.

    Attributes:
        rollout_step: rollouts that are done.
        rollout: the last, this rank's rows.
        rewards: of the same rows.
        first: by metric, its mean over the first ``patience`` rollouts that were seen.
        best: by metric, the largest of its means so far, the present one left out.
        validations: rollouts that were done, and what was measured then.
        first_norm: norm of some of the weights, see :attr:`weights`, when this start of the run began.
    """

    module: Any
    rollout: Rollout
    rewards: RewardOutput

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.rollout_step = 0
        self.first: dict[str, float] = {}
        self.best: dict[str, float] = {}
        self.validations: list[tuple[int, dict[str, float]]] = []
        self.first_norm = 0.0
        self._recent: deque[dict[str, float]] = deque(maxlen=patience)
        self._last: dict[str, float] = {}
        self._watched: list[Parameter] = []
        self._weights: deque[Tensor] = deque(maxlen=patience + 1)
        self._version: int | None = None

    # -- what rules ask ------------------------------------------------------------------------------------

    @property
    def is_known(self) -> bool:
        """Whether there were enough rollouts to judge by."""
        return len(self._recent) == self.patience

    def values(self, name: str) -> list[float]:
        """A metric in those of the last rollouts that logged it, oldest first."""
        return [metrics[name] for metrics in self._recent if name in metrics]

    def mean(self, name: str) -> float | None:
        """Mean of a metric over those of the last rollouts that logged it; ``None`` if none did."""
        values = self.values(name)
        return sum(values) / len(values) if values else None

    def share(self, name: str) -> float:
        """The same, 0 if none did."""
        return self.mean(name) or 0.0

    def last(self, name: str) -> float | None:
        """The last value of a metric, however long ago; for what only some rollouts measure."""
        return self._last.get(name)

    @property
    def weights(self) -> list[Tensor]:
        """[W] some of the weights that learn, after each of the last ``patience + 1`` rollouts."""
        return list(self._weights)

    # -- what the callback tells ---------------------------------------------------------------------------

    def begin(self, module: Any) -> None:
        """Look at the weights before the first rollout."""
        self._watched = watched_weights(module)
        self.first_norm = float(values_of(self._watched).norm())

    def note(self, module: Any, finished: FinishedRollout) -> None:
        """Take over a rollout and its numbers."""
        if self.is_known:
            for name in self._last:
                mean = self.mean(name)
                if mean is not None:
                    self.first.setdefault(name, mean)
                    self.best[name] = max(mean, self.best.get(name, mean))
        self.module, self.rollout_step = module, module.rollout_step
        self.rollout, self.rewards = finished.rollout, finished.rewards
        self._recent.append({**finished.metrics, LAG: self._lag(module)})
        self._last.update(finished.metrics)
        self._weights.append(values_of(self._watched))

    def validated(self, measured: Mapping[str, float]) -> None:
        """Take over what a validation measured."""
        self.validations.append((self.rollout_step, dict(measured)))

    def _lag(self, module: Any) -> float:
        """Updates between the weights that sampled the rollout and those that were there when it was sampled."""
        versions = self.rollout.completions.weights_versions
        present, self._version = self._version, module.policy.version
        if present is None or not versions:
            return 0.0
        return sum(max(0, present - version) for version in versions) / len(versions)

    def state_dict(self) -> dict[str, Any]:
        """Numbers alone; weights and rollouts are seen again."""
        return {
            "recent": [dict(metrics) for metrics in self._recent],
            "last": dict(self._last),
            "first": dict(self.first),
            "best": dict(self.best),
            "validations": [(count, dict(measured)) for count, measured in self.validations],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        self._recent = deque((dict(metrics) for metrics in state["recent"]), maxlen=self.patience)
        self._last, self.first, self.best = dict(state["last"]), dict(state["first"]), dict(state["best"])
        self.validations = [(count, dict(measured)) for count, measured in state["validations"]]


def some_weights(module: Any) -> Tensor:
    """[W] a few of the weights that learn, copied to the CPU."""
    return values_of(watched_weights(module))


def watched_weights(module: Any) -> list[Parameter]:
    """A few of the tensors that learn: enough to see how far they move.

    Matrices where there are any: the weights of norms are about 1, and would hide how far the others move.
    """
    learning = [p for p in module.policy.parameters() if p.requires_grad]
    learning = [p for p in learning if p.ndim > 1] or learning
    return learning[:: max(1, len(learning) // _NUM_TENSORS)]


def values_of(parameters: Sequence[Parameter]) -> Tensor:
    """[W] the first weights of each that this rank holds, copied to the CPU."""
    chosen = []
    for parameter in parameters:
        local: Any = parameter.detach()
        local = local.to_local() if hasattr(local, "to_local") else local
        chosen.append(local.flatten()[:_NUM_WEIGHTS].double().cpu())
    return torch.cat(chosen) if chosen else torch.zeros(0, dtype=torch.float64)
