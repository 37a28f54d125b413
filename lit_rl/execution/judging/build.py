"""Judging completions of source files in stages: build, run, compare.

Once per worker, a copy of the original tree is built and run; what it writes is the reference. A second copy,
without the masked lines, is built as far as it goes. Each completion gets a copy of the second, file times
included, so that make compiles only what the completion changed and nothing built from the masked lines is within
reach. No completion sees another's copy, and none can touch the original.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lit_rl.execution.checks import BuildAndRun
from lit_rl.execution.confinement.boxed_command import BoxLimits, BoxReport, run_boxed
from lit_rl.execution.confinement.profile import nobody
from lit_rl.execution.judging.jobs import ZygoteClient
from lit_rl.execution.judging.plotfile import PlotfileError, Variable, read_variable, similarity
from lit_rl.execution.judging.text_bleu import text_bleu
from lit_rl.execution.outcome import Outcome, Verdict
from lit_rl.execution.wire.printable import printable
from lit_rl.execution.zygote.work_folder import empty_folder

STAGES = ("compilation", "execution", "header_bleu", "density")

_LONGEST_HEADER = 1 << 20
_EXACT = 1 - 1e-12


class BuildError(RuntimeError):
    """The tree does not build or run as it is: a fault of the task, not of a completion."""


@dataclass(frozen=True)
class Output:
    """What is compared of one plotfile."""

    header: str
    variable: Variable


_references: dict[tuple[Any, ...], tuple[Output, ...]] = {}
_masked: dict[tuple[Any, ...], Path] = {}
_VERSIONS = (".git", ".hg", ".svn")


def judge_build_and_run(client: ZygoteClient, completion: str, check: BuildAndRun) -> Outcome:
    """Put the completion in place of the masked lines; build, run, compare.

    Args:
        client: its settings say where copies are made.
        completion: source of the missing lines; may be empty.
        check: tree, commands, limits.

    Returns:
        An outcome whose ``scores`` hold the four stages and ``total``, their weighted mean.

    Raises:
        BuildError: the unchanged tree does not build or run.
        BoxError: nothing can be confined on this machine.
        ValueError: file or lines are not in the tree.
    """
    started = time.monotonic()
    temporary_folder = client.settings.temporary_folder
    reference = _reference_of(check, temporary_folder)
    folder = _copy(_masked_tree(check, temporary_folder), temporary_folder)
    try:
        # The masked tree lacks the lines: what is filled in goes before the line that followed them.
        fill_lines(folder / check.file, check.first_line, check.first_line - 1, completion)
        outcome = _stages(folder, check, reference)
    finally:
        _remove(folder)
    return replace(outcome, wall_seconds=time.monotonic() - started)


def fill_lines(path: Path, first: int, last: int, completion: str) -> None:
    """Replace lines ``first`` to ``last`` of a file by the completion; ``last = first - 1`` inserts it.

    Raises:
        ValueError: the lines do not exist, or the path is a link, through which another tree could be written.
    """
    if path.is_symlink() or not path.is_file():
        raise ValueError(f"{path} is not a file of the tree itself")
    lines = path.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    if not 1 <= first <= last + 1 <= len(lines) + 1:
        raise ValueError(f"{path.name} has {len(lines)} lines, masked are {first} to {last}")
    filled = [*lines[: first - 1], *([completion.rstrip("\n")] if completion.strip() else []), *lines[last:]]
    path.write_text("\n".join(filled), encoding="utf-8", errors="surrogateescape")


def _stages(folder: Path, check: BuildAndRun, references: tuple[Output, ...]) -> Outcome:
    scores = dict.fromkeys(STAGES, 0.0)
    report = _build(folder, check)
    if not _is_built(report, check):
        verdict = Verdict.TIMED_OUT if report.timed_out else Verdict.SYNTAX_ERROR
        return _outcome(verdict, scores, report, check)
    scores["compilation"] = 1.0
    report = _run(folder, check)
    if report.status != 0 or not all(_is_folder(folder / name) for name in check.outputs):
        verdict = Verdict.TIMED_OUT if report.timed_out else Verdict.EXCEPTION
        return _outcome(verdict, scores, report, check)
    scores["execution"] = 1.0
    headers, variables = [], []
    for name, reference in zip(check.outputs, references, strict=True):
        header, near = _compare(folder / name, reference, check)
        headers.append(header)
        variables.append(near)
    scores["header_bleu"] = sum(headers) / max(1, len(headers))
    scores["density"] = sum(variables) / max(1, len(variables))
    good = min(scores.values()) >= _EXACT
    return _outcome(Verdict.PASSED if good else Verdict.WRONG_ANSWER, scores, report, check)


def _compare(folder: Path, reference: Output, check: BuildAndRun) -> tuple[float, float]:
    """BLEU of the header, and nearness of the array; 0 for what cannot be read."""
    try:
        header = _read_regular(folder, "Header", _LONGEST_HEADER).decode("utf-8", "replace")
    except OSError:
        return 0.0, 0.0
    try:
        near = similarity(_variable(folder, check), reference.variable)
    except PlotfileError:
        near = 0.0
    return text_bleu(header, reference.header), near


def _outcome(verdict: Verdict, scores: Mapping[str, float], report: BoxReport, check: BuildAndRun) -> Outcome:
    weight = sum(check.weights)
    total = sum(w * scores[stage] for w, stage in zip(check.weights, STAGES, strict=True)) / weight
    return Outcome(verdict, scores={**scores, "total": total}, stderr=printable(report.log[-4096:]))


# --- the unchanged tree -----------------------------------------------------------------------------------


def _reference_of(check: BuildAndRun, temporary_folder: str) -> tuple[Output, ...]:
    """What the unchanged tree writes; computed once per worker, whatever lines are masked."""
    key = _what_is_built(check)
    if key not in _references:
        _references[key] = _run_reference(check, temporary_folder)
    return _references[key]


def _what_is_built(check: BuildAndRun) -> tuple[Any, ...]:
    """The part of a check that decides what is built and written: all but limits and weights."""
    built = (check.tree, check.build, check.run, check.outputs, check.variable, check.success_text)
    return (*built, check.readable, check.environment)


def _run_reference(check: BuildAndRun, temporary_folder: str) -> tuple[Output, ...]:
    tree = Path(check.tree)
    if not tree.is_dir():
        raise BuildError(f"no source tree at {tree}")
    folder = _copy(tree, temporary_folder)
    try:
        report = _build(folder, check)
        if not _is_built(report, check):
            raise BuildError(f"{tree} does not build as it is ({check.build!r}): {report.log[-1000:]}")
        report = _run(folder, check)
        if report.status != 0:
            raise BuildError(f"{tree} does not run as it is ({check.run!r}): {report.log[-1000:]}")
        return tuple(_output(folder / name, check) for name in check.outputs)
    except (OSError, PlotfileError) as error:
        raise BuildError(f"{tree} does not write what is compared: {error}") from error
    finally:
        _remove(folder)


def _masked_tree(check: BuildAndRun, temporary_folder: str) -> Path:
    """A copy of the tree without the masked lines, built as far as that goes; kept until this worker ends."""
    key = (*_what_is_built(check), check.file, check.first_line, check.last_line)
    if key not in _masked:
        folder = _copy(Path(check.tree), temporary_folder)
        if not _masked:
            atexit.register(_forget)
        _masked[key] = folder
        fill_lines(folder / check.file, check.first_line, check.last_line, "")
        _build(folder, check, {"MAKEFLAGS": "k"})  # make goes on after the file that may not compile
    return _masked[key]


def _output(folder: Path, check: BuildAndRun) -> Output:
    header = _read_regular(folder, "Header", _LONGEST_HEADER).decode("utf-8", "replace")
    return Output(header, _variable(folder, check))


def _forget() -> None:
    for folder in _masked.values():
        _remove(folder)
    _masked.clear()
    _references.clear()


# --- commands and files -----------------------------------------------------------------------------------


def _build(folder: Path, check: BuildAndRun, environment: Mapping[str, str] | None = None) -> BoxReport:
    return _boxed(check.build, folder, check, check.build_seconds, environment)


def _run(folder: Path, check: BuildAndRun) -> BoxReport:
    return _boxed(check.run, folder, check, check.run_seconds)


def _boxed(
    command: str, folder: Path, check: BuildAndRun, seconds: float, environment: Mapping[str, str] | None = None
) -> BoxReport:
    limits = BoxLimits(seconds, memory_bytes=check.memory_bytes)
    variables = {**dict(check.environment), **(environment or {})}
    return run_boxed(command, folder, limits, readable=check.readable, environment=variables)


def _is_built(report: BoxReport, check: BuildAndRun) -> bool:
    """Whether exit status and last line of the log both say so: either alone can be wrong."""
    lines = report.log.rstrip().splitlines()
    return report.status == 0 and bool(lines) and check.success_text in lines[-1]


def _copy(source: Path, temporary_folder: str) -> Path:
    """A copy that the box's user owns, with file times but without version control; links stay links."""
    target = Path(tempfile.mkdtemp(prefix="lit_rl-build-", dir=temporary_folder))
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*_VERSIONS))
    user = nobody()
    for folder, folders, files in os.walk(target):
        for name in (".", *folders, *files):
            path = os.path.join(folder, name)
            if os.geteuid() == 0:
                os.chown(path, user, user, follow_symlinks=False)
            if not os.path.islink(path):
                os.chmod(path, os.stat(path).st_mode | stat.S_IRUSR | stat.S_IWUSR)
    return target


def _remove(folder: Path) -> None:
    """Remove a folder whose content may be deep, unreadable and strangely named."""
    empty_folder(str(folder))
    os.rmdir(folder)


def _variable(folder: Path, check: BuildAndRun) -> Variable:
    def read(path: str) -> bytes:
        return _read_regular(folder, path, check.compare_bytes)

    return read_variable(read, check.variable, check.compare_bytes)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _read_regular(folder: Path, path: str, most_bytes: int) -> bytes:
    """A regular file beneath ``folder``, never through a link: a program may have put anything there.

    Raises:
        OSError: there is none, a link is on the way, or it is too long.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    *parents, name = path.split("/")
    try:
        for parent in parents:
            below = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor)
    finally:
        os.close(descriptor)
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most_bytes:
            raise OSError(f"{path} is not a file of at most {most_bytes} bytes")
        return opened.read(most_bytes)
