"""Rows of a data set, from a file, a folder or the Hugging Face hub, with errors that name row and field."""

from __future__ import annotations

import gzip
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from lit_rl.errors import UsageError, expand_variables, short_repr
from lit_rl.foreign_files import open_text_or_gzip
from lit_rl.lazy import import_extra
from lit_rl.signature_check import check_and_convert

BadRows = Literal["error", "skip"]
REMEDY = "fix or remove the row, or rename the field if every row has this fault"
Value = TypeVar("Value")

JSON_LINES = (".jsonl", ".jsonl.gz")
SUFFIXES = (*JSON_LINES, ".json", ".json.gz", ".parquet")
_SPLIT = re.compile(r"(train|test|validation|prompt)(?=[-_.]|$)", re.IGNORECASE)


class RowError(UsageError):
    """A row cannot be used; the message is one line with the file, the row and the field."""


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
        """Return the field as it was read; raise :class:`RowError` if the field is missing or null."""
        return self._require_present(field, None)

    def text(self, field: str, default: str | None = None) -> str:
        """Return the field's text, or the default if the field is missing or null."""
        return str(self._read_typed(field, str, default))

    def integer(self, field: str, default: int | None = None) -> int:
        """Return the field's whole number, see :meth:`text`; True and False do not count as numbers."""
        return int(self._read_typed(field, int, default))

    def float_number(self, field: str, default: float | None = None) -> float:
        """Return the field's number, also from text such as ``"0.75"``; see :meth:`text`."""
        return float(self._read_typed(field, float, default, read=float))

    def texts(self, field: str) -> list[str]:
        """Return the field's list of texts, with every item checked."""
        return list(self._read_typed(field, list[str], None))

    def json(self, field: str, kind: Any = Any, default: Any = None) -> Any:
        """Return the field's value of a type; text is read as JSON first, since many data sets store JSON in text."""
        return self._read_typed(
            field, kind, default, read=lambda value: json.loads(value) if isinstance(value, str) else value
        )

    def error(self, field: str, fault: str, remedy: str = REMEDY) -> RowError:
        """Return an error about this row, for the caller to raise."""
        return _row_error(self.source, f"{self.number}, field {field!r}", fault, remedy)

    def _require_present(self, field: str, default: Any) -> Any:
        value = self.values.get(field)
        value = default if value is None else value
        if value is None:
            there = ", ".join(sorted(self.values)) or "no fields"
            raise self.error(field, f"is {'null' if field in self.values else 'missing'} (the row has {there})")
        return value

    def _read_typed(self, field: str, kind: Any, default: Any, read: Callable[[Any], Any] = lambda value: value) -> Any:
        value = self._require_present(field, default)
        try:
            return check_and_convert(read(value), kind, "")
        except (TypeError, ValueError) as fault:
            raise self.error(field, f"{fault}".removeprefix(": ")) from None


def read_rows(source: str, *, subset: str | None = None, split: str | None = None) -> Iterator[Row]:
    """Yield the rows of a local file, of a folder's data files in the order of their names, or of a hub data set.

    JSON lines, Parquet and hub data sets are read row by row, so that a large file does not fill memory; a
    ``.json`` file (one list) is read whole. A source is local if it exists on disk, ends like a data file, or starts
    with ``.``, ``/``, ``~`` or ``$``. Any other source is a Hugging Face data set id.

    Args:
        source: path ending in ``.jsonl``, ``.json`` (either may be followed by ``.gz``) or ``.parquet``, a
            folder of such files or one written by ``save_to_disk``, or a data set id such as
            ``openai/openai_humaneval``.
        subset: the data set's configuration; a single file has none.
        split: the data set's split, or several splits joined by ``+``. A single file has no split; a folder's
            splits are found by names, see :func:`find_data_files`.
    """
    empty = True
    for origin, number, values in _read_raw_rows(source, subset, split):
        empty = False
        if isinstance(values, Mapping):
            yield Row(origin, number, values)
        else:
            got = f"{type(values).__name__} {short_repr(values, 60)}"
            raise _row_error(origin, number, f"needs a JSON object, got {got}")
    if empty:
        warnings.warn(f"{source} has no rows", stacklevel=2)


def parse_rows(rows: Iterable[Row], parse: Callable[[Row], Value], bad_rows: BadRows = "error") -> Iterator[Value]:
    """Yield every row parsed; errors that the parser did not foresee also name the row.

    ``bad_rows: skip`` leaves out rows that ``parse`` refuses; a warning at the end has their number and the first one.
    """
    skipped: list[RowError] = []
    for row in rows:
        try:
            value = parse(row)
        except (AttributeError, LookupError, TypeError, ValueError, SyntaxError) as fault:
            if isinstance(fault, RowError):
                error = fault
            elif isinstance(fault, UsageError):  # about a setting, say, with a remedy of its own
                error = _row_error(row.source, row.number, str(fault), "")
            else:
                error = _row_error(row.source, row.number, f"{type(fault).__name__}: {fault}")
            if bad_rows == "error":
                raise error from None
            skipped.append(error)
            continue
        yield value
    if skipped:
        warnings.warn(f"left out {len(skipped)} rows that cannot be read; the first: {skipped[0]}", stacklevel=2)


_RawRows = Iterator[tuple[str, int, Any]]  # file or data set id, number of the row, its values


def _read_raw_rows(source: str, subset: str | None, split: str | None) -> _RawRows:
    path = expand_path(source)
    if path.is_dir():
        for file in find_data_files(path, subset, split):
            yield from _read_file(file)
    elif path.exists() or source.endswith(SUFFIXES) or source.startswith((".", "/", "~", "$")):
        yield from _read_file(path)
    else:
        datasets = import_extra("datasets", source, "data")
        for part in (split or "train").split("+"):
            rows = datasets.load_dataset(source, subset, split=part, streaming=True)
            yield from ((source, number, values) for number, values in enumerate(rows, 1))


def expand_path(source: str) -> Path:
    """Return a path with variables and ``~`` expanded."""
    return Path(expand_variables(source)).expanduser()


def find_data_files(folder: Path, subset: str | None = None, split: str | None = None) -> list[Path]:
    """Return the files of a folder that hold a split, in the order of their names.

    A split is named at the start of a file's name (``train-00000-of-00001.parquet``) or by the folder around the
    file. If the files belong to several splits, only files of the wanted split are read, otherwise all files. Likewise,
    ``subset`` chooses a folder beneath.
    """
    if subset is not None and (folder / subset).is_dir():
        folder = folder / subset
    files = _find_arrow_files(folder) or sorted(path for path in folder.rglob("*") if path.name.endswith(SUFFIXES))
    if not files:
        raise FileNotFoundError(f"{folder} has no data files: put files there that end in {', '.join(SUFFIXES)}")
    if subset is not None and any(path.name.startswith(subset) for path in files):
        files = [path for path in files if path.name.startswith(subset)]
    # The innermost part of a path that begins with the name of a split.
    parts = (map(_SPLIT.match, reversed(path.relative_to(folder).parts)) for path in files)
    names = [next((found[1].lower() for found in matches if found), None) for matches in parts]
    if split is None or len(set(names)) < 2:
        return files
    chosen = [path for part in split.split("+") for path, name in zip(files, names, strict=True) if name == part]
    if not chosen:
        found = " and ".join(sorted(name or "others" for name in set(names)))
        raise FileNotFoundError(f"{folder} has no {split} files, only {found}: name one of these splits")
    return chosen


def _find_arrow_files(folder: Path) -> list[Path]:
    """Return the Arrow files that ``save_to_disk`` wrote into a folder: of one data set, or of one per split."""
    if (folder / "dataset_dict.json").is_file():
        splits = json.loads((folder / "dataset_dict.json").read_text())["splits"]
        return [file for name in splits for file in _find_arrow_files(folder / name)]
    state = folder / "state.json"
    if not state.is_file() or not (folder / "dataset_info.json").is_file():
        return []
    return [folder / entry["filename"] for entry in json.loads(state.read_text())["_data_files"]]


def _read_file(path: Path) -> _RawRows:
    try:
        if path.name.endswith((".parquet", ".arrow")):
            yield from _read_arrow_rows(path)
        elif path.name.endswith(SUFFIXES):
            yield from _read_json(path)
        else:
            raise ValueError(f"the name of a data file must end in {', '.join(SUFFIXES)}")
    except (EOFError, gzip.BadGzipFile, ValueError) as fault:
        remedy = "; save it as UTF-8" if isinstance(fault, UnicodeDecodeError) else ""
        error = UsageError(f"{path} cannot be read: {fault}{remedy}")
        raise fault if isinstance(fault, UsageError) else error from None  # already about a row or a file


def _read_json(path: Path) -> _RawRows:
    with open_text_or_gzip(path, "utf-8-sig") as file:  # a byte order mark is no part of the first row
        if path.name.endswith(JSON_LINES):
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    values = json.loads(line)
                except ValueError as fault:
                    whole_list = ("begins a JSON list of all rows: name the file .json", "")
                    reason = whole_list if line.strip() == "[" else (f"broken JSON ({fault})", REMEDY)
                    raise _row_error(str(path), number, *reason) from None
                yield str(path), number, values
            return
        rows = json.load(file)
    yield from ((str(path), number, values) for number, values in enumerate(rows, 1))


def _read_arrow_rows(path: Path) -> _RawRows:
    """Yield rows of a Parquet file, or of a stream of record batches as ``save_to_disk`` writes it."""
    pyarrow, parquet = (import_extra(name, str(path), "data") for name in ("pyarrow", "pyarrow.parquet"))
    with ExitStack() as files:
        if path.suffix == ".parquet":
            batches = files.enter_context(parquet.ParquetFile(path)).iter_batches(batch_size=1024)
        else:
            file = files.enter_context(pyarrow.memory_map(str(path)))
            batches = files.enter_context(pyarrow.ipc.open_stream(file))
        for number, values in enumerate((row for batch in batches for row in batch.to_pylist()), 1):
            yield str(path), number, values


def _row_error(source: str, where: int | str, fault: str, remedy: str = REMEDY) -> RowError:
    return RowError(f"{source}, row {where}: {fault}" + (f"; {remedy}" if remedy else ""))
