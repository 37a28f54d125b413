"""Answer whether a run learned: its first and last measurement, their intervals, and the cost."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod, sqrt
from statistics import fmean, variance
from typing import NamedTuple

from lit_rl.reports.runs import Run
from lit_rl.run_files.records import Curve
from lit_rl.run_files.row_text import duration_text, format_number

_IN_TRAINING = ("execution/pass_rate", "reward/mean", "sft/loss", "dpo/loss")
_Z = 1.96  # 95%


def wilson_interval(share: float, count: float) -> tuple[float, float]:
    """Return Wilson's 95% interval of a share of ``count`` trials: 0 of 240 gives 0 to 0.016.

    If ``count`` is the number of problems, the interval of pass@k is right or too wide, since shares of a problem's
    samples vary less between problems than single verdicts do.
    """
    scale = 1 + _Z**2 / count
    centre = (share + _Z**2 / (2 * count)) / scale
    half = _Z / scale * sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def t_quantile(freedom: float) -> float:
    """Return Student's t at 97.5%, within 1% from 3 degrees of freedom on; from 1 to 3 it is up to 25% too small.

    Source:
        Abramowitz and Stegun, 26.7.5
    """
    z, v = _Z, freedom
    terms = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return z + sum(term / v**power for power, term in enumerate(terms, 1))


def format_share_with_interval(share: float, count: float | None) -> str:
    """Return a share of ``count`` trials with its 95% interval; without a count, the share alone."""
    if not count:
        return format_number(share, 3)
    low, high = wilson_interval(share, count)
    return f"{share:.3f} ({low:.3f} to {high:.3f})"


class MetricChange(NamedTuple):
    """One number at its first and at its last measurement.

    Args:
        name: name of the metric.
        label: what was measured.
        curve: all measurements.
        num_problems: number of problems that the metric is a share of; ``None`` if it is not a share.
        by_tenths: whether the first and last values are means over the first and the last tenth of the curve.
    """

    name: str
    label: str
    curve: Curve
    num_problems: float | None = None
    by_tenths: bool = False

    @property
    def first_and_last(self) -> tuple[float, float]:
        """The first value and the last."""
        first, last = self._first_and_last_tenths
        return fmean(first), fmean(last)

    @property
    def _first_and_last_tenths(self) -> tuple[list[float], list[float]]:
        values = [value for _, value in self.curve]
        tenth = max(1, len(values) // 10) if self.by_tenths else 1
        return values[:tenth], values[-tenth:]

    @property
    def margin_of_error(self) -> float | None:
        """Half of Welch's 95% interval of the change between the tenths; ``None`` for single measurements."""
        first, last = self._first_and_last_tenths
        if len(first) < 2:
            return None
        one, other = variance(first), variance(last)
        freedom = (len(first) - 1) * (one + other) ** 2 / ((one**2 + other**2) or 1.0)
        return t_quantile(max(1.0, freedom)) * sqrt((one + other) / len(first))

    @property
    def change_verb(self) -> str:
        """``rose``, ``fell``, ``did not change measurably`` if it may be chance, or ``went`` if that is unknown."""
        first, last = self.first_and_last
        if first == last:
            return "did not change"
        if self.num_problems:  # Newcombe's interval of a difference of two shares
            lows, highs = zip(*(wilson_interval(share, self.num_problems) for share in (first, last)), strict=True)
            down, up = last - lows[1], highs[1] - last
            if last > first and last - first <= sqrt(down**2 + (highs[0] - first) ** 2):
                return "did not change measurably"
            if last < first and first - last <= sqrt(up**2 + (first - lows[0]) ** 2):
                return "did not change measurably"
        elif self.margin_of_error is None:
            return "went"
        elif abs(last - first) <= self.margin_of_error:
            return "did not change measurably"
        return "rose" if last > first else "fell"

    def sentence(self, clock: str) -> str:
        """Say from which value to which the metric changed, and between which measurements."""
        first, last = (format_share_with_interval(value, self.num_problems) for value in self.first_and_last)
        of = f" of {self.num_problems:.0f} problems" if self.num_problems else ""
        (begin, _), (end, _) = self.curve[0], self.curve[-1]
        if len(self.curve) == 1:
            return f"{self.label} was measured once: {first}{of} after {clock} {end}"
        if self.by_tenths:
            by, change = "", self.first_and_last[1] - self.first_and_last[0]
            if self.margin_of_error is not None:
                by = f" (by {format_number(abs(change), 3)} ± {format_number(self.margin_of_error, 2)})"
            tenths = "means of the first and the last tenth of the run"
            return f"{self.label} {self.change_verb} from {first} to {last}{by}, {tenths}"
        since = f"after {clock} {begin}" if begin else "before training"
        return f"{self.label} {self.change_verb} from {first} {since} to {last}{of} after {clock} {end}"


def validation_changes(run: Run) -> list[MetricChange]:
    """Return changes of validation metrics, main sampling first; if none predates training, add a training metric."""
    found = []
    for sampling, measure in run.validation_metric_names.items():
        name, problems = f"val/{sampling}/{measure}", run.curves.get(f"val/{sampling}/num_problems")
        count = problems[-1][1] if problems and measure == "pass@1" else None
        found.append(MetricChange(name, f"{sampling} {measure}", run.curves[name], count))
    losses = (name for name in run.curves if name.startswith("val") and name.endswith("/loss"))
    found += [MetricChange(name, name, run.curves[name]) for name in losses]
    if not any(len(one.curve) > 1 and not one.curve[0][0] for one in found):
        trained = [name for name in _IN_TRAINING if name in run.curves][:1]
        found += [MetricChange(name, f"{name} of training", run.curves[name], by_tenths=True) for name in trained]
    return found


def learning_verdict(run: Run) -> str:
    """Say in one sentence whether a run learned, and the cost."""
    found = validation_changes(run)
    if not found:
        return f"nothing that shows learning was recorded. Cost: {', '.join(describe_run_cost(run))}"
    certain = [found[0], *(one for one in found[1:] if one.by_tenths)]
    sentences = "; ".join(one.sentence(run.clock) for one in certain)
    verdict = {"rose": "learned: ", "fell": "got worse: "}.get(found[0].change_verb, "no sign of learning: ")
    if not found[0].num_problems or len(certain) > 1 or len(found[0].curve) == 1:  # the numbers alone do not tell
        verdict = ""
    late = "; --validate_first true measures before training" if len(certain) > 1 else ""
    return f"{verdict}{sentences}{late}. Cost: {', '.join(describe_run_cost(run))}"


def describe_run_cost(run: Run) -> Iterator[str]:
    """Yield the rollouts, completions and time that a run took."""
    count = max(count for curve in run.curves.values() for count, _ in curve)
    yield f"{count} {run.clock}s"
    sizes = [run.kind.get(name) for name in ("batch_size", "num_samples", "num_ranks")]
    rows = prod(size if isinstance(size, int) else 0 for size in sizes)
    if run.clock == "rollout" and rows:
        yield f"{count * rows:,} completions"
    if "time/step_seconds" in run.curves:
        yield f"{duration_text(sum(value for _, value in run.curves['time/step_seconds']))} of training"
