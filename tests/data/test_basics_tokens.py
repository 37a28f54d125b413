"""The tokenizer of the embedded task: shipped, reproducible, exact, and cut for copying."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
TOKENIZER_FOLDER = ROOT / "lit_rl" / "data" / "basics" / "tokenizer"


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(TOKENIZER_FOLDER)


@pytest.mark.slow
def test_the_shipped_files_are_what_the_corpus_gives_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from build_tokenizer import build_tokenizer

    build_tokenizer(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / name).read_text() == (TOKENIZER_FOLDER / name).read_text(), f"rebuild {name}"
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in TOKENIZER_FOLDER.iterdir()}


@settings(max_examples=50, deadline=None)
@given(text=st.text())
@example("")
@example(" ")
@example("x\r\ny\r\n")
@example("größer 東京 🐢 é")
@example("\ttabs\t")
@example('a"""b')
@example("0123 100 007")
@example("\x00\x7f")
def test_any_text_comes_back_exactly(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_numbers_names_and_lines_are_one_token_each(tokenizer: Any) -> None:
    def pieces(text: str) -> list[str]:
        return [tokenizer.decode([token]) for token in tokenizer(text)["input_ids"]]

    for number in range(2, 100):
        assert pieces(f"x + {number}") == ["x", " + ", str(number)]
    assert pieces("    if x <= 71:\n        return 8\n    return x") == [
        "    if ", "x", " <= ", "71", ":", "\n        return ", "8", "\n    return ", "x",
    ]  # fmt: skip
    # In code a name is the same token wherever it stands, so the signature can be copied.
    assert pieces("(nums, values)")[1] == pieces("for e in nums]")[3] == "nums"
