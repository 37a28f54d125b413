"""Text lines about a running run, for the screen and for a log file."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lit_rl.reports.run_files.row_text import clock_text, number_text
from lit_rl.training.progress import Progress

Rows = list[tuple[str, str]]
"""Pairs of a label and the text next to it, one per line."""

_NUM_RECENT = 10
_MOST_CURVES = 2
_MEASURED_SELDOM = ("policy/entropy",)


@dataclass
class RunView:
    """Known state of a run at one moment.

    Args:
        progress: the module's.
        word: what is counted, ``rollout`` or ``update``.
        total: how many there will be; ``None`` if unknown.
        done: how many are done, those before a resume included.
        clock: returns seconds.
    """

    progress: Progress
    word: str = "rollout"
    total: int | None = None
    done: int = 0
    clock: Callable[[], float] = time.monotonic
    metrics: Mapping[str, float] = field(default_factory=dict)
    validating: str = ""
    validations: list[tuple[int, dict[str, float]]] = field(default_factory=list)

    is_over: bool = False

    def __post_init__(self) -> None:
        self.recent: deque[float] = deque(maxlen=_NUM_RECENT)
        self.begin(self.done, self.total)

    def begin(self, done: int, total: int | None) -> None:
        """Start the clock: this start of the run begins after ``done`` of ``total``."""
        self.done = self.first = done
        self.total = total
        self.started = self.clock()

    def earlier(self) -> dict[str, Any]:
        """Return the validation results to keep in a checkpoint, for :meth:`resume`."""
        kept = [(count, {name: found[name] for name in headline(found)}) for count, found in self.validations]
        return {"validations": kept}

    def resume(self, earlier: Mapping[str, Any]) -> None:
        """Take over the validations before this start of the run; call it after :meth:`begin`."""
        self.validations = [*earlier["validations"], *self.validations]

    def finish(self, done: int, metrics: Mapping[str, float]) -> None:
        """Take over the metrics of a rollout or update."""
        seldom = {name: self.metrics[name] for name in _MEASURED_SELDOM if name in self.metrics}
        self.done, self.metrics = done, {**seldom, **metrics}
        if "reward/mean" in metrics:
            self.recent.append(metrics["reward/mean"])

    def add_validation(self, metrics: Mapping[str, float]) -> None:
        """Take over the metrics of a validation."""
        self.validating = ""
        self.validations.append((self.done, dict(metrics)))

    @property
    def seconds(self) -> float:
        """Seconds since this start of the run began to train."""
        return self.clock() - self.started

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the end at the current pace; ``None`` if unknown."""
        finished = self.done - self.first
        if self.total is None or finished < 1:
            return None
        return self.seconds / finished * max(0, self.total - self.done)

    # -- the screen ----------------------------------------------------------------------------------------

    def rows(self) -> Rows:
        """All lines but those with nothing to show."""
        rows = [
            (self.word, self.place()),
            ("now", "" if self.is_over else self.now()),
            ("seconds", seconds_of(self.metrics)),
        ]
        rows += [
            ("reward", self.reward()),
            ("verdicts", verdicts_of(self.metrics)),
            ("rows", said(self.metrics, _ROWS)),
        ]
        rows += [("policy", said(self.metrics, _POLICY)), ("loss", said(self.metrics, _LOSS))]
        rows += self.curves()
        return [(label, text) for label, text in rows if text]

    def place(self) -> str:
        """Format the progress of the run, such as ``74 of 180   41%   1:02 elapsed, 1:29 left``."""
        elapsed = f"{clock_text(self.seconds)} elapsed"
        if self.total is None:
            return f"{self.done}   {elapsed}"
        left = self.seconds_left
        share = self.done / max(1, self.total)
        return f"{self.done} of {self.total}   {share:.0%}   {elapsed}" + (
            "" if left is None else f", {clock_text(left)} left"
        )

    def now(self) -> str:
        """Describe the current activity."""
        progress = self.progress
        doing = f"{self.validating}: " if self.validating else ""
        if progress.phase == "waiting":
            return f"{doing}preparing" if doing else "between two steps"
        if progress.phase == "sampling":
            seconds = progress.elapsed
            speed = f", {progress.tokens / seconds:,.0f} tokens/s" if progress.tokens and seconds > 0 else ""
            sampled = f"sampling {progress.sampled} of {progress.rows} rows, {progress.judged} judged{speed}"
            return f"{doing}{sampled}, step {progress.steps}"
        if progress.phase == "judging":
            return f"{doing}judging {progress.judged} of {progress.turns} programs"
        if progress.phase == "updating" and progress.updates:
            number = min(progress.update + 1, progress.updates)
            part = f", part {min(progress.part + 1, progress.parts)} of {progress.parts}" if progress.parts > 1 else ""
            return f"update {number} of {progress.updates}{part}"
        return doing + {"rewarding": "rewarding", "preparing": "log-probabilities and advantages"}.get(
            progress.phase, progress.phase
        )

    def reward(self) -> str:
        """The last reward, and the mean of the last ten."""
        if not self.recent:
            return ""
        spread = self.metrics.get("reward/std")
        mean = sum(self.recent) / len(self.recent)
        return f"{number_text(self.recent[-1], 3)} (last {len(self.recent)}: {number_text(mean, 3)})" + (
            "" if spread is None else f"   std {number_text(spread, 2)}"
        )

    def earned(self) -> bool:
        """Return whether any of the last ten rollouts earned something; true where nothing is earned, as in SFT."""
        return not self.recent or any(self.recent)

    def curves(self) -> Rows:
        """The first of :meth:`measured` as one entry of the screen."""
        texts = [f"{name} {text}" for name, text in self.measured()[:_MOST_CURVES]]
        return [("validated" if i == 0 else "", text) for i, text in enumerate(texts)]

    def measured(self) -> Rows:
        """First, last and best value of what validation measures over the whole run; of a last value of 0, why."""
        rows = []
        for name in headline(self.validations[-1][1] if self.validations else {}):
            points = [(count, of_one[name]) for count, of_one in self.validations if name in of_one]
            (first, value), (_, last) = points[0], points[-1]
            count, best = (min if "loss" in name else max)(points, key=lambda point: point[1])
            since = f" after {self.word} {first}" if first else ""
            text = f"{value:.3f}{since} {arrow()} {last:.3f}" if len(points) > 1 else f"{value:.3f}{since}"
            if best != last:
                text += f"   best {best:.3f} after {self.word} {count}"
            why = "" if last else verdicts_of(below(self.validations[-1][1], name.rpartition("/")[0]))
            rows.append((short_name(name), f"{text}   {why}".rstrip()))
        return rows

    # -- a log file ----------------------------------------------------------------------------------------

    def line(self) -> str:
        """One plain line of the last rollout or update."""
        metrics, parts = self.metrics, [f"{self.word} {self.done}" + (f"/{self.total}" if self.total else "")]
        left = self.seconds_left
        parts += [said(metrics, _LINE), said(metrics, _LOSS) if "reward/mean" not in metrics else ""]
        parts += [f"left {clock_text(left)}"] if left is not None else []
        return "  ".join(filter(None, parts))

    def moment(self) -> str:
        """One plain line of what is done now."""
        if self.word == "batch":
            return self.now()
        total = f"/{self.total}" if self.total else ""
        number = self.done if self.validating or self.done == self.total else self.done + 1
        return f"{self.word} {number}{total}  {self.now()}  {clock_text(self.seconds)} elapsed"

    def validation_line(self) -> str:
        """One plain line about the last validation; empty if it has no headline metric."""
        count, metrics = self.validations[-1]
        names = headline(metrics)
        measured = "  ".join(f"{short_name(name)} {metrics[name]:.3f}" for name in names[:4])
        when = f"after {self.word} {count}" if count else "before training"
        return f"validation {when}: {measured}" if measured else ""


_LINE = {
    "reward/mean": "reward {:.3f}",
    "execution/pass_rate": "passed {:.0%}",
    "completion/length": "length {:.0f}",
    "completion/truncated_fraction": "truncated {:.0%}",
    "time/tokens_per_second": "tokens/s {:,.0f}",
    "time/step_seconds": "seconds {:.1f}",
}
_ROWS = {
    "completion/length": "length {:.1f}",
    "completion/truncated_fraction": "truncated {:.0%}",
    "group/zero_advantage_fraction": "flat groups {:.0%}",
    "time/tokens_per_second": "{:,.0f} tokens/s",
}
_POLICY = {
    "policy/entropy": "entropy {1}",
    "policy/kl_to_reference": "KL to reference {1}",
    "policy/gradient_norm": "gradient {1}",
    "optimizer/learning_rate": "learning rate {1}",
    "memory/peak_gigabytes": "memory {:.1f} GB",
}
_LOSS = {
    "sft/loss": "loss {:.4f}",
    "dpo/loss": "loss {:.4f}",
    "dpo/margin": "margin {:.3f}",
    "dpo/accuracy": "accuracy {:.0%}",
}
_SECONDS = {
    "sampling": "sample",
    "judging": "judge",
    "rewarding": "reward",
    "preparing": "prepare",
    "updating": "update",
    "idle": "idle",
}


def arrow() -> str:
    """From one value to the next, in a character that standard output can show."""
    try:
        "→".encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return "->"
    return "→"


def headline(metrics: Mapping[str, float]) -> list[str]:
    """Names of the metrics that a validation is judged by: pass@k without those of single turns, else losses."""
    passes = [name for name in metrics if name.rpartition("/")[2].startswith("pass@")]
    rest = [name for name in metrics if name.endswith(("reward/mean", "/loss"))]
    return passes or rest


def short_name(name: str) -> str:
    """``greedy pass@1`` of ``val/greedy/pass@1``."""
    return name.removeprefix("val/").replace("/", " ")


def below(metrics: Mapping[str, float], prefix: str) -> dict[str, float]:
    """The metrics whose names begin with a prefix, without it."""
    return {n.removeprefix(f"{prefix}/"): value for n, value in metrics.items() if n.startswith(f"{prefix}/")}


def seconds_of(metrics: Mapping[str, float]) -> str:
    """Format the seconds of the last rollout by phase; parts below 5 ms or 2% are left out."""
    taken = {short: metrics.get(f"time/{phase}_seconds", 0.0) for phase, short in _SECONDS.items()}
    least = max(0.005, 0.02 * sum(taken.values()))
    return "  ".join(f"{short} {number_text(seconds, 2)}" for short, seconds in taken.items() if seconds >= least)


def verdicts_of(metrics: Mapping[str, float], most: int | None = 4) -> str:
    """Shares of the verdicts that occurred, the most frequent first, and no more than ``most`` of them."""
    found = {
        name.removeprefix("verdict/").removesuffix("_fraction").replace("_", " "): value
        for name, value in metrics.items()
        if name.startswith("verdict/") and name.endswith("_fraction") and value > 0
    }
    return "  ".join(f"{name} {found[name]:.0%}" for name in sorted(found, key=lambda name: -found[name])[:most])


def said(metrics: Mapping[str, float], formats: Mapping[str, str]) -> str:
    """The metrics that were logged, each in its format: ``{0}`` is the number, ``{1}`` two significant digits of it."""
    return "  ".join(t.format(metrics[n], number_text(metrics[n], 2)) for n, t in formats.items() if n in metrics)
