"""Rows of files and folders: formats, splits, configurations, and what is told of rows that cannot be read."""

import gzip
import json
import sys
import types
from pathlib import Path

import pytest

from lit_rl.data.rows import Row, RowError, parse_rows, read_rows

ROWS = [{"name": "a", "size": 1}, {"name": "ä\u2028", "size": 2}]


def write(path: Path, *rows: dict) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(list(rows)), path)
        return str(path)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    with (gzip.open if path.suffix == ".gz" else open)(path, "wt", encoding="utf-8") as file:
        file.write(json.dumps(rows) if ".json" in path.suffixes else lines)
    return str(path)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.json", "rows.json.gz", "rows.parquet"])
def test_every_ending_gives_the_same_rows(tmp_path, name):
    read = list(read_rows(write(tmp_path / name, *ROWS)))
    assert [row.values for row in read] == ROWS
    assert [row.number for row in read] == [1, 2]


def test_a_folder_gives_the_rows_of_its_files_in_the_order_of_names(tmp_path):
    write(tmp_path / "b.jsonl", *ROWS[1:])
    write(tmp_path / "a.json", *ROWS[:1])
    (tmp_path / "README.md").write_text("no data")
    assert [row.values for row in read_rows(str(tmp_path))] == ROWS


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
def test_a_file_without_rows_is_told(tmp_path, name):
    with pytest.warns(UserWarning, match=rf"{name} has no rows"):
        assert not list(read_rows(write(tmp_path / name)))


def test_json_lines_are_read_one_by_one(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"name": "a"}\nbroken\n')
    rows = read_rows(str(path))
    assert next(rows).text("name") == "a"
    with pytest.raises(RowError):
        next(rows)


def test_a_byte_order_mark_and_empty_lines_are_no_part_of_the_rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"name": "a"}\r\n\r\n{"name": "b"}\r\n')
    rows = list(read_rows(str(path)))
    assert [(row.text("name"), row.number) for row in rows] == [("a", 1), ("b", 3)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.jsonl", b'{"a": 1}\n{"a": \n', "rows.jsonl, row 2: broken JSON"),
        ("rows.jsonl", b'[1]\n{"a": 1}\n', "rows.jsonl, row 1: needs a JSON object, got list [1]"),
        ("rows.jsonl", b'{"a": 1}\n\xff', "rows.jsonl cannot be read: 'utf-8'"),
        ("rows.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 1000, mtime=0)[:-9], "rows.jsonl.gz cannot be read: "),
    ],
)
def test_a_broken_line_or_a_cut_archive_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError) as error:
        list(read_rows(str(tmp_path / name)))
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("bad_rows", ["error", "skip"])
def test_a_name_that_does_not_exist_is_no_bad_row(bad_rows):
    with pytest.raises(NameError):
        list(parse_rows([Row("file", 1, {})], lambda row: undefined, bad_rows))  # noqa: F821


@pytest.mark.parametrize("parse", [lambda row: row.txt("a"), lambda row: int(row["a"]), lambda row: row["a"]["b"]])
def test_another_error_of_a_parser_names_the_row_and_keeps_its_cause(parse):
    with pytest.raises(RowError, match=r"^file, row 1: \w+Error: .*; fix or remove the row, or .*$") as error:
        list(parse_rows([Row("file", 1, {"a": "x"})], parse))
    assert isinstance(error.value.__context__, AttributeError | ValueError | TypeError)


def test_rows_that_cannot_be_read_are_skipped_with_a_warning_if_asked():
    rows = [Row("file", number, {"a": value}) for number, value in enumerate(["x", 1, "y", 2], 1)]
    with pytest.warns(UserWarning, match="left out 2 rows .* the first: file, row 2, field 'a'"):
        assert list(parse_rows(rows, lambda row: row.text("a"), "skip")) == ["x", "y"]


def test_a_hub_data_set_is_streamed_split_by_split(monkeypatch):
    asked = []

    def load_dataset(name, subset, *, split, streaming):
        asked.append((name, subset, split, streaming))
        return iter([{"split": split}])

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    rows = list(read_rows("owner/name", subset="full", split="train+test"))
    assert [row.text("split") for row in rows] == ["train", "test"]
    assert asked == [("owner/name", "full", "train", True), ("owner/name", "full", "test", True)]


def names(folder: Path, **wanted: str) -> list:
    return [row.values["name"] for row in read_rows(str(folder), **wanted)]


LAYOUTS = [
    ("data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet", "data/test-00000-of-00001.parquet"),
    ("train.jsonl", "train_more.jsonl", "test.jsonl"),
    ("train/a.jsonl", "train/b.jsonl", "test/a.jsonl"),
]


@pytest.mark.parametrize("files", LAYOUTS)
def test_only_the_files_of_the_split_are_read(tmp_path, files):
    for file in files:
        write(tmp_path / file, {"name": file})
    assert names(tmp_path, split="train") == list(files[:2])
    assert names(tmp_path, split="test") == [files[2]]
    assert names(tmp_path, split="test+train") == [files[2], *files[:2]]
    assert sorted(names(tmp_path)) == sorted(files), "nothing asked for: everything"
    with pytest.raises(FileNotFoundError, match=r"has no validation files, only test and train: name one of these"):
        names(tmp_path, split="validation")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"empty has no data files: put files there that end in .jsonl, "):
        names(tmp_path / "empty")


def test_files_that_name_one_split_or_none_are_all_read(tmp_path):
    write(tmp_path / "one" / "train.jsonl", {"name": "a"})
    assert names(tmp_path / "one", split="test") == ["a"]
    write(tmp_path / "none" / "rows.jsonl", {"name": "b"})
    write(tmp_path / "none" / "training_notes.jsonl", {"name": "c"})
    assert names(tmp_path / "none", split="test") == ["b", "c"]


def test_a_configuration_is_a_folder_or_the_beginning_of_names(tmp_path):
    for file in ("main/train.jsonl", "main/test.jsonl", "other/train.jsonl"):
        write(tmp_path / "folders" / file, {"name": file})
    assert names(tmp_path / "folders", subset="main", split="train") == ["main/train.jsonl"]
    for file in ("taco.jsonl", "lcbv5.jsonl"):
        write(tmp_path / "names" / file, {"name": file})
    assert names(tmp_path / "names", subset="taco", split="train") == ["taco.jsonl"]


def test_what_save_to_disk_wrote_is_read(tmp_path):
    datasets = pytest.importorskip("datasets", reason="needs the extra `data`")
    rows = {name: datasets.Dataset.from_dict({"name": [f"{name} {n}" for n in range(3)]}) for name in ("train", "test")}
    rows["train"].select([2, 0]).save_to_disk(tmp_path / "one", num_shards=2)
    assert names(tmp_path / "one") == ["train 2", "train 0"]
    datasets.DatasetDict(rows).save_to_disk(tmp_path / "several")
    assert names(tmp_path / "several", split="test") == ["test 0", "test 1", "test 2"]
