"""Show a run while it trains: a few lines in a terminal, plain lines in a log file."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import lightning.pytorch as pl

from lit_rl.callbacks.checkpointing import find_checkpointing_callbacks, last_validation_metrics
from lit_rl.callbacks.diagnostics import open_diagnoses
from lit_rl.callbacks.run_record import RunRecord
from lit_rl.callbacks.tensorboard_layout import headline_metric_names
from lit_rl.models.causal_lm import CausalLM
from lit_rl.reports.run_summary import (
    Rows,
    quoted_relative_path,
    relative_path,
    run_header_rows,
    short_metric_name,
    tensorboard_rows,
    validation_summary_rows,
)
from lit_rl.rollout import FinishedRollout
from lit_rl.run_files.row_text import duration_text
from lit_rl.signature_check import ArgumentChecks
from lit_rl.training.progress import RolloutProgress

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_SECONDS_BETWEEN_UPDATES = 1.0
_SECONDS_BETWEEN_BATCHES = 10.0
_SECONDS_OF_SILENCE = 60.0
_LINE = {
    "reward/mean": "reward {:.3f}",
    "execution/pass_rate": "passed {:.0%}",
    "completion/length": "length {:.0f}",
    "completion/truncated_fraction": "truncated {:.0%}",
    "time/tokens_per_second": "tokens/s {:,.0f}",
    "time/step_seconds": "seconds {:.1f}",
    "sft/loss": "loss {:.4f}",
    "dpo/loss": "loss {:.4f}",
    "dpo/margin": "margin {:.3f}",
    "dpo/accuracy": "accuracy {:.0%}",
}


class ProgressScreen(pl.Callback, ArgumentChecks):
    """Shows the progress of a run, on the first rank.

    A terminal gets a few lines, redrawn every second, even during a long rollout: progress, time left, current phase,
    reward, pass rate, and the last validation. Elsewhere the callback prints one plain line per rollout (for updates of
    SFT and DPO, at most one per second), and after each minute of silence the phase, rows and tokens per second. At the
    end it prints where checkpoints and logs are and which commands to run next; after ``validate`` and ``test`` it
    prints the results, one line for each sampling. ``lit_rl.Trainer`` and ``lit-rl`` add this callback unless there is
    another progress bar; ``trainer.enable_progress_bar: false`` asks for plain lines.

    Args:
        live: draw the screen; ``None`` draws it if standard output is a terminal.
    """

    def __init__(self, live: bool | None = None) -> None:
        self.live = live
        self.validations: list[Mapping[str, float]] = []
        self._drawing: Any = None
        self._last_line = self._last_print = 0.0
        self._shows = False
        self._is_over = threading.Event()
        self._start_counting(RolloutProgress(), "rollout", 0, None)

    def _start_counting(self, progress: RolloutProgress, unit: str, done: int, total: int | None) -> None:
        self.progress, self.unit, self.done, self.total, self._first = progress, unit, done, total, done
        self.metrics: Mapping[str, float] = {}
        self.validating = ""
        self._started = time.monotonic()

    def setup(self, trainer: pl.Trainer, pl_module: Any, stage: str) -> None:
        self._is_over.set()
        if trainer.is_global_zero and not self._uses_live_screen():
            self._is_over, self._last_print = threading.Event(), time.monotonic()
            threading.Thread(target=self._print_heartbeats_until, args=[self._is_over], daemon=True).start()

    # -- training ------------------------------------------------------------------------------------------

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        clock, epochs, batches = pl_module.clock, trainer.max_epochs, trainer.num_training_batches
        total = clock.limit
        if total is None and epochs is not None and epochs > 0 and batches != float("inf"):
            total = epochs * batches
        elif total is None and trainer.max_steps > 0 and clock.unit == "update":
            total = trainer.max_steps
        self._start_counting(pl_module.progress, clock.unit, clock.count, None if total is None else int(total))
        self._start_screen(trainer, run_header_rows(trainer, pl_module))

    def on_rollout_end(self, trainer: pl.Trainer, module: Any, finished: FinishedRollout) -> None:
        # Not from ``callback_metrics``, which keeps metrics that only earlier rollouts logged.
        self.done, self.metrics = module.clock.count, finished.metrics

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        is_update = self.unit == "update"
        if is_update and self._shows:
            self.done = pl_module.clock.count
            self.metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        left = self._time_left_text()
        parts = [f"{self.unit} {self.done}" + (f"/{self.total}" if self.total else ""), self.metrics_text()]
        line = "  ".join(filter(None, [*parts, f"left {left}" if left else ""]))
        self._print_if_no_screen(line, _SECONDS_BETWEEN_UPDATES if is_update and not trainer.should_stop else 0.0)

    def on_train_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self._stop_screen()

    def on_fit_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if self._shows:
            whole = self.total is None or self.done >= self.total
            in_all = f", {self.done} of {self.total} in all" if self._first or not whole else ""
            text = f"{self.done - self._first} {self.unit}s in {duration_text(self._elapsed_seconds())}{in_all}"
            if not whole and -1 < trainer.max_steps <= trainer.global_step:
                text += f"; trainer.max_steps {trainer.max_steps} counts updates"
            rows = [("done" if whole else "stopped", text), *self.validation_change_rows()]
            _print_rows([*rows, *end_summary_rows(trainer, pl_module)])
        self.validations = []

    # -- validation, test, prediction ----------------------------------------------------------------------

    def on_validation_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if trainer.state.fn != "fit":
            self.validations = []
            self._start_counting(pl_module.progress, "batch", 0, None)
            self._start_screen(trainer, [])
        self.validating = _stage_name(trainer)

    on_test_start = on_predict_start = on_validation_start

    def on_validation_batch_start(
        self, trainer: pl.Trainer, pl_module: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        purpose = self.progress.purpose.partition("/")[2]
        self.validating = " ".join(filter(None, [_stage_name(trainer), purpose, f"batch {batch_idx + 1}"]))
        if self.unit == "batch":
            self._print_if_no_screen(self.validating, _SECONDS_BETWEEN_BATCHES)

    on_test_batch_start = on_predict_batch_start = on_validation_batch_start

    def on_validation_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self.validating = ""
        self.validations.append(metrics := last_validation_metrics(trainer))
        if trainer.state.fn != "fit":
            self.on_test_end(trainer, pl_module)
        elif found := "  ".join(
            f"{short_metric_name(name)} {metrics[name]:.3f}" for name in headline_metric_names(metrics)[:4]
        ):
            when = f"after {self.unit} {self.done}" if self.done else "before training"
            self._print_if_no_screen(f"validation {when}: {found}")

    def on_test_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self._stop_screen()
        if self._shows:
            metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
            _print_rows(validation_summary_rows(trainer, pl_module, metrics))

    def on_predict_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self._stop_screen()

    def on_exception(self, trainer: pl.Trainer, pl_module: Any, exception: BaseException) -> None:
        if self._shows and self.total != self.done:
            self._stop_screen()
            print(f"ended in {self.unit} {self.done + 1}, {self.describe_activity()}", flush=True)
        self.teardown(trainer, pl_module, "exception")

    def teardown(self, trainer: pl.Trainer, pl_module: Any, stage: str) -> None:
        self._is_over.set()
        self._stop_screen()
        self._shows = False

    # -- text ----------------------------------------------------------------------------------------------

    def metrics_text(self) -> str:
        """Return the reward, pass rate, length and speed of the last rollout, or the loss of the last update."""
        return "  ".join(t.format(self.metrics[name]) for name, t in _LINE.items() if name in self.metrics)

    def validation_change_rows(self) -> Rows:
        """Return the first and the last value of each headline metric of validation."""
        rows = []
        for name in headline_metric_names(self.validations[-1]) if self.validations else []:
            values = [f"{one[name]:.3f}" for one in self.validations if name in one]
            rows.append((short_metric_name(name), " -> ".join(values[:1] + values[1:][-1:])))
        return rows

    def describe_activity(self) -> str:
        """Describe the current activity."""
        progress, doing = self.progress, f"{self.validating}: " if self.validating else ""
        if progress.phase == "waiting":
            return f"{doing}preparing" if doing else "between two steps"
        if progress.phase == "sampling":
            seconds = progress.elapsed
            speed = f", {progress.tokens / seconds:,.0f} tokens/s" if progress.tokens and seconds > 0 else ""
            done = progress.rows - progress.open_rows
            sampled = f"sampling {done} of {progress.rows} rows, {progress.num_judged} judged{speed}"
            return f"{doing}{sampled}, step {progress.steps}"
        if progress.phase == "judging":
            return f"{doing}judging {progress.num_judged} of {progress.turns} programs"
        if progress.phase == "updating" and progress.updates:
            number = min(progress.update + 1, progress.updates)
            part = f", part {min(progress.part + 1, progress.parts)} of {progress.parts}" if progress.parts > 1 else ""
            return f"update {number} of {progress.updates}{part}"
        return doing + {"preparing": "log-probabilities and advantages"}.get(progress.phase, progress.phase)

    def render(self) -> RenderableType:
        """Return the screen for rich to draw, with labels in a column of their own."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 1))
        table.add_column(no_wrap=True, min_width=9, style="cyan")
        table.add_column()
        of, left = f" of {self.total}" if self.total else "", self._time_left_text()
        elapsed = f"{duration_text(self._elapsed_seconds())} elapsed" + (f", {left} left" if left else "")
        table.add_row(self.unit, Text(f"{self.done}{of}   {elapsed}"))
        if self.total:
            table.add_row("", ProgressBar(total=self.total, completed=self.done, width=60))
        validated = "   ".join(f"{name} {text}" for name, text in self.validation_change_rows()[:2])
        for label, text in (("now", self.describe_activity()), ("last", self.metrics_text()), ("validated", validated)):
            if text:
                table.add_row(label, Text(text))
        return table

    def _elapsed_seconds(self) -> float:
        return time.monotonic() - self._started

    def _time_left_text(self) -> str:
        """Return the time until the end at the current pace; empty if unknown."""
        finished = self.done - self._first
        if self.total is None or finished < 1:
            return ""
        return duration_text(self._elapsed_seconds() / finished * max(0, self.total - self.done))

    # -- drawing -------------------------------------------------------------------------------------------

    def _start_screen(self, trainer: pl.Trainer, head: Rows) -> None:
        self._shows = trainer.is_global_zero
        if not self._shows:
            return
        self._last_line, self._last_print = 0.0, time.monotonic()
        _print_rows(head)
        if self._uses_live_screen():
            from rich.live import Live

            over = self.unit == "batch"  # a validation's results follow as lines
            self._drawing = Live(console=_console(), get_renderable=self.render, refresh_per_second=1, transient=over)
            self._drawing.start()

    def _uses_live_screen(self) -> bool:
        console = _console()
        return console.is_terminal and not console.is_dumb_terminal if self.live is None else self.live

    def _stop_screen(self) -> None:
        if self._drawing is not None:
            self._drawing.stop()
            self._drawing = None

    def _print_if_no_screen(self, text: str, seconds_between: float = 0.0) -> None:
        """Print a plain line if there is no screen, unless the last line was printed just now."""
        now = time.monotonic()
        if not text or not self._shows or self._drawing is not None:
            return
        if now - self._last_line >= seconds_between:
            self._last_line = self._last_print = now
            print(text, flush=True)

    def _print_heartbeats_until(self, is_over: threading.Event) -> None:
        """Print a line after each minute without output, from a separate thread: a batch may take many minutes."""
        while not is_over.wait(max(0.0, self._last_print + _SECONDS_OF_SILENCE - time.monotonic())):
            self.print_heartbeat()

    def print_heartbeat(self) -> None:
        """Print the current activity, unless something was printed within the last minute."""
        now = time.monotonic()
        if now - self._last_print >= _SECONDS_OF_SILENCE:
            self._last_print = now
            text = self.describe_activity() if self._shows else "setting up"
            if self._shows and self.unit != "batch":
                total = f"/{self.total}" if self.total else ""
                number = self.done if self.validating or self.done == self.total else self.done + 1
                text = f"{self.unit} {number}{total}  {text}  {duration_text(self._elapsed_seconds())} elapsed"
            sys.stdout.write(f"{text}\n")  # in one piece, since the run may print too
            sys.stdout.flush()


def _console() -> Console:
    from rich.console import Console

    return Console()


def _print_rows(rows: Rows) -> None:
    width = max((len(label) for label, _ in rows), default=0)
    for label, text in rows:
        print(f"{label:<{width}}   {text}")
    sys.stdout.flush()


def _stage_name(trainer: pl.Trainer) -> str:
    return "testing" if trainer.testing else "predicting" if trainer.predicting else "validating"


def end_summary_rows(trainer: pl.Trainer, module: Any) -> Rows:
    """Return the last lines of a run: diagnoses, the best and last checkpoints, and commands that use these."""
    rows = [("diagnosis", one.format_line()) for one in open_diagnoses(trainer)]
    commands = []
    for record in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(record, RunRecord) and record.output_folder is not None:
            verbs = ("show", "report") if module.clock.unit == "rollout" else ("report",)
            commands += [f"lit-rl {verb} {quoted_relative_path(record.output_folder)}" for verb in verbs]
    for saver in find_checkpointing_callbacks(trainer)[:1]:
        value = "" if saver.best_value is None else f"   {saver.monitor} {saver.best_value:.3f}"
        kept = [(name, saver.run_folder.link_target(name), more) for name, more in (("best", value), ("last", ""))]
        rows += [
            (name, f"{relative_path(saver.run_folder.path / path.name)}{more}") for name, path, more in kept if path
        ]
        whole = isinstance(module.policy, CausalLM) and bool(saver.config or module.policy.constructor_arguments())
        if whole and saver.run_folder.link_target("last") is not None:  # a checkpoint is all that an export needs
            run = saver.run_folder.path
            commands.append(f"lit-rl export {quoted_relative_path(run)} {quoted_relative_path(run / 'model')}")
    return [*rows, *tensorboard_rows(trainer), *(("" if i else "next", command) for i, command in enumerate(commands))]
