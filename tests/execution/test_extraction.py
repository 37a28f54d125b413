"""Which block of an answer is the program: shapes of real answers, hostile texts, the strict rule."""

import pytest
from answer_shapes import ANSWER, SHAPES, USAGE, py
from support.slow_cases import slow_but

from lit_rl.execution import program
from lit_rl.execution.program import Wanted, extract_program


def test_the_program_that_is_meant_is_taken_and_its_place_is_told():
    """The place is in bytes of the completion's UTF-8; indentation that a line lost is counted."""
    wrong = {}
    for shape in SHAPES:
        found = extract_program(shape.text, shape.wanted)
        if (None if found is None else found.source) != shape.expected:
            wrong[shape.name] = found
        elif found is not None:
            written = shape.text.encode()[found.start : found.end].decode().split("\n")
            removed = found.removed or [0] * len(written)
            kept = [line[count:] for line, count in zip(written, removed, strict=True)]
            if "\n".join(kept) != found.source:
                wrong[shape.name] = found
    assert wrong == {}
    assert len({shape.name for shape in SHAPES}) == len(SHAPES) >= 60


def test_the_strict_rule_takes_the_last_block_whatever_is_in_it():
    wanted = Wanted(entry_point="add")
    found = extract_program(f"{py(ANSWER)}\n{py(USAGE)}", wanted, "last_block")
    assert found is not None and found.source == USAGE
    assert extract_program(f"{py(ANSWER)}\n```\n\n```\n", wanted, "last_block") is None


@pytest.mark.parametrize("text", [f"{ANSWER}```\nThat adds.", "add = 1  # see ```this``` here\n"])
def test_an_answer_without_a_block_begins_where_the_text_begins(text):
    found = extract_program(text, Wanted(entry_point="add"))
    assert found is not None and (found.start, found.fenced) == (0, False)


HOSTILE = {
    "a megabyte of backticks": "`" * 2**20,
    "backticks in runs": "```a" * 2**18,
    "fences alone": "```\n" * 2**18,
    "blocks of the language": "```python\nx = 1\n```\n" * 5000,
    "blocks that define it": py(ANSWER) * 5000,
    "broken blocks that define it": "```python\ndef add(:\n```\n" * 5000,
    "blocks without a tag": "```\nx\n```\n" * 20000,
    "openers alone": "```python\n" * 20000,
    "growing marks": "".join("`" * (3 + k % 500) + "\n" for k in range(4000)),
    "quotes that never end": "```python\n'''\n" * 20000,
    "thoughts that never end": "x\n<think>\n" * 100000,
    "thoughts in a line": "x<think></think>" * 60000,
    "ends of thoughts": "</think>\n" * 100000,
    "brackets": "```\n" + "(" * 2**20,
    "deep nesting": "```python\ndef add(): return " + "[" * 100000 + "\n```",
    "a long line of operators": "```\nx = " + "-" * 2**20 + "1\n```",
    "calls of main": "```c\n" + "main(" * 200000,
    "tildes and backticks": "~~~\n```\n" * 60000,
    "bullets": "- " * 2**19,
    "blanks": " " * 2**20 + "```",
    "blank lines in a list": "1. ```python\n" + "   \n" * 2**18,
    "lone surrogates": "```\n\ud800\ndef add(): pass\n```\n" * 1000,
    "NUL": "```python\n\0def add(): pass\n```\n" * 1000,
    "half strings": '```\n"""\n' * 20000,
    "f-strings": "```\n" + "f'{" * 100000,
}


@pytest.mark.parametrize("language", slow_but(("python",), ["python", "c"]))
def test_hostile_texts_are_read_in_bounded_work(language, monkeypatch):
    parsed = []
    parse = program._parse
    monkeypatch.setattr(program, "_parse", lambda source: (parsed.append(len(source)), parse(source))[1])
    too_much = {}
    for name, text in HOSTILE.items():
        parsed.clear()
        extract_program(text, Wanted(language, "add"))
        if sum(parsed) > program.MOST_CHARACTERS:
            too_much[name] = sum(parsed)
    assert too_much == {}
