"""The two plain files of a run: where they are, how they are written, cut and read.

``metrics.jsonl`` has JSON lines, of which at most the last is incomplete. ``rollouts.jsonl.gz`` has JSON lines in
compressed batches, one gzip member per rollout, each readable without the members after it. The whole file is an
ordinary gzip file: ``zcat rollouts.jsonl.gz | jq`` and ``pandas.read_json`` read it.
"""

from __future__ import annotations

import gzip
import json
import os
import time
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from lit_rl.errors import UsageError
from lit_rl.foreign_files import decompression_bomb_error, max_unpacked_bytes, open_regular_file
from lit_rl.run_files.records import (
    Diagnosis,
    RecordedMetrics,
    RecordedRollout,
    check_field_types,
    finite_or_none,
    recorded_row_from_dict,
    rollout_from_head_line,
)
from lit_rl.run_files.row_text import escape_controls

METRICS_FILE = "metrics.jsonl"
ROLLOUTS_FILE = "rollouts.jsonl.gz"
COMPLETIONS_FILE = "completions.jsonl.gz"
SURROGATES = "backslashreplace"
"""A lone surrogate, which a program's text may contain, becomes its JSON escape and is read back unchanged."""

_NO_METRICS = ("rollout", "update", "time", "start", "diagnosis")
_OF_START = str | bool | int | float | Mapping[str, str] | None
"""The types of the fields in a start's description."""
_CHUNK = 1 << 16
_MAX_LINE_LENGTH = 1 << 26
_GZIP = zlib.MAX_WBITS | 16


class TruncatedFileWarning(UserWarning):
    """The end of a file could not be read: the process was killed while it wrote."""


class RecordBatch(NamedTuple):
    """The lines of one write, the byte of the file after them, and the number of the first, unpacked and from 1."""

    items: list[dict[str, Any]]
    end: int
    line: int


# -- where they are -------------------------------------------------------------------------------------------


def find_newest_recorded_run(run: str | Path) -> Path:
    """Return the folder at or below ``run`` with the newest recorded rollouts; a file of completions as it is."""
    if Path(run).is_file():
        return Path(run)
    found = sorted(Path(run).rglob(ROLLOUTS_FILE))
    if not found:
        raise FileNotFoundError(
            f"no {ROLLOUTS_FILE} at or below {run}: give the folder that a run logged to. RunRecord writes the file "
            "with the first rollout; SFT and DPO have no rollouts (run lit-rl report for their numbers)"
        )
    return max(found, key=lambda file: file.stat().st_mtime).parent


# -- writing --------------------------------------------------------------------------------------------------


class MetricsWriter:
    """Appends to the metrics of a run, a whole line at a time.

    If a run resumes, the records after its checkpoint are dropped first, so that nothing appears twice.

    Args:
        folder: folder of the files; made if missing.
        clock: what the run counts, ``rollout`` or ``update``.
        count: number of steps done; at 0, files in the folder are another run's and are renamed to ``NAME.old``.
    """

    def __init__(self, folder: Path, clock: str, count: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.clock = clock
        drop_records_after(folder / METRICS_FILE, count)
        drop_records_after(folder / ROLLOUTS_FILE, count)

    def append(self, count: int, entry: Mapping[str, Any]) -> None:
        """Append numbers by name, or the entry of a start or a diagnosis; numbers not finite become ``None``."""
        known = {name: finite_or_none(value) if isinstance(value, float) else value for name, value in entry.items()}
        append_json_line(self.folder / METRICS_FILE, {self.clock: count, "time": time.time(), **known})


def to_json_line(item: Mapping[str, Any]) -> str:
    """Return an object as a line of JSON; NaN and infinities, which JSON lacks, must already be ``None``."""
    return json.dumps(item, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def append_json_line(path: Path, item: Mapping[str, Any]) -> None:
    """Append one object in a single write."""
    with path.open("ab") as file:
        file.write(to_json_line(item).encode(errors=SURROGATES) + b"\n")


def append_record_batch(path: Path, items: Sequence[Mapping[str, Any]]) -> int:
    """Append objects as one batch in a single write; return the number of bytes."""
    text = "".join(f"{to_json_line(item)}\n" for item in items).encode(errors=SURROGATES)
    data = gzip.compress(text, compresslevel=6, mtime=0)
    if len(text) > max_unpacked_bytes(len(data)):  # the readers would refuse it
        data = gzip.compress(text, compresslevel=0, mtime=0)
    with path.open("ab") as file:
        file.write(data)
    return len(data)


def drop_records_after(path: Path, count: int) -> int:
    """Drop a torn end, and the records after a checkpoint, whose steps the run will repeat; return the file's length.

    If the run begins at 0, the file is another run's and is renamed to ``NAME.old``.
    """
    if not path.exists():
        return 0
    if count == 0:
        os.replace(path, path.with_name(path.name + ".old"))
        return 0
    end = 0
    for batch in read_record_batches(path) if path.suffix == ".gz" else read_json_lines(path):
        if batch.items and _rollout_or_update_number(batch.items[0]) > count:
            break
        end = batch.end
    os.truncate(path, end)
    return end


def _rollout_or_update_number(item: Mapping[str, Any]) -> int:
    """Return the number of the rollout that a line belongs to, or of the update in a run without rollouts."""
    return int(item.get("rollout", item.get("update", 0)))


# -- reading --------------------------------------------------------------------------------------------------


def read_metrics(folder: str | Path) -> RecordedMetrics:
    """Read the metrics, description and diagnoses of a run; they are empty without a file."""
    file = Path(folder) / METRICS_FILE
    start: dict[str, Any] = {}
    curves: dict[str, dict[int, float]] = {}
    diagnoses: list[Diagnosis] = []
    for batch in read_json_lines(file) if file.exists() else ():
        (item,) = batch.items
        with _name_line_in_error(file, batch.line):
            if "start" in item:
                start = item
                check_field_types("start", start["start"], dict.fromkeys(start["start"], _OF_START))
            if entry := item.get("diagnosis"):  # a condition began to hold, or ceased to
                held = [i for i, one in enumerate(diagnoses) if one.rule == entry["rule"] and one.ended is None]
                if entry.get("ended") and held:
                    diagnoses[held[0]] = diagnoses[held[0]]._replace(ended=item["rollout"])
                elif not entry.get("ended") and not held:
                    rule, message, details = (str(entry[name]) for name in ("rule", "message", "details"))
                    diagnoses.append(Diagnosis(int(item["rollout"]), rule, message, details))
            for name, value in item.items():
                if name not in _NO_METRICS and value is not None:
                    curves.setdefault(name, {})[_rollout_or_update_number(item)] = float(value)
    ordered = {name: sorted(points.items()) for name, points in curves.items()}
    return RecordedMetrics("update" if "update" in start else "rollout", start.get("start", {}), ordered, diagnoses)


def read_rollouts(source: str | Path) -> Iterator[RecordedRollout]:
    """Yield the recorded rollouts of a run, or of a file of completions, in order."""
    path = Path(source) / ROLLOUTS_FILE if Path(source).is_dir() else Path(source)
    for batch in read_record_batches(path):
        with _name_line_in_error(path, batch.line):
            rollout = rollout_from_head_line(batch.items[0])
        rows = []
        for line, item in enumerate(batch.items[1:], batch.line + 1):
            with _name_line_in_error(path, line):
                rows.append(recorded_row_from_dict(rollout.number, item))
        yield replace(rollout, rows=tuple(rows))


@contextmanager
def _name_line_in_error(path: Path, line: int) -> Iterator[None]:
    """Name the file and the line in the error if the code inside cannot read the line."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        what = str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"
        raise UsageError(f"{path}, line {line}, is not in the format of a run: {what}") from error


def read_json_lines(path: Path) -> Iterator[RecordBatch]:
    """Yield the object in each line of a file, as a batch of one; skip a torn last line with a warning."""
    end = 0
    with open_regular_file(path) as file:
        for number, line in enumerate(iter(partial(file.readline, _MAX_LINE_LENGTH), b""), 1):
            try:
                item = json.loads(line) if line.endswith(b"\n") else None
            except (ValueError, RecursionError):
                item = None
            if item is None:
                _warn_truncated(path, end)
                return
            end += len(line)
            yield RecordBatch([item], end, number)


def read_record_batches(path: Path) -> Iterator[RecordBatch]:
    """Yield the whole batches of a compressed file, in order; skip the rest of a torn file with a warning."""
    end, line = 0, 1
    with open_regular_file(path) as file:
        left = b""
        while left := left or file.read(_CHUNK):
            member, parts, size = zlib.decompressobj(_GZIP), [], 0
            start = end
            try:
                while not member.eof and left:
                    most = max_unpacked_bytes(end - start + len(left))
                    parts.append(member.decompress(left, most - size + 1))
                    size += len(parts[-1])
                    if size > most:
                        raise decompression_bomb_error(path)
                    end += len(left) - len(member.unused_data)
                    left = member.unused_data if member.eof else file.read(_CHUNK)
                items = [json.loads(one) for one in b"".join(parts).splitlines()] if member.eof else None
            except UsageError:
                raise
            except (zlib.error, ValueError, RecursionError):
                items = None
            if items is None:
                _warn_truncated(path, start)
                return
            yield RecordBatch(items, end, line)
            line += len(items)


def _warn_truncated(path: Path, start: int) -> None:
    warnings.warn(
        f"{escape_controls(str(path))} is truncated or damaged: everything after byte {start} is skipped",
        TruncatedFileWarning,
        3,
    )
