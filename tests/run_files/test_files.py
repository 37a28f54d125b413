"""Append-only files: read back whole, torn anywhere, and cut where a run resumes."""

import gzip
import json
import warnings
from pathlib import Path

import pytest

from lit_rl.run_files.files import (
    TruncatedFileWarning,
    append_json_line,
    append_record_batch,
    drop_records_after,
    read_json_lines,
    read_record_batches,
)
from lit_rl.run_files.records import pack_spans, unpack_spans

TEXTS = ["plain", "two\nlines\u2028and more", "a lone \udc80 surrogate", "\x00\x1b[31m", "日本", "</script>"]


def written(path: Path) -> list[int]:
    """Three frames, of 1, 2 and 3 lines; the ends of each."""
    ends = [0]
    for number in (1, 2, 3):
        lines = [{"rollout": number, "text": TEXTS[k], "x": 0.1} for k in range(number)]
        ends.append(ends[-1] + append_record_batch(path, lines))
    return ends


def numbers(path: Path) -> list[int]:
    return [frame.items[0]["rollout"] for frame in read_record_batches(path)]


@pytest.mark.parametrize("text", TEXTS)
def test_texts_come_back_as_they_were(tmp_path: Path, text: str) -> None:
    append_record_batch(tmp_path / "a.gz", [{"text": text}])
    append_json_line(tmp_path / "a.jsonl", {"text": text})
    assert [frame.items for frame in read_record_batches(tmp_path / "a.gz")] == [[{"text": text}]]
    assert [frame.items for frame in read_json_lines(tmp_path / "a.jsonl")] == [[{"text": text}]]


def test_a_number_that_is_too_long_ends_the_reading_with_a_warning(tmp_path: Path) -> None:
    written(tmp_path / "a.gz")
    with (tmp_path / "a.gz").open("ab") as file:
        file.write(gzip.compress(b'{"rollout": 1' + b"0" * 5000 + b"}\n"))
    with pytest.warns(TruncatedFileWarning):
        assert numbers(tmp_path / "a.gz") == [1, 2, 3]


def test_any_gzip_reader_reads_the_file(tmp_path: Path) -> None:
    written(tmp_path / "a.gz")
    with gzip.open(tmp_path / "a.gz", "rt") as file:
        assert [json.loads(line)["rollout"] for line in file] == [1, 2, 2, 3, 3, 3]


def test_a_file_torn_at_any_byte_is_read_up_to_there(tmp_path: Path) -> None:
    """As many frames as are whole, and a word wherever something is missing."""
    path = tmp_path / "a.gz"
    ends = written(path)
    data = path.read_bytes()
    for length in range(len(data) + 1):
        path.write_bytes(data[:length])
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = numbers(path)
        whole = [end for end in ends if end <= length]
        assert found == list(range(1, len(whole)))
        assert [one.category for one in said] == ([] if length in ends else [TruncatedFileWarning])


def test_a_damaged_frame_ends_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    ends = written(path)
    data = bytearray(path.read_bytes())
    data[ends[1] + 15] ^= 0xFF
    path.write_bytes(data)
    with pytest.warns(TruncatedFileWarning, match=f"after byte {ends[1]} "):
        assert numbers(path) == [1]


@pytest.mark.parametrize("torn", [b"", b"\x1f\x8b\x08rest of a frame"])
def test_a_file_is_cut_where_the_run_goes_on(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "a.gz"
    ends = written(path)
    with path.open("ab") as file:
        file.write(torn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncatedFileWarning)
        assert drop_records_after(path, 2) == ends[2]
    assert numbers(path) == [1, 2]
    append_record_batch(path, [{"rollout": 3}])
    assert numbers(path) == [1, 2, 3]


def test_lines_are_cut_too(tmp_path: Path) -> None:
    """A validation's line counts as the rollout that it followed; a start says where it began."""
    path = tmp_path / "a.jsonl"
    for count, name in ((0, "start"), (1, "loss"), (2, "loss"), (2, "val/pass@1"), (3, "loss")):
        append_json_line(path, {"rollout": count, name: 1.0})
    with path.open("a") as file:
        file.write('{"rollout": 4, "lo')
    drop_records_after(path, 2)
    assert [frame.items[0]["rollout"] for frame in read_json_lines(path)] == [0, 1, 2, 2]


def test_the_file_of_another_run_is_set_aside(tmp_path: Path) -> None:
    """A run that begins at 0 has written nothing: what is there is not its own to remove."""
    path = tmp_path / "a.gz"
    written(path)
    assert drop_records_after(path, 0) == 0
    assert not path.exists() and numbers(tmp_path / "a.gz.old") == [1, 2, 3]


@pytest.mark.parametrize("spans", [(), ((0, 3), (3, 3), (3, 7)), ((0, 3), (0, 3), (3, 4)), ((2, 3),)])
def test_spans_come_back(spans: tuple[tuple[int, int], ...]) -> None:
    """Those that touch are kept as widths; characters that tokens share, and a dropped first space, are not."""
    assert unpack_spans(json.loads(json.dumps(pack_spans(spans)))) == spans
