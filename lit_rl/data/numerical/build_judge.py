"""Judging completions of source files in stages: build, run, compare.

Each worker once builds and runs a copy of the original tree, whose output is the reference. A second copy, without the
masked lines, is built as far as possible. Each completion gets a copy of this second tree, file times included, so that
make compiles only what the completion changed, and nothing that was built from the masked lines is within reach. No
completion sees another completion's copy, and none can touch the original.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import math
import os
import shutil
import stat
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from lit_rl.data.numerical.build_check import BuildAndRun
from lit_rl.data.numerical.plotfile import MAX_HEADER_LENGTH, MultiLevelField, field_similarity, read_plotfile_field
from lit_rl.execution.confinement.box import BoxError, BoxLimits, BoxReport, run_boxed
from lit_rl.execution.confinement.profile import untrusted_user_id
from lit_rl.execution.interface import FaultyCheck, Outcome, Verdict
from lit_rl.execution.judging.supervising.jobs import ZygoteClient
from lit_rl.execution.wire.printable import make_printable
from lit_rl.execution.zygote.work_folder import clear_folder

STAGES = ("compilation", "execution", "header_bleu", "density")

_EXACT = 1 - 1e-12
_UNREADABLE = (OSError, LookupError, ValueError, ArithmeticError)  # from files that a completion's program leaves


Output = tuple[str, MultiLevelField]  # what is compared of one plotfile: its header, and an array
_references: dict[tuple[Any, ...], tuple[Output, ...]] = {}
_masked: dict[tuple[Any, ...], Path] = {}
_VERSIONS = (".git", ".hg", ".svn")


def judge_build_and_run(client: ZygoteClient, completion: str, check: BuildAndRun) -> Outcome:
    """Put the completion in place of the masked lines; build, run, compare.

    The outcome's ``scores`` hold the four stages and ``total``, their weighted mean.
    """
    started = time.monotonic()
    temporary_folder = client.settings.temporary_folder
    try:
        # The output of the unchanged tree is computed once per worker, whatever lines are masked.
        built = _reference_cache_key(check)
        if built not in _references:
            _references[built] = _run_reference(check, temporary_folder)
        masked = _masked_source_tree(check, temporary_folder)
    except BoxError as error:
        raise FaultyCheck(str(error)) from error
    for _ in range(2):
        try:
            folder = _copy_tree(masked, temporary_folder)
            try:
                # The masked tree lacks the lines: the completion goes before the line that followed them.
                replace_lines_in_file(folder / check.file, check.first_line, check.first_line - 1, completion)
                outcome = _run_stages(client, folder, check, _references[built])
            finally:
                with contextlib.suppress(OSError):  # what stays is removed with the sandbox's own folder
                    _remove_tree(folder)
            break
        except MemoryError:
            raise  # the supervisor is at its own limit
        except Exception as error:
            _run_reference(check, temporary_folder)  # raises an error if the machine is at fault
            log = f"the completion could not be judged, but the unchanged tree could: {error!r}"
            outcome = _outcome_from_scores(Verdict.EXCEPTION, dict.fromkeys(STAGES, 0.0), log, check)
    return replace(outcome, wall_seconds=time.monotonic() - started)


def replace_lines_in_file(path: Path, first: int, last: int, completion: str) -> None:
    """Replace lines ``first`` to ``last`` of a file by the completion; ``last = first - 1`` inserts the completion."""
    if path.resolve() != path or not path.is_file():
        raise FaultyCheck(f"{path} is not a file of the tree, or is reached through a link")
    lines = path.read_bytes().split(b"\n")
    if not 1 <= first <= last + 1 <= len(lines) + 1:
        raise FaultyCheck(f"{path.name} has {len(lines)} lines, but lines {first} to {last} are masked")
    written = completion.rstrip("\n").encode("utf-8", "surrogatepass")  # whatever a model samples
    path.write_bytes(b"\n".join([*lines[: first - 1], *([written] if completion.strip() else []), *lines[last:]]))


def _run_stages(client: ZygoteClient, folder: Path, check: BuildAndRun, references: tuple[Output, ...]) -> Outcome:
    scores = dict.fromkeys(STAGES, 0.0)
    report = _run_build(folder, check)
    if not _has_build_succeeded(report):
        verdict = Verdict.TIMED_OUT if report.timed_out else Verdict.SYNTAX_ERROR
        return _outcome_from_scores(verdict, scores, report.log, check)
    scores["compilation"] = 1.0
    report = _run_sandboxed(check.run, folder, check, check.run_seconds)
    written = [folder / name for name in check.outputs]
    if report.status != 0 or not all(os.path.isdir(path) and not os.path.islink(path) for path in written):
        verdict = Verdict.TIMED_OUT if report.timed_out else Verdict.EXCEPTION
        return _outcome_from_scores(verdict, scores, report.log, check)
    scores["execution"] = 1.0
    for name, reference in zip(check.outputs, references, strict=True):
        client.on_report()  # the supervisor's own limits begin anew
        header, density = _output_scores(folder / name, reference, check)
        scores["header_bleu"] += header / len(references)
        scores["density"] += density / len(references)
    good = min(scores.values()) >= _EXACT
    return _outcome_from_scores(Verdict.PASSED if good else Verdict.WRONG_ANSWER, scores, report.log, check)


def _output_scores(folder: Path, reference: Output, check: BuildAndRun) -> tuple[float, float]:
    """Return the BLEU of the header and the nearness of the array."""
    header = _score_or_zero(lambda: text_bleu(_output_header(folder), reference[0]))
    return header, _score_or_zero(lambda: field_similarity(_output_field(folder, check), reference[1]))


def _score_or_zero(compare: Callable[[], float]) -> float:
    """Return the score of a comparison; 0 if the completion's output cannot be read or compared."""
    try:
        return compare()
    except _UNREADABLE:
        return 0.0


def _outcome_from_scores(verdict: Verdict, scores: Mapping[str, float], log: str, check: BuildAndRun) -> Outcome:
    weight = sum(check.weights)
    total = sum(w * scores[stage] for w, stage in zip(check.weights, STAGES, strict=True)) / weight
    return Outcome(verdict, scores={**scores, "total": total}, stderr=make_printable(log[-4096:]))


# --- the unchanged tree -----------------------------------------------------------------------------------


def _reference_cache_key(check: BuildAndRun) -> tuple[Any, ...]:
    """Return the part of a check that determines build and output: everything but limits and weights."""
    built = (check.tree, check.build, check.run, check.outputs, check.variable)
    return (*built, check.readable, check.environment)


def _run_reference(check: BuildAndRun, temporary_folder: str) -> tuple[Output, ...]:
    folder: Path | None = None
    try:
        folder = _copy_tree(Path(check.tree), temporary_folder)
        command, report = check.build, _run_build(folder, check)
        if is_built := _has_build_succeeded(report):
            command, report = check.run, _run_sandboxed(check.run, folder, check, check.run_seconds)
        if not is_built or report.status != 0:
            raise ChildProcessError(f"{command!r} fails: {report.log[-1000:]}")
        outputs = tuple((_output_header(folder / name), _output_field(folder / name, check)) for name in check.outputs)
        if any(field_similarity(variable, variable) != 1.0 for _, variable in outputs):
            raise ValueError(f"{check.variable} has values that are not finite")
        return outputs
    except _UNREADABLE as error:
        fault = "fails, without a completion, to build, to run or to write the output to compare"
        raise FaultyCheck(f"{check.tree} {fault}: {error}") from error
    finally:
        if folder is not None:
            _remove_tree(folder)


def _masked_source_tree(check: BuildAndRun, temporary_folder: str) -> Path:
    """Return a copy of the tree without the masked lines, built as far as possible and kept until this worker ends."""
    key = (*_reference_cache_key(check), check.file, check.first_line, check.last_line)
    if key not in _masked:
        folder = _copy_tree(Path(check.tree), temporary_folder)
        try:
            replace_lines_in_file(folder / check.file, check.first_line, check.last_line, "")
            _run_build(folder, check, {"MAKEFLAGS": "k"})  # make continues after the file that may not compile
        except BaseException:
            _remove_tree(folder)  # the lines may still be there
            raise
        if not _masked:
            atexit.register(_remove_masked_source_trees)
        _masked[key] = folder
    return _masked[key]


def _remove_masked_source_trees() -> None:
    for folder in _masked.values():
        _remove_tree(folder)
    _masked.clear()
    _references.clear()


# --- commands and files -----------------------------------------------------------------------------------


def _run_build(folder: Path, check: BuildAndRun, environment: Mapping[str, str] | None = None) -> BoxReport:
    return _run_sandboxed(check.build, folder, check, check.build_seconds, environment)


def _run_sandboxed(
    command: str, folder: Path, check: BuildAndRun, seconds: float, environment: Mapping[str, str] | None = None
) -> BoxReport:
    limits = BoxLimits(seconds, memory_bytes=check.memory_bytes)
    variables = {**dict(check.environment), **(environment or {})}
    os.chmod(folder, 0o700)  # the previous command may have closed the folder
    hidden = (*folders_to_hide(check.tree), str(folder.parent))
    return run_boxed(command, folder, limits, readable=check.readable, hidden=hidden, environment=variables)


def folders_to_hide(tree: str) -> list[str]:
    """Return the tree, and the histories of version control in which its masked lines may be found."""
    path = Path(tree).resolve()
    return [str(path), *(str(above / name) for above in path.parents for name in _VERSIONS)]


def _has_build_succeeded(report: BoxReport) -> bool:
    """Return whether exit status and last line of the log both report success: either alone can be wrong."""
    lines = report.log.rstrip().splitlines()
    return report.status == 0 and bool(lines) and "SUCCESS" in lines[-1]


def _copy_tree(source: Path, temporary_folder: str) -> Path:
    """Return a copy that the box's user owns, with file times but without version control; links stay links."""
    target = Path(tempfile.mkdtemp(prefix="lit_rl-build-", dir=temporary_folder)).resolve()
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*_VERSIONS))
    user = untrusted_user_id()
    for folder, folders, files in os.walk(target):
        for name in (".", *folders, *files):
            path = os.path.join(folder, name)
            if os.geteuid() == 0:
                os.chown(path, user, user, follow_symlinks=False)
            if not os.path.islink(path):
                os.chmod(path, os.stat(path).st_mode | stat.S_IRUSR | stat.S_IWUSR)
    return target


def _remove_tree(folder: Path) -> None:
    """Remove a folder whose content may be deep, unreadable and strangely named."""
    clear_folder(str(folder))
    os.rmdir(folder)


def _output_header(folder: Path) -> str:
    return _read_regular_file(folder, "Header", 0, MAX_HEADER_LENGTH).decode("utf-8", "replace")


def _output_field(folder: Path, check: BuildAndRun) -> MultiLevelField:
    return read_plotfile_field(partial(_read_regular_file, folder), check.variable)


def _read_regular_file(folder: Path, path: str, offset: int, num_bytes: int) -> bytes:
    """Read at most ``num_bytes`` of a regular file beneath ``folder``, never through a link: anything may be there."""
    *parents, name = path.split("/")
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for flags, part in (*((os.O_DIRECTORY, parent) for parent in parents), (os.O_NONBLOCK, name)):
            below = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | flags, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        return os.pread(descriptor, num_bytes, offset)
    finally:
        os.close(descriptor)


_ORDER = 4


def text_bleu(text: str, reference: str) -> float:
    """Return sentence BLEU in [0, 1] of small files, without any package; 1 for equal words or two empty texts.

    Counts n-grams of words between white space, up to four, with the effective order and the exponential smoothing
    of sacrebleu's sentence BLEU, to give the same number as sacrebleu (see the tests). The reward term over
    completions uses sacrebleu itself.

    Source:
        Papineni et al. 2002, https://aclanthology.org/P02-1040; smoothing: Chen and Cherry 2014, method 3,
        https://aclanthology.org/W14-3346

    Example:
        >>> text_bleu("a b c d", "a b c d")
        1.0
    """
    words, expected = text.split(), reference.split()
    if not words or not expected:
        return float(words == expected)
    logs, halvings = [], 1.0
    for order in range(1, min(_ORDER, len(words)) + 1):
        total, matched = len(words) - order + 1, 0
        # Only n-grams of the reference are kept: the text may be long on purpose.
        left = Counter(zip(*(expected[i:] for i in range(order)), strict=False))
        for ngram in zip(*(itertools.islice(words, i, None) for i in range(order)), strict=False):
            if left.get(ngram, 0) > 0:
                left[ngram] -= 1
                matched += 1
        if not matched:
            if order == 1:
                return 0.0
            halvings *= 2
        logs.append(math.log((matched or 1 / halvings) / total))
    brevity = min(0.0, 1 - len(expected) / len(words))
    return math.exp(brevity + sum(logs) / len(logs))
