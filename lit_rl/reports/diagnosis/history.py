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
"""A function from ids to text, such as :meth:`lit_rl.models.codecs.codec.Codec.decode`."""

MAX_ADAM_LR = 0.1
"""No learning rate above this is meant for Adam, which moves a weight by about the rate in each update."""
USUAL_ADAM_LR = 1e-4

REWARD, PASSED = "reward/mean", "execution/pass_rate"
HIGHEST, LOWEST, ROWS, GROUPS = "rollout/highest_reward", "rollout/lowest_reward", "rollout/rows", "rollout/groups"
"""Largest and smallest reward of a row, number of rows, and number of groups of a rollout (this rank's)."""
LAG = "rollout/lag"
"""Optimizer steps by which the policy was ahead of the weights that sampled, mean over rows."""
CUT = "rollout/cut_by_stop_string"
"""Share of the rows whose program breaks off where a stop string ended it."""
WEIGHT_SIZE, MOVED = "weights/size", "weights/moved"
"""Root mean square of a few weights, and of the change of these weights in a rollout."""

NOISE = 4.0
"""A difference of so many standard errors may still be noise: the best of a run's many windows is compared."""
SOLVED, UNSOLVED = 0.9, 0.7
"""A task is solved from the first of these pass rates on, if its pass rate was below the second one before."""


class MeanWithError(NamedTuple):
    """Mean of a metric over some rollouts, and its standard error."""

    mean: float
    error: float = 0.0

    def exceeds(self, other: MeanWithError) -> bool:
        """Return whether this mean is larger than another by more than noise explains."""
        return self.mean - other.mean > NOISE * hypot(self.error, other.error)


@dataclass(frozen=True)
class LastRollout:
    """The last rollout of this rank.

    Args:
        rollout: N rows and their judgements.
        rewards: rewards of these rows.
        logprobs: [N, T] the trainer's log-probabilities (nats) under the weights that sampled; NaN if there are none.
        decode: function from ids to text; ``None`` if there is none.
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
        fit: command that starts this run; settings are appended to it.
        show: command that prints completions of this run.
        check_data: command that runs the references of the task.
        stop_strings: sentence that says where stop strings are set.
        optimizer: settings of the optimizer's first parameter group.
        steps: number of updates per rollout.
        clip_norm: ``gradient_clip_norm``.
        num_weights: number of weights that learn.
        staleness: number of rollouts that sampling runs ahead.
        filtered: whether top-k or top-p excludes tokens from sampling.
        precision: the trainer's precision, and the dtypes of the policy's weights.
        dropout: names of the model's dropout options that are not 0.
        term_weights: weights of the reward terms, by name.
        special_tokens: the special tokens that are no EOS, by id.
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

    def smaller_learning_rate_hint(self, rate: float) -> tuple[str, str]:
        """Return the cause that the learning rate is too large, and the command with a smaller rate."""
        lower = USUAL_ADAM_LR if rate > MAX_ADAM_LR and "betas" in self.optimizer else rate / 10
        return f"too high a learning rate ({rate:.2g})", f"{self.fit} --model.update.optimizer.init_args.lr {lower:.2g}"


class MetricHistory:
    """Metrics of the last ``patience`` rollouts, and a few statistics of all rollouts before.

    Attributes:
        rollout: number of the last rollout, from 1.
        recent: metrics of the last rollouts, oldest first.
        first_metrics: metrics of the first rollout.
        latest: last value of each metric, however old.
        first: level of each metric in the first ``patience`` rollouts.
        best: largest level of each metric so far, without the present level.
        lowest: smallest value of each metric in a rollout.
        highest: largest value of each metric in a rollout.
        peak: number and metrics of the rollout that earned most.
        validations: for each validation, the number of the rollout before it, and the metrics.
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
        """Return the values of a metric in those of the last rollouts that logged it."""
        return [metrics[name] for metrics in self.recent if name in metrics]

    def mean_with_error(self, name: str) -> MeanWithError | None:
        """Return a metric's mean and standard error over the last rollouts that logged it; ``None`` if none did."""
        values = self.values(name)
        if not values:
            return None
        mean, number = sum(values) / len(values), len(values)
        squares = sum((one - mean) ** 2 for one in values)
        return MeanWithError(mean, sqrt(squares / (number - 1) / number) if number > 1 else 0.0)

    def mean(self, name: str) -> float:
        """Return a metric's mean over those of the last rollouts that logged it; 0 if none did."""
        level = self.mean_with_error(name)
        return 0.0 if level is None else level.mean

    @property
    def learning_rate(self) -> float:
        """Largest learning rate of the last rollouts."""
        return max(self.values("optimizer/learning_rate"), default=0.0)

    @property
    def lowest_mean_reward(self) -> float:
        """Lowest mean reward of a rollout so far, at most 0: a reward may begin below 0."""
        return min(0.0, self.lowest.get(REWARD, 0.0))

    @property
    def first_rollout_reward(self) -> MeanWithError:
        """Mean reward of the first rollout; its error counts groups, since rows of a group are alike."""
        spread = self.first_metrics.get("reward/std", inf) / sqrt(max(1.0, self.first_metrics.get(GROUPS, 1.0)))
        return MeanWithError(self.first_metrics.get(REWARD, 0.0), spread)

    @property
    def has_earned_beyond_luck(self) -> bool:
        """True if the best rollout earned more than a few lucky hits."""
        _, peak = self.peak
        error = peak.get("reward/std", 0.0) / sqrt(max(1.0, peak.get(ROWS, 1.0)))
        # Now and then a program passes even the tests of another problem.
        lucky = self.best.get(PASSED, MeanWithError(0.0)).mean <= 0.01 and peak.get(PASSED, 1.0) <= 0.05
        return not lucky and peak.get(REWARD, 0.0) - self.lowest_mean_reward > 3 * error

    @property
    def num_unrewarded_rollouts(self) -> int:
        """Number of latest consecutive rollouts that earned next to nothing; 0 if no earlier one earned anything."""
        nothing = self.lowest_mean_reward + 0.05 * (self.peak[1].get(REWARD, 0.0) - self.lowest_mean_reward)
        rewards = reversed(self.values(REWARD))
        return len(list(takewhile(lambda one: one <= nothing, rewards))) if self.has_earned_beyond_luck else 0

    @property
    def is_solved(self) -> bool:
        """True if the run learned its task: it earns nearly what the best row ever earned, and earned less before."""
        if self.values(PASSED):
            passed = max(self.mean(PASSED), self.recent[-1].get(PASSED, 0.0))
            return passed >= SOLVED and self.lowest[PASSED] < UNSOLVED
        top = self.highest.get(HIGHEST, 0.0)
        span = top - self.lowest.get(LOWEST, 0.0)
        return span > 0 and self.mean(REWARD) >= top - 0.02 * span and self.lowest[REWARD] < top - 0.1 * span

    def state_dict(self) -> dict[str, Any]:
        """Return the history as plain data, for a checkpoint."""
        state = {name: value for name, value in vars(self).items() if name != "patience"}
        levels = {name: {metric: tuple(one) for metric, one in state[name].items()} for name in ("first", "best")}
        return copy.deepcopy({**state, "recent": list(self.recent), **levels})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the history from plain data."""
        vars(self).update(copy.deepcopy(dict(state)))
        self.recent = deque(self.recent, maxlen=self.patience)
        for name in ("first", "best"):
            setattr(self, name, {metric: MeanWithError(*one) for metric, one in state[name].items()})
