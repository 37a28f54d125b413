"""Programs as contestants write them: each passes, and a small edit of each fails.

A file of ``contestants/`` is a program; the comment at its end has the edit, and cases as ``input => output``.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from lit_rl.execution import Sandbox, StdioTests
from lit_rl.execution.languages import how_to_install, toolchain

LANGUAGES = {"java": "java", "cpp": "cpp", "js": "javascript", "go": "go", "rs": "rust"}


class Entry(NamedTuple):
    name: str
    program: str
    wrong: str
    cases: tuple[tuple[str, str], ...]


def entry_of(path: Path) -> Entry:
    program, _, notes = path.read_text().rpartition("/* cases\n")
    separator, wrong, cases = "|", "", []
    for line in notes.removesuffix("\n*/\n").split("\n"):
        key, _, value = line.partition(": ")
        if key == "separator":
            separator = value
        elif key == "wrong":
            before, after = value.split(" >>> ")
            assert before in program, path.name
            wrong = program.replace(before, after, 1)
        else:
            stdin, expected = (text.replace(separator, "\n") + "\n" for text in value.split(" => "))
            cases.append((stdin, expected))
    return Entry(path.name, program, wrong, tuple(cases))


def entries(suffix: str) -> list[Entry]:
    return [entry_of(path) for path in sorted((Path(__file__).parent / "contestants").glob(f"*.{suffix}"))]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", LANGUAGES)
def test_a_contestants_program_passes_and_a_wrong_one_of_each_fails(suffix):
    language = LANGUAGES[suffix]
    if toolchain(language) is None:
        pytest.skip(how_to_install(language))
    found = entries(suffix)
    assert len(found) == (40 if suffix in ("java", "cpp") else 20)
    sources = [source for one in found for source in (one.program, one.wrong)]
    with Sandbox(num_workers=2) as sandbox:
        checks = [StdioTests(one.cases, language, 5.0) for one in found for _ in range(2)]
        outcomes = sandbox.judge_many(list(zip(sources, checks, strict=True)))
    right, wrong = (dict(zip((one.name for one in found), outcomes[start::2], strict=True)) for start in (0, 1))
    assert {name: outcome for name, outcome in right.items() if not outcome.passed} == {}
    assert {name for name, outcome in wrong.items() if outcome.verdict not in ("wrong_answer", "exception")} == set()
