"""The history of a run that rules look at: its numbers so far, and its last rollout."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping, Sequence
from math import hypot, inf, sqrt
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter

from lit_rl.reports.diagnosis.row_shares import row_shares
from lit_rl.reports.diagnosis.stop_strings import Decode, stop_shares
from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import FinishedRollout, Rollout
from lit_rl.rollout.records import TrainedModule

_NUM_TENSORS, _NUM_WEIGHTS = 16, 256
ADAMS_FASTEST, _USUAL = 0.1, 1e-4
"""Above the first no learning rate of Adam's kind is meant: a weight moves by about the rate in each update."""
_ERRORS = 4.0
"""Standard errors of a difference that noise explains; of the many windows of a run the best one is compared."""
_GONE = 0.05
"""A reward is gone if at most this share is left of the way from the lowest (or 0) to the best."""

_SAVED = ("validations", "gone_since", "least", "highest", "worst", "begun", "num_begun")
"""Attributes that a checkpoint holds as they are."""

LAG = "engine/lag_updates"
"""Optimizer steps that the policy was ahead of the weights that sampled, mean over rows of a rollout."""


class Level(NamedTuple):
    """Mean of a metric over some rollouts, and its standard error."""

    mean: float
    error: float = 0.0

    def exceeds(self, other: Level) -> bool:
        """Return whether this mean is larger than another by more than noise explains."""
        return self.mean - other.mean > _ERRORS * hypot(self.error, other.error)


class Peak(NamedTuple):
    """The rollout that earned most.

    Args:
        rollout: its number, from 1.
        reward: its mean reward.
        passed: its pass rate; ``None`` where no program runs.
        rows: how many it had on this rank.
        floor: lowest mean reward until then, at most 0: a reward may begin below 0.
        error: standard error of the mean reward over its rows.
    """

    rollout: int
    reward: float
    passed: float | None
    rows: int
    floor: float = 0.0
    error: float = 0.0

    def is_gone(self, reward: float) -> bool:
        """Return whether a reward is close to the floor, compared to the peak."""
        return reward <= self.floor + _GONE * (self.reward - self.floor)


class Where(NamedTuple):
    """Places of settings, and commands for this run, as messages name them.

    Args:
        check_data: the command that runs the task's reference solutions.
        stop_strings: where they are set.
        show: the command that prints completions of this run.
        fit: the command that starts this run; settings follow it.
    """

    check_data: str = "lit-rl check-data --data TASK"
    stop_strings: str = "stop_strings are set where the task makes its problems"
    show: str = "lit-rl show RUN"
    fit: str = "lit-rl fit --config FILE"


class RunHistory:
    """Numbers of the last rollouts, the first and best means of each, validations, and the last rollout itself.

    Args:
        patience: how many rollouts a mean is taken over.

    Attributes:
        rollout_step: rollouts that are done.
        rollout: the last, this rank's rows.
        rewards: of the same rows.
        first: by metric, its level in the first ``patience`` rollouts that were seen.
        begun: metrics of the first rollout that was seen; ``num_begun`` is its number of groups on this rank.
        best: by metric, the largest of its levels so far, the present one left out.
        least: by metric, its lowest value in a rollout.
        highest: largest reward of a row so far; ``worst`` is the smallest.
        validations: rollouts that were done, and what was measured then.
        peak: the rollout that earned most; ``None`` before the first.
        gone_since: first of the last rollouts that all earned about nothing compared to it; 0 if the last earned more.
        where: what messages name.
        first_norm: norm of some of the weights, see :attr:`weights`, when this start of the run began.
        optimizer: settings of its first parameter group, as this start of the run began.
    """

    module: TrainedModule
    rollout: Rollout
    rewards: RewardOutput

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.rollout_step = 0
        self.begun: dict[str, float] = {}
        self.num_begun = 0
        self.first: dict[str, Level] = {}
        self.best: dict[str, Level] = {}
        self.least: dict[str, float] = {}
        self.highest, self.worst = -inf, inf
        self.validations: list[tuple[int, dict[str, float]]] = []
        self.peak: Peak | None = None
        self.gone_since = 0
        self.where = Where()
        self.first_norm = 0.0
        self.optimizer: Mapping[str, Any] = {}
        self._recent: deque[dict[str, float]] = deque(maxlen=patience)
        self._last: dict[str, float] = {}
        self._watched: list[Parameter] = []
        self._weights: deque[Tensor] = deque(maxlen=patience + 1)
        self._version: int | None = None

    # -- what rules ask ------------------------------------------------------------------------------------

    @property
    def is_known(self) -> bool:
        """True if there were enough rollouts to judge by."""
        return len(self._recent) == self.patience

    def values(self, name: str) -> list[float]:
        """A metric in those of the last rollouts that logged it, oldest first."""
        return [metrics[name] for metrics in self._recent if name in metrics]

    def mean(self, name: str) -> float | None:
        """Mean of a metric over those of the last rollouts that logged it; ``None`` if none did."""
        values = self.values(name)
        return sum(values) / len(values) if values else None

    def level(self, name: str) -> Level | None:
        """The same with its standard error."""
        values = self.values(name)
        if not values:
            return None
        mean, number = sum(values) / len(values), len(values)
        squares = sum((one - mean) ** 2 for one in values)
        return Level(mean, sqrt(squares / (number - 1) / number) if number > 1 else 0.0)

    def start(self, name: str) -> Level | None:
        """Reward or pass rate of the first rollout; its error counts groups, since rows of a group are alike."""
        if name not in self.begun:
            return None
        mean = self.begun[name]
        spread = self.begun.get("reward/std", inf) if name == "reward/mean" else sqrt(mean * (1 - mean))
        return Level(mean, spread / sqrt(max(1, self.num_begun)))

    @property
    def rate(self) -> float:
        """Largest learning rate of the last rollouts."""
        return self.largest("optimizer/learning_rate")

    @property
    def has_risen(self) -> bool:
        """True if the reward is above that of the first rollouts, by more than noise explains."""
        first = self.first.get("reward/mean") or self.start("reward/mean")
        now = self.level("reward/mean")
        return first is not None and now is not None and now.exceeds(first)

    @property
    def estimator(self) -> str:
        """Name of the class that makes advantages of rewards."""
        module: Any = self.module
        return type(getattr(module, "baseline", None) or getattr(module, "estimator", module)).__name__

    @property
    def slower(self) -> str:
        """The command that starts this run with a tenth of its learning rate, or with a usual one."""
        far = self.rate > ADAMS_FASTEST and "betas" in self.optimizer
        return f"{self.where.fit} --model.update.optimizer.init_args.lr {_USUAL if far else self.rate / 10:.2g}"

    @property
    def too_fast(self) -> tuple[str, str]:
        """A learning rate that is too large, as a cause with its command."""
        return f"too large a step: lower the learning rate ({self.rate:.2g})", self.slower

    @property
    def lowest(self) -> float:
        """Lowest mean reward of a rollout so far, at most 0."""
        return min(0.0, self.least.get("reward/mean", 0.0))

    def share(self, name: str) -> float:
        """The same, 0 if none did."""
        return self.mean(name) or 0.0

    def last(self, name: str) -> float | None:
        """The last value of a metric, however long ago; for what only some rollouts measure."""
        return self._last.get(name)

    def largest(self, name: str) -> float:
        """The largest value of a metric in the last rollouts, 0 if none logged it."""
        return max(self.values(name), default=0.0)

    @property
    def newest(self) -> Mapping[str, float]:
        """Metrics of the last rollout."""
        return self._recent[-1] if self._recent else {}

    @property
    def weights(self) -> list[Tensor]:
        """[W] some of the weights that learn, before and after each of the last ``patience`` rollouts."""
        return list(self._weights)

    @property
    def decode(self) -> Decode:
        """From ids to text, as :meth:`lit_rl.models.codecs.codec.Codec.decode`."""
        return self.module.policy.codec.decode

    # -- what the callback adds ----------------------------------------------------------------------------

    def begin(self, module: TrainedModule, where: Where, optimizer: Mapping[str, Any] | None = None) -> None:
        """Look at the weights before the first rollout."""
        self.where, self.optimizer = where, optimizer or {}
        self._watched = watched_weights(module)
        self._weights.append(values_of(self._watched))
        self.first_norm = float(self._weights[-1].norm())

    def add_rollout(self, module: TrainedModule, finished: FinishedRollout) -> None:
        """Take over a rollout and its numbers."""
        self.rollout, self.rewards = finished.rollout, finished.rewards
        known = finished.rewards.rewards[finished.rewards.valid].tolist()
        self.highest, self.worst = max([self.highest, *known]), min([self.worst, *known])
        own = {LAG: self._lag(module), **stop_shares(finished.rollout), **row_shares(module, finished)}
        if not self.begun:
            self.begun, self.num_begun = {**finished.metrics, **own}, len(finished.rollout.completions.groups())
        self.add_numbers(module, {**finished.metrics, **own})

    def add_numbers(self, module: TrainedModule, metrics: Mapping[str, float]) -> None:
        """Take over the numbers of a rollout, or of an update in a run without rollouts."""
        if self.is_known:
            for name in self._last:
                level = self.level(name)
                if level is not None:
                    self.first.setdefault(name, level)
                    self.best[name] = max(level, self.best.get(name, level))
        self.module, self.rollout_step = module, module.clock.count
        self._recent.append(dict(metrics))
        self._last.update(metrics)
        self.least |= {name: min(value, self.least.get(name, value)) for name, value in metrics.items()}
        self._note_reward(metrics)
        self._weights.append(values_of(self._watched))

    def add_validation(self, measured: Mapping[str, float]) -> None:
        """Take over the metrics of a validation."""
        self.validations.append((self.rollout_step, dict(measured)))

    def _note_reward(self, metrics: Mapping[str, float]) -> None:
        """Check whether the rollout earned more than all before, or about nothing compared to the best."""
        reward = metrics.get("reward/mean")
        if reward is None:
            return
        if self.peak is None or reward > self.peak.reward:
            passed, rows = metrics.get("execution/pass_rate"), len(self.rollout.judgements)
            error = metrics.get("reward/std", 0.0) / sqrt(max(1, rows))
            self.peak = Peak(self.rollout_step, reward, passed, rows, self.lowest, error)
        gone = self.peak is not None and self.peak.is_gone(reward)
        self.gone_since = (self.gone_since or self.rollout_step) if gone else 0

    def _lag(self, module: TrainedModule) -> float:
        """Updates by which the sampling weights were older than the policy's at that time."""
        versions = self.rollout.completions.weights_versions
        present, self._version = self._version, module.policy.version
        if present is None or not versions:
            return 0.0
        return sum(max(0, present - version) for version in versions) / len(versions)

    def state_dict(self) -> dict[str, Any]:
        """The metrics alone; weights and rollouts are collected anew."""
        return {
            "recent": list(self._recent),
            "last": dict(self._last),
            "peak": None if self.peak is None else tuple(self.peak),
            "first": {name: tuple(level) for name, level in self.first.items()},
            "best": {name: tuple(level) for name, level in self.best.items()},
            **copy.deepcopy({name: getattr(self, name) for name in _SAVED}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them; checkpoints of version 0.3.0 lack some, and have means without their errors."""
        self._recent, self._last = deque(state["recent"], maxlen=self.patience), dict(state["last"])
        self.peak = Peak(*state["peak"]) if state.get("peak") else None
        for name in ("first", "best"):
            known = {metric: one if isinstance(one, tuple) else (one,) for metric, one in state[name].items()}
            setattr(self, name, {metric: Level(*one) for metric, one in known.items()})
        for name in _SAVED:
            setattr(self, name, copy.deepcopy(state.get(name, getattr(self, name))))


def some_weights(module: TrainedModule) -> Tensor:
    """[W] a few of the weights that learn, copied to the CPU."""
    return values_of(watched_weights(module))


def watched_weights(module: TrainedModule) -> list[Parameter]:
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
