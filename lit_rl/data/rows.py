"""Rows of a data set, from a file, a folder or the Hugging Face hub, with errors that name row and field."""

from __future__ import annotations

import gzip
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from traceback import extract_tb
from typing import Any, Literal, TextIO, TypeVar

from lit_rl.arguments import ArgumentError, UsageError, shown
from lit_rl.data.local_files import JSON_LINES, JSON_LISTS, SUFFIXES, data_files, local_path
from lit_rl.foreign_files import open_text
from lit_rl.lazy import load_extra

BadRows = Literal["error", "skip"]
_MISSING = object()
REMEDY = "fix or remove the row"
_OF_FIELD = re.compile(r"field .* (is missing|is null|needs)\b")
Value = TypeVar("Value")


class RowError(UsageError):
    """A row that cannot be used: one line with the file, the row and the field.

    Attributes:
        kind: what is wrong, the same for all rows with that fault.
    """

    kind = ""


_collected: ContextVar[list[RowError] | None] = ContextVar("collected", default=None)


@contextmanager
def collecting(errors: list[RowError]) -> Iterator[None]:
    """Read on after rows that cannot be used, and collect their errors instead of raising the first.

    An error that a task raises itself ends its reading, and is collected too.
    """
    token = _collected.set(errors)
    try:
        yield
    except RowError as error:
        errors.append(error)
    finally:
        _collected.reset(token)


def _refuse(error: RowError) -> None:
    errors = _collected.get()
    if errors is None:
        raise error from None
    errors.append(error)


@dataclass(frozen=True)
class Row:
    """One row of a data set and its source.

    Args:
        source: file name or data set id, for messages.
        number: 1-based; the line number in a JSON-lines file.
        values: field name to value, as read.
    """

    source: str
    number: int
    values: Mapping[str, Any]

    def __contains__(self, field: str) -> bool:
        return self.values.get(field) is not None

    def __getitem__(self, field: str) -> Any:
        """The field as it was read; a missing or null one is a :class:`RowError`."""
        return self._present(field, None)

    def text(self, field: str, default: str | None = None) -> str:
        """The field's text.

        Args:
            field: its name.
            default: for a field that is missing or null; without it that is an error.

        Raises:
            RowError: missing, or not text.
        """
        value: str = self._typed(field, str, "text", default)
        return value

    def integer(self, field: str, default: int | None = None) -> int:
        """The field's whole number; see :meth:`text`. True and False do not count."""
        value: int = self._typed(field, int, "a whole number", default)
        return value

    def number_of(self, field: str, default: float | None = None) -> float:
        """The field's number, also from text such as ``"0.75"``; see :meth:`text`."""
        value = self.values.get(field)
        if isinstance(value, str):
            try:
                return float(value)
            except ValueError:
                raise self.error(field, f"needs a number, got {_typed(value)}") from None
        return float(self._typed(field, (int, float), "a number", default))

    def texts(self, field: str, default: list[str] | None = None) -> list[str]:
        """The field's list of texts, every item checked; see :meth:`text`."""
        items = self._typed(field, list, "a list of texts", default)
        for index, item in enumerate(items):
            if not isinstance(item, str):
                raise self.error(field, f"needs a list of texts, got {_typed(item)} as item {index}")
        return list(items)

    def json(self, field: str, default: Any = _MISSING) -> Any:
        """The field's value; text is read as JSON first, since many data sets store JSON in text."""
        value = self._present(field, None if default is _MISSING else default)
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError as fault:
            raise self.error(field, f"needs JSON, got {_typed(value)} ({fault})") from None

    def error(self, field: str, fault: str, remedy: str = REMEDY) -> RowError:
        """An error about this row, for the caller to raise."""
        return _row_error(self.source, f"{self.number}, field {field!r}", fault, remedy)

    def _present(self, field: str, default: Any) -> Any:
        value = self.values.get(field)
        if value is None:
            value = default
        if value is None:
            there = ", ".join(sorted(self.values)) or "no fields"
            raise self.error(field, f"is {'null' if field in self.values else 'missing'} (the row has {there})")
        return value

    def _typed(self, field: str, kind: Any, words: str, default: Any) -> Any:
        value = self._present(field, default)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.error(field, f"needs {words}, got {_typed(value)}")
        return value


def read_rows(source: str, *, subset: str | None = None, split: str | None = None) -> Iterator[Row]:
    """Rows of a local file, of the data files of a folder in the order of their names, or of a hub data set.

    JSON lines, Parquet and hub data sets are read row by row, so that a large file does not fill memory; a
    ``.json`` file (one list) is read whole. What exists on disk, starts with ``.``, ``/``, ``~`` or ``$`` or ends
    like a data file is local; anything else is a Hugging Face data set id.

    Args:
        source: path ending in ``.jsonl``, ``.json`` (either may be followed by ``.gz``) or ``.parquet``, a
            folder of such files or one written by ``save_to_disk``, or a data set id such as
            ``openai/openai_humaneval``.
        subset: the data set's configuration; a single file has none.
        split: the data set's split or several joined by ``+``; a single file has none, and a folder's are found by
            names, see :func:`lit_rl.data.local_files.data_files`.

    Raises:
        FileNotFoundError: no such file, a folder without data files or without the split, a variable that is not set.
        ModuleNotFoundError: Parquet, saved folders or the hub without the extra ``data``.
        RowError: a row that is not a JSON object.
        ValueError: another ending, or a file that cannot be read to its end.
    """
    empty = True
    for row in _rows_of(source, subset, split):
        empty = False
        yield row
    if empty:
        warnings.warn(f"{source} has no rows", stacklevel=2)


def _rows_of(source: str, subset: str | None, split: str | None) -> Iterator[Row]:
    path = local_path(source)
    if path.is_dir():
        for file in data_files(path, subset, split):
            yield from _read_file(file)
    elif path.exists() or source.endswith(SUFFIXES) or source.startswith((".", "/", "~", "$")):
        yield from _read_file(path)
    else:
        for part in (split or "train").split("+"):
            yield from _read_hub(source, subset, part)


def parse_rows(rows: Iterable[Row], parse: Callable[[Row], Value], bad_rows: BadRows = "error") -> Iterator[Value]:
    """Every row parsed; errors that the parser did not foresee name the row, too.

    Args:
        rows: as read.
        parse: makes one value from one row.
        bad_rows: ``error`` raises at the first row that ``parse`` refuses; ``skip`` leaves such rows out and
            warns at the end with their number and the first error.

    Raises:
        RowError: from ``parse``, or in place of a ``KeyError``, ``TypeError`` or other ``ValueError`` of it.
        NameError: from ``parse``, with ``skip``.
    """
    skipped: list[RowError] = []
    rows = iter(rows)
    for row in rows:
        try:
            value = parse(row)
        except (AttributeError, LookupError, NameError, TypeError, ValueError, SyntaxError) as fault:
            error = fault if isinstance(fault, RowError) else _stumbled(row, fault)
            if bad_rows == "error":
                _refuse(_about_all(error, rows, parse) if row.number == 1 and _collected.get() is None else error)
            elif isinstance(fault, NameError):  # a mistake in the code, whatever the row
                raise
            else:
                skipped.append(error)
            continue
        yield value
    if skipped:
        warnings.warn(f"left out {len(skipped)} rows that cannot be read; the first: {skipped[0]}", stacklevel=2)


def _about_all(error: RowError, rows: Iterator[Row], parse: Callable[[Row], Any]) -> RowError:
    """The error of a first row, which blames the file's fields if they are at fault in the next rows too."""
    if not _OF_FIELD.match(error.kind):
        return error
    others: list[RowError] = []
    try:
        with collecting(others):
            good = list(parse_rows(islice(rows, 20), parse))
    except Exception:  # what goes wrong further on must not hide this error
        return error
    if good or {one.kind for one in others} != {error.kind}:
        return error
    remedy = "the rows after it fail alike: give this task's own file, or rename its fields"
    return RowError(str(error).replace(REMEDY, remedy))


def _read_file(path: Path) -> Iterator[Row]:
    if not path.is_file():
        raise FileNotFoundError(f"no data file at {path}: correct `path` or put the file there")
    try:
        if path.name.endswith(JSON_LINES):
            yield from _read_lines(path)
        elif path.name.endswith(JSON_LISTS):
            yield from _read_list(path)
        elif path.name.endswith((".parquet", ".arrow")):
            yield from _read_batches(path)
        else:
            raise UsageError(f"{path} has an unknown ending: needs one of {', '.join(SUFFIXES)}")
    except (EOFError, gzip.BadGzipFile, UnicodeDecodeError) as fault:
        advice = "save it as UTF-8" if isinstance(fault, UnicodeDecodeError) else "fetch or unpack it again"
        raise UsageError(f"{path} cannot be read to its end ({fault}): {advice}") from None


def _open(path: Path) -> TextIO:
    return open_text(path, "utf-8-sig")  # a byte order mark, as some editors write, is no part of the first row


def _read_lines(path: Path) -> Iterator[Row]:
    with _open(path) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                values = json.loads(line)
            except ValueError as fault:
                _refuse(_row_error(str(path), number, f"broken JSON ({fault})"))
                continue
            yield from _rows(str(path), number, values)


def _read_list(path: Path) -> Iterator[Row]:
    with _open(path) as file:
        try:
            rows = json.load(file)
        except UnicodeDecodeError:
            raise
        except ValueError as fault:
            raise UsageError(f"{path} is broken JSON ({fault}): fix it, or name JSON lines .jsonl") from None
    if not isinstance(rows, list):
        raise ArgumentError(str(path), "one JSON list of rows", _typed(rows))
    for number, values in enumerate(rows, 1):
        yield from _rows(str(path), number, values)


def _read_batches(path: Path) -> Iterator[Row]:
    """Rows of Parquet, or of a stream of record batches, as ``save_to_disk`` writes."""
    pyarrow, parquet = (load_extra(name, str(path), "data") for name in ("pyarrow", "pyarrow.parquet"))
    try:
        with ExitStack() as files:
            if path.suffix == ".parquet":
                batches = files.enter_context(parquet.ParquetFile(path)).iter_batches(batch_size=1024)
            else:
                file = files.enter_context(pyarrow.memory_map(str(path)))
                batches = files.enter_context(pyarrow.ipc.open_stream(file))
            for number, values in enumerate((row for batch in batches for row in batch.to_pylist()), 1):
                yield from _rows(str(path), number, values)
    except pyarrow.ArrowInvalid as fault:
        raise UsageError(f"{path} cannot be read ({fault}): fetch it again") from None


def _read_hub(name: str, subset: str | None, split: str) -> Iterator[Row]:
    datasets = load_extra("datasets", name, "data")
    try:
        rows = datasets.load_dataset(name, subset, split=split, streaming=True)
    except Exception as fault:
        # The hub client raises many kinds: no network, no such data set, no such split.
        first_line = str(fault).strip().split("\n")[0]
        raise UsageError(
            f"data set {name} (subset {subset}, split {split}) cannot be loaded from the hub "
            f"({type(fault).__name__}: {first_line}): correct the id or give a local file as `path`"
        ) from fault
    for number, values in enumerate(rows, 1):
        yield from _rows(name, number, values)


def _rows(source: str, number: int, values: Any) -> Iterator[Row]:
    """The row of some values; none where they are no object and errors are collected."""
    if isinstance(values, Mapping):
        yield Row(source, number, values)
    else:
        _refuse(_row_error(source, number, f"needs a JSON object, got {_typed(values)}"))


def _stumbled(row: Row, fault: Exception) -> RowError:
    """The error in place of another that parsing raised; of a task outside this package it names the line."""
    if isinstance(fault, UsageError):  # a setting, say: it has a remedy of its own
        return _row_error(row.source, row.number, str(fault), "")
    frames, remedy, at = extract_tb(fault.__traceback__)[1:], REMEDY, ""
    if frames and not Path(frames[0].filename).is_relative_to(Path(__file__).parents[1]):
        own = [one for one in frames if one.filename == frames[0].filename][-1]
        remedy, at = "correct that line, or the row", f" ({Path(own.filename).name}, line {own.lineno})"
    return _row_error(row.source, row.number, f"{type(fault).__name__}: {fault}{at}", remedy)


def _row_error(source: str, where: int | str, fault: str, remedy: str = REMEDY) -> RowError:
    error = RowError(f"{source}, row {where}: {fault}" + (f"; {remedy}" if remedy else ""))
    place = str(where).partition(", ")[2]
    error.kind = f"{place} {fault}".strip().partition(", got")[0].partition(" (")[0]
    return error


def _typed(value: Any) -> str:
    """The type and the beginning of a value, for a message."""
    return f"{type(value).__name__} {shown(value, 60)}"
