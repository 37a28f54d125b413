"""The end of a whole program: what the interpreter would still do, done without ending the interpreter.

A real shutdown would cost more than most programs do: it takes apart all modules that were loaded before the fork.
Here only what a program can notice is done: its threads end, its exit functions run, its objects are released, so
that ``__del__`` runs and files that were left open are written out.
"""

from __future__ import annotations

import _thread
import atexit
import gc
import io
import sys
from collections.abc import Callable
from typing import Any

# Looked up once, for all forks; and so a program cannot replace them.
_num_threads, _run_exit_functions, _modules = _thread._count, atexit._run_exitfuncs, sys.modules
_collect, _objects = gc.collect, gc.get_objects
# A program that leaves something to be written out has one of these in its source; looking at its objects instead
# would copy the memory of many types that the fork shares.
_FINISHING = ("__del__", "open", "IO", "Buffered", "writer", "detach", "yield", "exec", "eval")
_STDOUT_BUFFER = getattr(sys.__stdout__, "buffer", None)  # a program may detach it
_TEXT, _BUFFERED = io.TextIOWrapper, (io.BufferedWriter, io.BufferedRandom, io.BufferedRWPair)


def finish(source: str, leave_traceback: Callable[[BaseException], None]) -> None:
    """End the program that ran as ``__main__``.

    Args:
        source: the program's.
        leave_traceback: shows an exception that is raised meanwhile.
    """
    for step in (_join_threads, _run_exit_functions, flush):
        _try(step, leave_traceback)
    if any(word in source for word in _FINISHING):
        for step in (_flush_open_files, _release, flush, _flush_open_files):
            _try(step, leave_traceback)


def _try(step: Callable[[], Any], leave_traceback: Callable[[BaseException], None]) -> None:
    try:
        step()
    except BaseException as error:
        leave_traceback(error)


def flush() -> None:
    """Write out what the program printed."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__, _STDOUT_BUFFER):
        _flush_one(stream)


def _flush_one(file: Any) -> None:
    try:  # noqa: SIM105 - each program does this, and a context manager would cost it copies of memory
        file.flush()
    except BaseException:  # it is closed, detached or None
        pass


def _join_threads() -> None:
    if _num_threads() and "threading" in _modules:
        _modules["threading"]._shutdown()


def _release() -> None:
    """Let go of the program's globals: nothing else holds most of them, and a cycle through them is collected."""
    _modules.pop("__main__", None)
    _collect()


def _flush_open_files() -> None:
    """Write out every open file: text first, which goes into the others.

    Before the globals are released, because in a cycle a file may be closed before the text above it is written;
    and after, for what ``__del__`` wrote and for what a thread or another module holds.
    """
    files = [thing for thing in _objects() if issubclass(type(thing), (_TEXT, *_BUFFERED))]
    for kinds in ((_TEXT,), _BUFFERED):
        for file in files:
            if issubclass(type(file), kinds):
                _flush_one(file)
