"""Folders of data: their splits, configurations, what save_to_disk left there, variables that are not set."""

import json
from pathlib import Path
from typing import Any

import pytest

from lit_rl.data.rows import read_rows


def write(file: Path, name: str) -> None:
    """A data file of one row that holds its own name."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".parquet":
        pa = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pa.table({"name": [name]}), file)
    else:
        file.write_text(json.dumps({"name": name}) + "\n")


def names(folder: Path, **wanted: str) -> list[Any]:
    return [row.values["name"] for row in read_rows(str(folder), **wanted)]


LAYOUTS = [
    ("data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet", "data/test-00000-of-00001.parquet"),
    ("train.jsonl", "train_more.jsonl", "test.jsonl"),
    ("train/a.jsonl", "train/b.jsonl", "test/a.jsonl"),
]


@pytest.mark.parametrize("files", LAYOUTS)
def test_only_the_files_of_the_split_are_read(tmp_path: Path, files: tuple[str, str, str]) -> None:
    for file in files:
        write(tmp_path / file, file)
    assert names(tmp_path, split="train") == list(files[:2])
    assert names(tmp_path, split="test") == [files[2]]
    assert names(tmp_path, split="test+train") == [files[2], *files[:2]]
    assert sorted(names(tmp_path)) == sorted(files), "nothing asked for: everything"
    with pytest.raises(FileNotFoundError, match=r"has no validation files, only test and train: name one of these"):
        names(tmp_path, split="validation")


def test_files_that_name_one_split_or_none_are_all_read(tmp_path: Path) -> None:
    write(tmp_path / "one" / "train.jsonl", "a")
    assert names(tmp_path / "one", split="test") == ["a"]
    write(tmp_path / "none" / "rows.jsonl", "b")
    write(tmp_path / "none" / "training_notes.jsonl", "c")
    assert names(tmp_path / "none", split="test") == ["b", "c"]


def test_a_configuration_is_a_folder_or_the_beginning_of_names(tmp_path: Path) -> None:
    for file in ("main/train.jsonl", "main/test.jsonl", "other/train.jsonl"):
        write(tmp_path / "folders" / file, file)
    assert names(tmp_path / "folders", subset="main", split="train") == ["main/train.jsonl"]
    for file in ("taco.jsonl", "lcbv5.jsonl"):
        write(tmp_path / "names" / file, file)
    assert names(tmp_path / "names", subset="taco", split="train") == ["taco.jsonl"]


def test_what_save_to_disk_wrote_is_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the extra `data`")
    rows = {name: datasets.Dataset.from_dict({"name": [f"{name} {n}" for n in range(3)]}) for name in ("train", "test")}
    rows["train"].select([2, 0]).save_to_disk(tmp_path / "one", num_shards=2)
    assert names(tmp_path / "one") == ["train 2", "train 0"]
    datasets.DatasetDict(rows).save_to_disk(tmp_path / "several")
    assert names(tmp_path / "several", split="test") == ["test 0", "test 1", "test 2"]
