"""Show a run while it trains: one screen in a terminal, plain lines in a log file."""

from __future__ import annotations

import logging
import re
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import lightning.pytorch as pl

from lit_rl.arguments import TypedArguments, require_above, require_at_least
from lit_rl.callbacks.checkpointing import validation_metrics
from lit_rl.callbacks.run_summary import head_of, summary_of, validation_summary
from lit_rl.callbacks.run_view import Rows, RunView
from lit_rl.rollout import FinishedRollout
from lit_rl.rollout.records import TrainedModule
from lit_rl.training.progress import Progress

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_SECONDS_BETWEEN_UPDATES = 1.0
_SECONDS_BETWEEN_BATCHES = 10.0
_SECONDS_OF_SILENCE = 60.0


class ProgressScreen(pl.Callback, TypedArguments):
    """Shows the progress of a run, on the first rank.

    In a terminal: one screen of at most 80 x 24, redrawn every ``refresh_seconds``, even during a long rollout.
    Elsewhere: one plain line per rollout; for updates without rollouts (SFT, DPO) at most one per second; and after
    each minute of silence what is done now: the phase, rows, tokens a second. At the end both say where checkpoints and
    logs are and which commands to run next, and at the end of ``validate`` and ``test`` what was found, in a line for
    each sampling. ``lit_rl.Trainer`` and ``lit-rl`` add it unless there is another progress bar;
    ``trainer.enable_progress_bar: false`` asks for plain lines.

    Args:
        live: draw the screen; ``None`` draws it if standard output is a terminal.
        refresh_seconds: seconds between two drawings.
        lines_every: write a plain line every this many rollouts or updates; 0 for none.
    """

    def __init__(self, live: bool | None = None, refresh_seconds: float = 1.0, lines_every: int = 1) -> None:
        require_above(0, self, refresh_seconds=refresh_seconds)
        require_at_least(0, self, lines_every=lines_every)
        self.live, self.refresh_seconds, self.lines_every = live, refresh_seconds, lines_every
        self.view = RunView(Progress())
        self._drawing: _Drawing | None = None
        self._last_line = 0.0
        self._last_print = 0.0
        self._shows = False
        self._is_over = threading.Event()
        self._earlier: dict[str, Any] | None = None

    # -- what a checkpoint holds ---------------------------------------------------------------------------

    def setup(self, trainer: pl.Trainer, pl_module: Any, stage: str) -> None:
        """Forget what an earlier start loaded; a checkpoint is loaded after this. Begin to watch for silence."""
        self._earlier = None
        self._is_over.set()
        if trainer.is_global_zero and self.lines_every and not self._draws():
            self._is_over, self._last_print = threading.Event(), time.monotonic()
            threading.Thread(target=self._beat_until, args=[self._is_over], daemon=True).start()

    def state_dict(self) -> dict[str, Any]:
        """Return validation results, so that the summary of a resumed run covers the whole run."""
        return self.view.earlier()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep what validations found until training starts."""
        self._earlier = state_dict

    # -- training ------------------------------------------------------------------------------------------

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Print the run's description, and start drawing."""
        before = self.view
        self.view = RunView(pl_module.progress, pl_module.clock.unit)
        self.view.begin(pl_module.clock.count, _total(trainer, pl_module))
        if before.word == "batch" and before.progress is pl_module.progress and not self.view.done:
            self.view.validations = before.validations[-1:]  # of this policy, before it was trained
        if self._earlier is not None:
            self.view.resume(self._earlier)
        self._start(trainer, head_of(trainer, pl_module))

    def on_rollout_end(self, trainer: pl.Trainer, module: TrainedModule, finished: FinishedRollout) -> None:
        """Take over a rollout's metrics."""
        self.view.finish(module.clock.count, finished.metrics)

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Write a plain line if there is no screen."""
        is_update = self.view.word == "update"
        if is_update and self._shows:
            metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
            self.view.finish(pl_module.clock.count, metrics)
        if not self.lines_every or (self.view.done % self.lines_every and not trainer.should_stop):
            return
        self._line(self.view.line(), _SECONDS_BETWEEN_UPDATES if is_update and not trainer.should_stop else 0.0)

    def on_train_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Draw the screen for the last time."""
        self.view.is_over = True
        self._stop()

    def on_fit_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Print the run's summary; everything it saves is saved by now."""
        if self._shows:
            _print(summary_of(trainer, pl_module, self.view))

    # -- validation, test, prediction ----------------------------------------------------------------------

    def on_validation_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Show that the run validates, tests or predicts now."""
        if trainer.state.fn != "fit":
            self.view = RunView(pl_module.progress, "batch")
            self._start(trainer, [])
        self.view.validating, _ = _doing(trainer)

    on_test_start = on_predict_start = on_validation_start

    def on_validation_batch_start(
        self, trainer: pl.Trainer, pl_module: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Show which batch is sampled."""
        doing, counts = _doing(trainer)
        count = counts[dataloader_idx] if isinstance(counts, list) and dataloader_idx < len(counts) else "?"
        purpose = self.view.progress.purpose.partition("/")[2]
        self.view.validating = " ".join(filter(None, [doing, purpose, f"batch {batch_idx + 1} of {count}"]))
        if self.view.word == "batch":
            self._line(self.view.validating, _SECONDS_BETWEEN_BATCHES)

    on_test_batch_start = on_predict_batch_start = on_validation_batch_start

    def on_validation_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Take over the validation's metrics."""
        self.view.add_validation(validation_metrics(trainer))
        if trainer.state.fn == "fit":
            self._line(self.view.validation_line())
        else:
            self.on_test_end(trainer, pl_module)

    def on_test_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Print the results."""
        self._stop()
        if self._shows:
            metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
            _print(validation_summary(trainer, pl_module, metrics))

    def on_predict_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Leave the last screen as it is."""
        self._stop()

    # -- ends ----------------------------------------------------------------------------------------------

    def on_exception(self, trainer: pl.Trainer, pl_module: Any, exception: BaseException) -> None:
        """Give back the terminal, and print how far the run got."""
        view = self.view
        if self._shows and view.total != view.done:
            self._stop()
            print(f"ended in {view.word} {view.done + 1}, {view.now()}", flush=True)
        self.teardown(trainer, pl_module, "exception")

    def teardown(self, trainer: pl.Trainer, pl_module: Any, stage: str) -> None:
        """Give back the terminal."""
        self._is_over.set()
        self._stop()
        self._shows = False

    # -- drawing -------------------------------------------------------------------------------------------

    def _start(self, trainer: pl.Trainer, head: Rows) -> None:
        self._shows = trainer.is_global_zero
        if not self._shows:
            return
        self._last_line, self._last_print = 0.0, time.monotonic()
        _print(head)
        if self._draws():
            self._drawing = _Drawing(_console(), self.view, self.refresh_seconds)

    def _draws(self) -> bool:
        console = _console()
        fits = console.is_terminal and not console.is_dumb_terminal and not console.is_jupyter
        return fits if self.live is None else self.live

    def _stop(self) -> None:
        if self._drawing is not None:
            self._drawing.stop()
            self._drawing = None

    def _line(self, text: str, seconds_between: float = 0.0) -> None:
        """Print a plain line if there is no screen, unless the last one was printed just now."""
        now = time.monotonic()
        if not text or not self._shows or self._drawing is not None or not self.lines_every:
            return
        if now - self._last_line >= seconds_between:
            self._last_line = self._last_print = now
            print(text, flush=True)

    def _beat_until(self, is_over: threading.Event) -> None:
        """Break each silence of a minute, from a thread of its own: a single batch may take many."""
        while not is_over.wait(max(0.0, self._last_print + _SECONDS_OF_SILENCE - time.monotonic())):
            self.beat()

    def beat(self) -> None:
        """Print what is done now, unless something was printed within the last minute."""
        now = time.monotonic()
        if now - self._last_print >= _SECONDS_OF_SILENCE:
            self._last_print = now
            text = self.view.moment() if self._shows else "setting up"
            sys.stdout.write(f"{text}\n")  # in one piece, since the run may print too
            sys.stdout.flush()


class _Drawing:
    """The screen, drawn by a thread of its own; what others print meanwhile appears above."""

    def __init__(self, console: Console, view: RunView, refresh_seconds: float) -> None:
        from rich.live import Live

        over = view.word == "batch"  # a validation's results follow as lines
        rate = 1 / refresh_seconds
        self._ends = ExitStack()
        self._ends.enter_context(
            Live(console=console, get_renderable=lambda: frame_of(view), refresh_per_second=rate, transient=over)
        )
        self._ends.enter_context(_redirected_handlers())

    def stop(self) -> None:
        """Draw once more and give the terminal back."""
        self._ends.close()


def frame_of(view: RunView) -> RenderableType:
    """The screen as rich draws it: labels in a column of their own, lines cut at the terminal's width."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, min_width=9, style="cyan")
    table.add_column(no_wrap=True, overflow="ellipsis")
    for number, (label, text) in enumerate(view.rows()):
        table.add_row(label, Text(text))
        if number == 0 and view.total:
            table.add_row("", ProgressBar(total=view.total, completed=view.done, width=60))
    return table


def _console() -> Console:
    from rich.console import Console

    return Console()


def _print(rows: Rows) -> None:
    """Print labelled lines; a terminal gets them in its width, a log file uncut."""
    width = max((len(label) for label, _ in rows), default=0)
    room = shutil.get_terminal_size().columns - width - 3 if sys.stdout.isatty() else sys.maxsize
    command = False
    for label, text in rows:
        command = label == "next" or (command and not label)
        for number, line in enumerate(fitted(text, room, command)):
            print(f"{'' if number else label:<{width}}   {line}")
    sys.stdout.flush()


def fitted(text: str, room: int, command: bool = False) -> list[str]:
    """A text in lines that break between its parts, else between words, never inside one.

    Args:
        text: parts with two or three blanks between them.
        room: columns of a line; a longer word, such as a path, keeps its own line.
        command: end broken lines in a backslash, so that a shell takes them as copied.
    """
    lines: list[str] = []
    for gap, part in [("", text)] if command else re.findall(r"(^|\s{2,})(.+?)(?=\s{2}|$)", text):
        if lines and len(lines[-1] + gap + part) <= room:
            lines[-1] += gap + part
        elif len(part) <= room:
            lines.append(part)
        else:
            lines += textwrap.wrap(part, max(1, room - 2 * command), break_long_words=False, break_on_hyphens=False)
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:] if command else lines


@contextmanager
def _redirected_handlers() -> Iterator[None]:
    """Send log messages to the current ``sys.stderr`` and ``sys.stdout``, and back to the terminal at the end.

    Handlers keep the stream that they were created with, and would write into the middle of the screen; those that were
    created meanwhile would write as the screen that is over, into the middle of the next.
    """
    now = {sys.__stderr__: sys.stderr, sys.__stdout__: sys.stdout}
    _move_handlers(now)
    try:
        yield
    finally:
        _move_handlers({screen: terminal for terminal, screen in now.items()})


def _move_handlers(streams: Mapping[Any, Any]) -> None:
    """Have each handler that writes to a stream write to another."""
    for one in [logging.getLogger(), *map(logging.getLogger, logging.root.manager.loggerDict)]:
        for handler in one.handlers:
            if type(handler) is logging.StreamHandler and handler.stream in streams:
                handler.setStream(streams[handler.stream])


def _doing(trainer: pl.Trainer) -> tuple[str, Any]:
    """Return the current phase of a trainer that is not training, and the number of batches of each loader."""
    if trainer.testing:
        return "testing", trainer.num_test_batches
    if trainer.predicting:
        return "predicting", trainer.num_predict_batches
    return "validating", trainer.num_val_batches


def _total(trainer: pl.Trainer, module: TrainedModule) -> int | None:
    """Return the number of rollouts or updates after which the run ends, by its own limit or the trainer's."""
    if module.clock.limit is not None:
        return int(module.clock.limit)
    epochs, batches = trainer.max_epochs, trainer.num_training_batches
    if epochs is not None and epochs > 0 and batches != float("inf"):
        return int(epochs * batches)
    return trainer.max_steps if trainer.max_steps > 0 and module.clock.unit == "update" else None
