"""Turn Ctrl-C, or a signal from a scheduler, into a flag that is checked between rollouts."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

REQUEUE_STATUS = 75
"""Exit status of a run that a signal stopped and that can be resumed (``EX_TEMPFAIL``)."""

INTERRUPT_STATUS = 130
"""Exit status of a run that Ctrl-C ended, by the convention of shells: 128 plus the number of SIGINT."""

_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


class PreemptionFlag:
    """A flag that SIGTERM, SIGUSR1 and the first Ctrl-C set; a second Ctrl-C interrupts immediately.

    Saving inside a signal handler would save the middle of an update, and on some ranks only. So the handler only sets
    the flag; the ranks agree and save at the end of the next rollout.
    """

    def __init__(self) -> None:
        self.is_set = False
        self.interrupted = False
        self._before: dict[signal.Signals, Any] = {}
        self._installed = False

    def install(self) -> None:
        """Take over the signals; call this again after others (Lightning) took them."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            before = signal.signal(number, self._handle_signal)
            if before != self._handle_signal and not (self._installed and number in self._before):
                self._before[number] = before
        self._installed = True

    def uninstall(self) -> None:
        """Restore the former handlers."""
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._before.items():
                signal.signal(number, handler)
        self._installed = False

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._installed:  # after an exception Lightning restores what it found: this handler
            handler = self._before.get(signal.Signals(number), signal.SIG_DFL)
            signal.signal(number, handler)
            if callable(handler):
                handler(number, frame)
            elif handler == signal.SIG_DFL:
                os.kill(os.getpid(), number)
            return
        if number == signal.SIGINT:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True
            print(
                "\nstopping when this rollout is done and saved; Ctrl-C again stops now and loses it", file=sys.stderr
            )
        self.is_set = True
