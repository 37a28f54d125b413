"""Changes to an interpreter for programs: builtins that they expect, and the same random numbers in each run.

A zygote runs without site, so names and settings that programs expect are added.
"""

from __future__ import annotations

import _sitebuiltins
import _thread
import builtins
import random
import sys
import threading
from importlib import import_module
from types import ModuleType
from typing import Any

from lit_rl.execution.confinement.limits import ADDRESS_SLACK

_THREAD_STACK = 8 << 20  # unless a program sets a size; the main thread's may grow as much by default
# A thread's stack is reserved, not used: the address space beyond a program's memory has room for one of this size.
MAX_STACK = ADDRESS_SLACK - (64 << 20)


def prepare_interpreter() -> None:
    """Add the names that site adds, thread stacks of any size, and locks that need no shared memory."""
    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
    added: dict[str, Any] = {
        "help": _sitebuiltins._Helper(),
        "copyright": _sitebuiltins._Printer("copyright", sys.copyright),
        "credits": _sitebuiltins._Printer("credits", "Thanks to all who made Python. See www.python.org."),
        "license": _sitebuiltins._Printer("license", "See https://www.python.org/psf/license/"),
    }
    vars(builtins).update(added)
    _thread.stack_size(_THREAD_STACK)
    threading.stack_size = _thread.stack_size = _make_clamped_stack_size(_thread.stack_size)
    sys.modules["_multiprocessing"] = _make_multiprocessing_module()


def _make_clamped_stack_size(stack_size: Any) -> Any:
    """Return a ``threading.stack_size`` that takes any size: programs ask for 1 GiB where they use a few megabytes."""

    def bounded(size: int = 0, /) -> Any:
        return stack_size(min(size, MAX_STACK) if isinstance(size, int) else size)

    bounded.__name__ = bounded.__qualname__ = "stack_size"
    return bounded


def _make_multiprocessing_module() -> ModuleType:
    """Make the part of ``multiprocessing``'s C module that pools of threads need."""
    module = ModuleType("_multiprocessing")
    vars(module).update(SemLock=_Semaphore, sem_unlink=lambda name: None, flags={})
    return module


class _Semaphore:
    """A lock of ``multiprocessing`` between threads: there are no other processes, and no memory is shared with any."""

    SEM_VALUE_MAX = 2**31 - 1
    name = handle = None

    def __init__(self, kind: int, value: int, maxvalue: int, name: str, unlink: bool) -> None:
        self.kind, self.maxvalue = kind, maxvalue
        semaphore = threading.BoundedSemaphore if value == maxvalue else threading.Semaphore
        # A lock of kind 0 may be taken again by its owner.
        self._lock: Any = vars(threading)["_PyRLock"]() if kind == 0 else semaphore(value)
        self.release = self._lock.release

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        limits = () if timeout is None or not block else (timeout,)
        return bool(self._lock.acquire(block, *limits))

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()

    def _is_mine(self) -> bool:
        return self.kind == 0 and bool(self._lock._is_owned())

    def _count(self) -> int:
        return int(self._lock._count) if self.kind == 0 else 0

    def _get_value(self) -> int:
        return int(self._lock._value)

    def _is_zero(self) -> bool:
        return self._get_value() == 0

    def _after_fork(self) -> None:
        """Do nothing, because programs do not fork."""


_seed_of_random = random.Random.seed
_shared: random.Random = vars(random)["_inst"]  # its methods are the module's functions
_streams = random.Random()  # gives seeds to all generators that get none
_draw = _streams.getrandbits


def seed_all_random(seed: int) -> None:
    """Seed every generator that is made without a seed: ``random``, ``Random()``, and numpy's if numpy is loaded.

    Functions that ask the kernel (``os.urandom``, ``secrets``, ``uuid4``, ``SystemRandom``) still get true randomness.
    """

    def seed_or_draw(
        self: random.Random, a: int | float | str | bytes | bytearray | None = None, version: int = 2
    ) -> None:
        _seed_of_random(self, _draw(128) if a is None else a, version)

    setattr(random.Random, "seed", seed_or_draw)  # noqa: B010 - mypy knows that methods are not assigned to
    random.seed = _shared.seed
    if "numpy" in sys.modules:
        generators = import_module("numpy.random.bit_generator")
        if hasattr(generators, "randbits"):  # what an unseeded generator takes its first state from
            setattr(generators, "randbits", _draw)  # noqa: B010
    reseed_random(seed)


def reseed_random(seed: int) -> None:
    """Continue from another seed, after :func:`seed_all_random`.

    An int needs no hashing: this runs in every grader, where code copies memory when it runs for the first time.
    """
    _seed_of_random(_streams, seed)
    _seed_of_random(_shared, _draw(128))
    if "numpy" in sys.modules:
        import_module("numpy.random").seed(_draw(32))
