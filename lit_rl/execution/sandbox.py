"""Sandbox that runs untrusted programs next to a trainer; it returns reliable verdicts, in order and in time."""

from __future__ import annotations

import collections
import contextlib
import errno
import logging
import os
import pickle
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

from lit_rl.execution.checks import Check, StdioTests
from lit_rl.execution.confinement.limits import error_with_remedy, require_open_files_limit
from lit_rl.execution.interface import Outcome, ProgramRunner, Verdict, require_program_and_check
from lit_rl.execution.judging.supervising.supervisor import KILLED
from lit_rl.execution.languages import LANGUAGES, Language
from lit_rl.execution.spawning import TIERS, ZygoteSettings, find_package_paths
from lit_rl.execution.worker import SandboxError, Worker
from lit_rl.execution.zygote.work_folder import clear_folder
from lit_rl.signature_check import PositiveInt, ValueLimit

_log = logging.getLogger(__name__)

_GRACE_SECONDS = 30.0
_CHUNK = 8
# Descriptors: per worker in this process (also during its replacement), spare for the trainer, and within a worker.
_OF_WORKER, _SPARE, _WITHIN_WORKER = 4, 16, 96
# How often a run may be lost, while known good programs pass, before the program is taken as the reason. Chance may
# lose a few runs of a good program in a row if something kills processes at random.
_MAX_STRIKES = 5
# Seconds between tries while a known good program fails too; after the last, the machine is at fault.
_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0)
_MAX_STARTS = 5
_GOOD_SECONDS = 10.0


# An interpreter alone takes most of this minimum.
Memory = Annotated[int, ValueLimit("at least 16777216 bytes (512 MiB are usual)", lambda value: value >= 16 << 20)]


@dataclass(eq=False, slots=True)
class PendingProgram:
    """A submitted program, until its future is resolved.

    ``strikes`` counts how often the run was lost while a known good program passed; ``faults`` counts how often the
    good program failed, too. ``is_single`` gives the program a worker to itself, ``is_alone`` the whole machine.
    """

    program: str
    check: Check
    budget_seconds: float = 0.0
    packed: bytes = b""
    future: Future[Outcome] = field(default_factory=Future)
    started: bool = False
    is_single: bool = False
    is_alone: bool = False
    strikes: int = 0
    faults: int = 0
    reason: str = ""

    def mark_started(self) -> bool:
        """Mark the program as started, so that it cannot be cancelled; return False if it was cancelled before."""
        self.started = self.started or self.future.set_running_or_notify_cancel()
        return self.started

    def pack_check(self) -> bool:
        """Pack the check for a worker; on failure, resolve the program's future and return False."""
        try:
            self.budget_seconds = self.check.wall_budget_seconds
            self.packed = pickle.dumps(self.check, pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # a check of the user's may hold anything
            message = f"{type(self.check).__name__} must hold plain data that pickles, and a time limit, got {error!r}"
            self.resolve(Outcome(Verdict.INFRASTRUCTURE_FAILURE, stderr=message))
        return bool(self.packed)

    def resolve(self, outcome: Outcome) -> None:
        with contextlib.suppress(Exception):  # cancelled by its owner meanwhile
            self.future.set_result(outcome)

    def fail(self, message: str) -> None:
        """Set an error in place of an outcome."""
        with contextlib.suppress(Exception):
            self.future.set_exception(SandboxError(message))


class Sandbox(ProgramRunner):
    """Judges programs in separate, limited processes.

    Workers start with the first program, with ``start()``, or on entry of a ``with`` block. A copy, also one made by
    pickle, has the same arguments and starts workers of its own. All methods may be called from any thread.

    Args:
        num_workers: programs that run at the same time.
        memory_bytes: memory limit of one program.
        output_bytes: size limit of a program's standard output, and of each file.
        work_bytes: largest total size of one program's files.
        tier: 0 (system-call filter and file rules), 1 (also namespaces) or 2 (also a control group); ``None``
            takes the highest that works here.
        packages: names of installed packages that programs may import besides the standard library.
        allow_weak: run even where tier 0 is not available. Programs can then read and write this user's files.
        temporary_folder: where work folders are made; ``None`` for the system's temporary folder.
    """

    def __init__(
        self,
        num_workers: PositiveInt = 2,
        memory_bytes: Memory = 512 << 20,
        output_bytes: int = 16 << 20,
        work_bytes: int = 64 << 20,
        tier: Literal[-1, 0, 1, 2] | None = None,
        packages: Sequence[str] = (),
        allow_weak: bool = False,
        temporary_folder: str | None = None,
    ) -> None:
        self._arguments = (
            num_workers, memory_bytes, output_bytes, work_bytes, tier, tuple(packages), allow_weak, temporary_folder,
        )  # fmt: skip
        found = find_package_paths(packages)
        self._zygote = ZygoteSettings(
            memory_bytes=memory_bytes,
            output_bytes=output_bytes,
            work_bytes=work_bytes,
            tier=tier,
            allow_weak=allow_weak,
            packages=tuple(path for paths in found.values() for path in paths),
            imports=tuple(found),
        )
        self._num_workers, self._parent_folder = num_workers, temporary_folder
        self._folder: str | None = None
        self._starting = threading.Lock()
        self._changed = threading.Condition()
        self._waiting: collections.deque[PendingProgram] = collections.deque()
        self._num_busy, self._is_exclusive = 0, False
        self._closed = False
        self._workers: list[Worker | None] = []
        self._threads: list[threading.Thread] = []

    def __reduce__(self) -> tuple[type[Sandbox], tuple[Any, ...]]:
        return type(self), self._arguments

    def start(self) -> Self:
        """Start the workers, unless they run already."""
        with self._starting:
            if self._closed:
                raise SandboxError("the sandbox is closed; make a new one")
            if not self._threads:
                try:
                    self._start_workers()
                except BaseException:
                    self._close_workers()
                    raise
                # Shown even if logging is not set up: the line says what protects this machine.
                if not _log.hasHandlers():
                    _log.addHandler(logging.StreamHandler())
                if _log.level == logging.NOTSET:
                    _log.setLevel(logging.INFO)
                tier = self.tier
                _log.info(f"sandbox: {self._num_workers} workers, tier {tier}: {TIERS[tier]}")
        return self

    @property
    def tier(self) -> int:
        """The tier that is used; reading it starts the workers, if they do not run yet."""
        if not self._workers:
            self.start()
        return self._tier

    def _start_workers(self) -> None:
        try:
            require_open_files_limit(self._num_workers * _OF_WORKER + _SPARE, _WITHIN_WORKER)
            self._folder = tempfile.mkdtemp(prefix="lit_rl-", dir=self._parent_folder)
            os.chmod(self._folder, 0o711)  # programs may run as another user
            import_paths = tuple(os.path.abspath(path) for path in sys.path if os.path.exists(path or "."))
            self._settings = self._zygote._replace(temporary_folder=self._folder), import_paths
            for _ in range(self._num_workers):
                worker = Worker(self._settings)
                self._workers.append(worker)
                self._tier = worker.tier
            self._start_threads()
        except OSError as error:
            raise SandboxError(f"the sandbox cannot start: {error_with_remedy(error)}") from None

    def _start_threads(self) -> None:
        threads = []
        try:
            for slot in range(self._num_workers):
                thread = threading.Thread(
                    target=self._run_worker_thread, args=(slot,), name=f"sandbox-{slot}", daemon=True
                )
                thread.start()
                threads.append(thread)
        except RuntimeError:  # how Python says that no thread can be started
            with self._changed:
                self._closed = True
                self._changed.notify_all()
            for thread in threads:
                thread.join()
            self._closed = False
            raise OSError(errno.EAGAIN, "no thread") from None
        self._threads = threads

    def submit(self, program: str, check: Check) -> Future[Outcome]:
        require_program_and_check(program, check)
        self.start()
        item = PendingProgram(program, check)
        with self._changed:
            if not self._closed:
                self._waiting.append(item)
                self._changed.notify_all()
                return item.future
        item.fail("the sandbox was closed")
        return item.future

    def __enter__(self) -> Self:
        return self.start()

    def close(self) -> None:
        """End all workers; programs not judged yet get a ``SandboxError``."""
        with self._starting, self._changed:
            self._closed = True
            left = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        for item in left:
            item.fail("the sandbox was closed")
        for worker in self._workers:
            if worker is not None:
                worker.hang_up()
        for thread in self._threads:
            thread.join(20)
        self._close_workers()

    @property
    def is_running(self) -> bool:
        return bool(self._threads) and not self._closed

    def reopen(self) -> None:
        """Allow workers to start again after ``close``, with the next program."""
        with self._starting, self._changed:
            if not self._closed:
                return
            if any(thread.is_alive() for thread in self._threads):
                raise SandboxError("the sandbox is still ending its workers; make a new sandbox")
            self._threads = []
            self._closed, self._num_busy, self._is_exclusive = False, 0, False

    def _close_workers(self) -> None:
        for slot in range(len(self._workers)):
            self._end_worker(slot)
        self._workers.clear()
        if self._folder is not None and os.path.isdir(self._folder):  # left over by workers that were killed
            try:
                clear_folder(self._folder)
                os.rmdir(self._folder)
            except OSError as error:
                _log.warning("the sandbox's folder %s cannot be removed: %s", self._folder, error)

    def _take_next_programs(self) -> list[PendingProgram]:
        """Return the next few programs: with several, a worker need not wait for this thread after each program."""
        with self._changed:
            while not self._closed:
                taken = self._take_runnable_programs()
                if taken:
                    self._num_busy += 1
                    self._is_exclusive = taken[0].is_alone
                    return taken
                self._changed.wait()
            return []

    def _take_runnable_programs(self) -> list[PendingProgram]:
        """Take the programs that a worker may run now; none while one program needs the machine to itself."""
        share = max(1, min(_CHUNK, len(self._waiting) // (2 * self._num_workers)))
        taken: list[PendingProgram] = []
        while self._waiting and len(taken) < share and not self._is_exclusive:
            first = self._waiting[0]
            if (first.is_single and taken) or (first.is_alone and self._num_busy):
                break
            item = self._waiting.popleft()
            if item.mark_started():
                taken.append(item)
            if item.is_single:
                break
        return taken

    def _run_worker_thread(self, slot: int) -> None:
        """Serve one worker in a thread: hand out programs, collect outcomes, replace the worker when it is lost."""
        while items := self._take_next_programs():
            items = [item for item in items if item.pack_check()]
            try:
                if items and items[0].is_alone:
                    self._judge_alone(slot, items[0])
                else:
                    self._judge_and_resolve(slot, items)
            finally:
                with self._changed:
                    self._num_busy -= 1
                    self._is_exclusive = False
                    self._changed.notify_all()
        self._end_worker(slot)

    def _judge_and_resolve(self, slot: int, items: list[PendingProgram]) -> None:
        """Judge ``items``; programs whose run is lost are judged again, alone.

        If a worker is lost with several programs, each first gets a worker to itself, to show which one is the reason.
        """
        lost: list[PendingProgram] = []
        are_several = len(items) > 1
        try:
            for item, outcome in self._outcomes_or_loss_reasons(slot, items):
                items = items[1:]
                if isinstance(outcome, str):
                    lost.append(item)
                    item.reason = outcome
                else:
                    item.resolve(outcome)
        except (OSError, EOFError, SandboxError) as error:
            _log.warning("a sandbox worker was lost (%s: %s); replacing it", type(error).__name__, error)
            self._end_worker(slot)
            if are_several:
                self._requeue(items, alone=False)
            else:
                lost += items
        self._requeue(lost)

    def _judge_alone(self, slot: int, item: PendingProgram) -> None:
        """Judge a program whose run was lost, on a fresh worker, after a known good program.

        If the good program fails too, the machine is at fault, and the lost program is tried again after a pause. If
        its run is lost several times while the good program passes each time, the lost program is the reason.
        """
        self._end_worker(slot)
        # A program that every working machine runs, in the language of the check, and what it prints.
        language: Language = next((name for name in LANGUAGES if name == item.check.language), "python")
        program = LANGUAGES[language].good.replace("{num_bytes}", str(self._zygote.memory_bytes // 2))
        good = PendingProgram(program, StdioTests((("", "good\n"),), language, _GOOD_SECONDS))
        good.pack_check()
        works = repeats = is_over_content = False
        try:
            _, result = next(self._outcomes_or_loss_reasons(slot, [good]))
            if isinstance(result, str) or not result.passed:
                return self._retry_later(
                    item, result if isinstance(result, str) else f"{result.verdict}: {result.stderr}"
                )
            works = True
            _, outcome = next(self._outcomes_or_loss_reasons(slot, [item]))
            if isinstance(outcome, Outcome):
                return item.resolve(outcome)
            repeats = outcome == item.reason != KILLED  # a judge that raises the same twice always will
            item.reason = outcome
        except (OSError, EOFError, SandboxError) as error:
            worker = self._workers[slot]
            self._end_worker(slot)
            if not works:
                return self._retry_later(item, str(error))
            is_over_content = worker is not None and worker.ended_over_program_output
            item.reason = f"its worker was lost ({error})"
        item.strikes += 1
        if item.strikes < _MAX_STRIKES and not (repeats or is_over_content):
            return self._requeue([item])
        message = f"lost {item.strikes + 1} times, the last time just after a known good program passed: {item.reason}"
        _log.warning("a program counts as failed, %s", message)
        item.resolve(Outcome(Verdict.OUTPUT_LIMIT if is_over_content else Verdict.EXCEPTION, stderr=message))

    def _outcomes_or_loss_reasons(
        self, slot: int, items: Sequence[PendingProgram]
    ) -> Iterator[tuple[PendingProgram, Outcome | str]]:
        """Yield each program with its outcome, or with the reason why its run was lost."""
        worker = self._workers[slot]
        if worker is None:
            worker = self._workers[slot] = self._start_replacement_worker()
        worker.send([(i, item.program, item.packed) for i, item in enumerate(items)])
        num_judged = 0
        while num_judged < len(items):
            for number, outcome in worker.receive(items[num_judged].budget_seconds + _GRACE_SECONDS):
                num_judged += 1
                yield items[number], outcome

    def _retry_later(self, item: PendingProgram, result: str) -> None:
        """Try a program again after a pause because a known good program failed too; give up after the last pause."""
        if item.faults == len(_PAUSES):
            item.fail(
                f"this machine cannot run programs at present: a known good program failed {item.faults + 1} times in "
                f"{sum(_PAUSES):.0f} seconds ({result.strip()[-700:]}); give the job more memory, or the sandbox fewer "
                "workers, and resume"
            )
            return
        with self._changed:
            self._changed.wait_for(lambda: self._closed, _PAUSES[item.faults])
        item.faults += 1
        self._requeue([item])

    def _requeue(self, items: list[PendingProgram], alone: bool = True) -> None:
        """Queue programs again, before all others: each runs alone on this machine, or only alone in its worker."""
        with self._changed:
            for item in items:
                item.is_single, item.is_alone = True, alone
            if not self._closed:
                self._waiting.extendleft(reversed(items))
                self._changed.notify_all()
                return
        for item in items:
            item.fail("the sandbox was closed")

    def _end_worker(self, slot: int) -> None:
        """End a worker; the next program starts another worker in its place."""
        worker = self._workers[slot] if slot < len(self._workers) else None
        if worker is not None:
            self._workers[slot] = None
            worker.close()

    def _start_replacement_worker(self) -> Worker:
        """Start a worker in place of a lost one; a failure to start says nothing about any program."""
        for _ in range(_MAX_STARTS - 1):
            try:
                return Worker(self._settings)
            except (OSError, SandboxError) as error:
                _log.warning("a sandbox worker could not be replaced (%s); trying again", error)
                with self._changed:
                    self._changed.wait_for(lambda: self._closed, 0.2)
                if self._closed:
                    break
        return Worker(self._settings)
