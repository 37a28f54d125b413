"""Finding the files of a data set on this machine: variables, folders with splits, folders of ``save_to_disk``."""

from __future__ import annotations

import json
import re
from pathlib import Path

from lit_rl.arguments import with_variables

JSON_LINES = (".jsonl", ".jsonl.gz")
SUFFIXES = (*JSON_LINES, ".json", ".json.gz", ".parquet")
_SPLIT = re.compile(r"(train|test|validation|prompt)(?=[-_.]|$)", re.IGNORECASE)


def local_path(source: str) -> Path:
    """A path with its variables and its ``~`` expanded."""
    return Path(with_variables(source)).expanduser()


def data_files(folder: Path, subset: str | None = None, split: str | None = None) -> list[Path]:
    """The files of a folder that hold a split, in the order of their names.

    A split is named at the start of a file's name (``train-00000-of-00001.parquet``) or by the folder around it. If
    the files belong to several splits, only those of the wanted one are read; if to one or to none, all. The same goes
    for ``subset`` and the folders beneath.

    Args:
        folder: holds files as they come from the hub, written by hand, or by ``save_to_disk``.
        subset: configuration of the data set.
        split: name or names joined by ``+``.
    """
    if subset is not None and (folder / subset).is_dir():
        folder = folder / subset
    files = _saved_files(folder) or sorted(path for path in folder.rglob("*") if path.name.endswith(SUFFIXES))
    if not files:
        raise FileNotFoundError(f"{folder} holds no data files: put files there that end in {', '.join(SUFFIXES)}")
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


def _saved_files(folder: Path) -> list[Path]:
    """Arrow files of a folder that ``save_to_disk`` wrote: of one data set, or of one in a folder for each split."""
    if (folder / "dataset_dict.json").is_file():
        splits = json.loads((folder / "dataset_dict.json").read_text())["splits"]
        return [file for name in splits for file in _saved_files(folder / name)]
    state = folder / "state.json"
    if not state.is_file() or not (folder / "dataset_info.json").is_file():
        return []
    return [folder / entry["filename"] for entry in json.loads(state.read_text())["_data_files"]]
