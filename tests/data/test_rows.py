import gzip
import json
import sys
import types
from pathlib import Path

import pytest

from lit_rl.data.rows import Row, RowError, parse_rows, read_rows

ROWS = [{"name": "a", "size": 1}, {"name": "ä\u2028", "size": 2}]


def write(path: Path, rows: list) -> str:
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    text = json.dumps(rows) if ".json" in path.suffixes and ".jsonl" not in path.suffixes else lines
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8") as file:
        file.write(text)
    return str(path)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.json", "rows.json.gz"])
def test_every_json_ending_gives_the_same_rows(tmp_path, name):
    read = list(read_rows(write(tmp_path / name, ROWS)))
    assert [row.values for row in read] == ROWS
    assert [row.number for row in read] == [1, 2]


def test_parquet_gives_the_same_rows(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    import pyarrow

    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    assert [row.values for row in read_rows(str(tmp_path / "rows.parquet"))] == ROWS


def test_a_folder_gives_the_rows_of_its_files_in_the_order_of_names(tmp_path):
    write(tmp_path / "b.jsonl", ROWS[1:])
    write(tmp_path / "a.json", ROWS[:1])
    (tmp_path / "README.md").write_text("no data")
    assert [row.values for row in read_rows(str(tmp_path))] == ROWS


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
def test_a_file_without_rows_is_told(tmp_path, name):
    with pytest.warns(UserWarning, match=rf"{name} has no rows"):
        assert not list(read_rows(write(tmp_path / name, [])))


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
