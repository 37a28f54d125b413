"""The tokenizer of the embedded task: shipped, reproducible, exact, and cut for copying."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lit_rl.data.basics.basics_task import Basics
from lit_rl.data.basics.build_tokenizer import TOKENIZER_FOLDER, build_tokenizer
from lit_rl.types import Problem


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(TOKENIZER_FOLDER)


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    task = Basics(num_train_problems=1040)
    return task.problems("train") + task.problems("validation")


def test_the_shipped_files_are_what_the_corpus_gives_again(tmp_path: Path) -> None:
    build_tokenizer(folder=tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / name).read_text() == (TOKENIZER_FOLDER / name).read_text(), f"rebuild {name}"
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in TOKENIZER_FOLDER.iterdir()}


def test_it_knows_its_end_and_its_padding(tokenizer: Any) -> None:
    assert (tokenizer.eos_token, tokenizer.eos_token_id) == ("<|endoftext|>", 0)
    assert (tokenizer.pad_token, tokenizer.pad_token_id) == ("<|pad|>", 1)
    batch = tokenizer(["x", "x + 1"], padding=True)
    assert batch["attention_mask"][0][0] == 0, "prompts are padded on the left"
    assert tokenizer("def f(x):")["input_ids"].count(0) == 0, "nothing is added to a text"


@settings(max_examples=200, deadline=None)
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


def test_prompt_and_completion_apart_are_the_tokens_of_the_whole(tokenizer: Any, problems: list[Problem]) -> None:
    for problem in problems:
        body = problem.fields["demonstration"]
        apart = tokenizer(problem.prompt)["input_ids"] + tokenizer(body)["input_ids"]
        assert apart == tokenizer(f"{problem.prompt}{body}")["input_ids"]


def test_prompts_and_completions_are_short(tokenizer: Any, problems: list[Problem]) -> None:
    prompts = [len(tokenizer(problem.prompt)["input_ids"]) for problem in problems]
    # One more than the body: the end of text.
    bodies = [str(problem.reference)[len(str(problem.prompt)) : -1] for problem in problems]
    bodies += [problem.fields["bug"] for problem in problems]
    completions = [len(tokenizer(body)["input_ids"]) + 1 for body in bodies]
    assert max(prompts) <= 32
    assert max(completions) <= 24
    assert sum(completions) / len(completions) < 14
