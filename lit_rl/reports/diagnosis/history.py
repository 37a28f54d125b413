"""The input of the rules: the metrics so far, the last rollout, and the settings of the run."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from math import hypot, inf, sqrt
from typing import Any, NamedTuple

from torch import Tensor

from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import Rollout
from lit_rl.types import StopReason

Decode = Callable[[Sequence[int], StopReason, Sequence[str]], tuple[str, object]]
"""From ids to text, as :meth:`lit_rl.models.codecs.codec.Codec.decode`."""

MAX_ADAM_LR = 0.1
"""No learning rate above this is meant for Adam, which moves a weight by about the rate in each update."""
USUAL_ADAM_LR = 1e-4

REWARD, PASSED = "reward/mean", "execution/pass_rate"
HIGHEST, LOWEST, ROWS, GROUPS = "rollout/highest_reward", "rollout/lowest_reward", "rollout/rows", "rollout/groups"
"""Largest and smallest reward of a row, number of rows, and number of groups of a rollout (this rank's)."""
LAG = "rollout/lag"
"""Optimizer steps that the policy was ahead of the weights that sampled, mean over rows."""
CUT = "rollout/cut_by_stop_string"
"""Share of the rows whose program breaks off where a stop string ended it."""
WEIGHT_SIZE, MOVED = "weights/size", "weights/moved"
"""Root mean square of a few of the weights, and of their change in a rollout."""

NOISE = 4.0
"""Standard errors of a difference that noise explains; the best of the many windows of a run is compared."""
SOLVED, UNSOLVED = 0.9, 0.7
"""A task is solved from this pass rate on, if it was below the second before."""


class MeanWithError(NamedTuple):
    """Mean of a metric over some rollouts, and its standard error."""

    mean: float
    error: float = 0.0

    def exceeds(self, other: MeanWithError) -> bool:
        """Return whether this mean is larger than another by more than noise explains."""
        return self.mean - other.mean > NOISE * hypot(self.error, other.error)


@dataclass(frozen=True)
class LastRollout:
    """The last rollout, of this rank.

    Args:
        rollout: N rows and their judgements.
        rewards: of the same rows.
        logprobs: [N, T] nats of the trainer under the weights that sampled, NaN where there are none.
        decode: from ids to text; ``None`` if nothing decodes.
    """

    rollout: Rollout
    rewards: RewardOutput
    logprobs: Tensor | None = None
    decode: Decode | None = None

    @property
    def runs_programs(self) -> bool:
        """True if a row has a check that runs programs."""
        return any(judgement.problem.check.runs_program for judgement in self.rollout.judgements)


@dataclass(frozen=True)
class RunSettings:
    """Settings of the run, and the commands that messages name.

    Args:
        fit: starts this run; settings follow it.
        show: prints completions of this run.
        check_data: runs the references of the task.
        stop_strings: where stop strings are set.
        optimizer: of its first parameter group.
        steps: updates of a rollout.
        clip_norm: ``gradient_clip_norm``.
        num_weights: that learn.
        staleness: rollouts that sampling runs ahead.
        filtered: whether top-k or top-p filter what is sampled.
        precision: of the trainer, and of the policy's weights.
        dropout: names of modules that drop something.
        term_weights: by name of the reward term.
        special_tokens: by id, those that are no EOS.
    """

    fit: str = "lit-rl fit --config FILE"
    show: str = "lit-rl show RUN"
    check_data: str = "lit-rl check-data --data TASK"
    stop_strings: str = "stop_strings are set where the task makes its problems"
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    steps: int = 1
    clip_norm: float | None = None
    num_weights: int = 0
    staleness: int = 0
    filtered: bool = False
    precision: str = "unknown"
    dropout: Sequence[str] = ()
    term_weights: Mapping[str, float] = field(default_factory=dict)
    special_tokens: Mapping[int, str] = field(default_factory=dict)

    def smaller_rate_hint(self, rate: float) -> tuple[str, str]:
        """Return a learning rate that is too large as a cause, and the command with a smaller one."""
        lower = USUAL_ADAM_LR if rate > MAX_ADAM_LR and "betas" in self.optimizer else rate / 10
        return f"lower the learning rate ({rate:.2g})", f"{self.fit} --model.update.optimizer.init_args.lr {lower:.2g}"


class MetricHistory:
    """Metrics of the last ``patience`` rollouts, and a few statistics of all before.

    Attributes:
        rollout: number of the last one, from 1.
        recent: metrics of the last rollouts, oldest first.
        first_metrics: metrics of the first rollout.
        latest: by metric its last value, however long ago.
        first: by metric its level in the first ``patience`` rollouts.
        best: by metric the largest of its levels so far, without the present one.
        lowest: by metric its smallest value in a rollout.
        highest: by metric its largest value in a rollout.
        peak: number and metrics of the rollout that earned most.
        validations: number of the rollout, and what was measured after it.
    """

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.rollout = 0
        self.recent: deque[dict[str, float]] = deque(maxlen=patience)
        self.first_metrics: dict[str, float] = {}
        self.latest: dict[str, float] = {}
        self.first: dict[str, MeanWithError] = {}
        self.best: dict[str, MeanWithError] = {}
        self.lowest: dict[str, float] = {}
        self.highest: dict[str, float] = {}
        self.peak: tuple[int, dict[str, float]] = (0, {})
        self.validations: list[tuple[int, dict[str, float]]] = []

    def add(self, rollout: int, metrics: Mapping[str, float]) -> None:
        """Add the metrics of a rollout."""
        if self.is_ready:
            levels = {name: level for name in self.latest if (level := self.mean_with_error(name)) is not None}
            self.first = levels | self.first
            self.best |= {name: max(level, self.best.get(name, level)) for name, level in levels.items()}
        self.rollout = rollout
        self.first_metrics = self.first_metrics or dict(metrics)
        self.recent.append(dict(metrics))
        self.latest |= metrics
        self.lowest |= {name: min(value, self.lowest.get(name, inf)) for name, value in metrics.items()}
        if metrics.get(REWARD, -inf) > self.highest.get(REWARD, -inf):
            self.peak = rollout, dict(metrics)
        self.highest |= {name: max(value, self.highest.get(name, -inf)) for name, value in metrics.items()}

    def add_validation(self, measured: Mapping[str, float]) -> None:
        """Add the metrics of a validation."""
        self.validations.append((self.rollout, dict(measured)))

    @property
    def is_ready(self) -> bool:
        """True if there were enough rollouts to judge by."""
        return len(self.recent) == self.patience

    def values(self, name: str) -> list[float]:
        """A metric in those of the last rollouts that logged it."""
        return [metrics[name] for metrics in self.recent if name in metrics]

    def mean_with_error(self, name: str) -> MeanWithError | None:
        """Mean and standard error over those of the last rollouts that logged it; ``None`` if none did."""
        values = self.values(name)
        if not values:
            return None
        mean, number = sum(values) / len(values), len(values)
        squares = sum((one - mean) ** 2 for one in values)
        return MeanWithError(mean, sqrt(squares / (number - 1) / number) if number > 1 else 0.0)

    def mean(self, name: str) -> float:
        """Mean over those of the last rollouts that logged it; 0 if none did."""
        level = self.mean_with_error(name)
        return 0.0 if level is None else level.mean

    @property
    def learning_rate(self) -> float:
        """Largest learning rate of the last rollouts."""
        return max(self.values("optimizer/learning_rate"), default=0.0)

    @property
    def reward_floor(self) -> float:
        """Lowest mean reward of a rollout so far, at most 0: a reward may begin below 0."""
        return min(0.0, self.lowest.get(REWARD, 0.0))

    @property
    def first_reward(self) -> MeanWithError:
        """Mean reward of the first rollout; its error counts groups, since rows of a group are alike."""
        spread = self.first_metrics.get("reward/std", inf) / sqrt(max(1.0, self.first_metrics.get(GROUPS, 1.0)))
        return MeanWithError(self.first_metrics.get(REWARD, 0.0), spread)

    @property
    def has_earned(self) -> bool:
        """True if the best rollout earned more than a few lucky hits."""
        _, peak = self.peak
        error = peak.get("reward/std", 0.0) / sqrt(max(1.0, peak.get(ROWS, 1.0)))
        # Under tests of another problem some program passes now and then.
        lucky = self.best.get(PASSED, MeanWithError(0.0)).mean <= 0.01 and peak.get(PASSED, 1.0) <= 0.05
        return not lucky and peak.get(REWARD, 0.0) - self.reward_floor > 3 * error

    @property
    def num_unrewarded_rollouts(self) -> int:
        """Number of the last rollouts in a row that earned next to nothing, if an earlier one did earn something."""
        nothing = self.reward_floor + 0.05 * (self.peak[1].get(REWARD, 0.0) - self.reward_floor)
        rewards = reversed(self.values(REWARD))
        return len(list(takewhile(lambda one: one <= nothing, rewards))) if self.has_earned else 0

    @property
    def is_solved(self) -> bool:
        """True if the run learned its task: it earns the most that any row ever did, and earned less before."""
        if self.values(PASSED):
            passed = max(self.mean(PASSED), self.recent[-1].get(PASSED, 0.0))
            return passed >= SOLVED and self.lowest[PASSED] < UNSOLVED
        top = self.highest.get(HIGHEST, 0.0)
        span = top - self.lowest.get(LOWEST, 0.0)
        return span > 0 and self.mean(REWARD) >= top - 0.02 * span and self.lowest[REWARD] < top - 0.1 * span

    def state_dict(self) -> dict[str, Any]:
        """Plain data, for a checkpoint."""
        state = {name: value for name, value in vars(self).items() if name != "patience"}
        levels = {name: {metric: tuple(one) for metric, one in state[name].items()} for name in ("first", "best")}
        return copy.deepcopy({**state, "recent": list(self.recent), **levels})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        vars(self).update(copy.deepcopy(dict(state)))
        self.recent = deque(self.recent, maxlen=self.patience)
        for name in ("first", "best"):
            setattr(self, name, {metric: MeanWithError(*one) for metric, one in state[name].items()})
