"""Programs as contestants write them pass, and a small edit of each fails."""

import functools
import json
import re
import sys
from pathlib import Path

import pytest
from support.named_jobs import judge_named, not_among
from support.toolchains import need

from lit_rl.execution import CallTests, StdioTests

CONTESTANTS = Path(__file__).parent / "contestants"
# Whatever the stack, these versions limit recursion through C.
TOO_DEEP = ("memoised_steps_deep",) if sys.version_info[:2] in ((3, 12), (3, 13)) else ()


@functools.cache
def contestants(file):
    """Names with (program, wrong program, check): sections that begin with ``@@@``, the edit as ``old >>> new``."""
    parts = re.split(r"^@@@ (.*)\n", (CONTESTANTS / file).read_text(), flags=re.MULTILINE)[1:]
    sections = list(zip(parts[::2], parts[1::2], strict=True))
    starts = [index for index, (title, _) in enumerate(sections) if title == "wrong"]
    programs = {}
    for start, end in zip(starts, [*(start - 1 for start in starts[1:]), len(sections)], strict=True):
        (name, program), (_, edit) = sections[start - 1 : start + 1]
        old, new = edit.rstrip("\n").split(" >>> ")
        wrong = program.replace(old, new, 1)
        assert wrong != program, name
        programs[name] = program, wrong, check_of(sections[start + 1 : end])
    return programs


def check_of(sections):
    texts = [text for _, text in sections]
    if sections[0][0] == "in":
        return StdioTests(tuple(zip(texts[::2], texts[1::2], strict=True)), compare="lines")
    values = [json.loads(text) for text in texts[1:]]
    calls = zip(map(tuple, values[::2]), values[1::2], strict=True)
    return CallTests(tuple(calls), texts[0].strip(), as_json=True)


def test_programs_of_contestants_pass_and_a_wrong_variant_of_each_fails(sandbox):
    programs = contestants("python.txt")
    assert len(programs) == 60
    programs = {name: given for name, given in programs.items() if name not in TOO_DEEP}
    require_right_and_wrong(sandbox, programs)


def require_right_and_wrong(sandbox, programs):
    """Of programs, each with a wrong one and their check, all of the first and none of the second pass."""
    right = judge_named(sandbox, {name: (program, check) for name, (program, _, check) in programs.items()})
    wrong = judge_named(sandbox, {name: (program, check) for name, (_, program, check) in programs.items()})
    assert not_among(right, "passed") == {} == not_among(wrong, "wrong_answer", "exception")


LANGUAGES = {"java": "java", "cpp": "cpp", "js": "javascript", "go": "go", "rs": "rust"}


def entry_of(path, language):
    """Program, wrong program and check of a file: the comment at its end has the edit, and ``input => output``."""
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
    return program, wrong, StdioTests(tuple(cases), language, 5.0)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", LANGUAGES)
def test_a_contestants_program_passes_and_a_wrong_one_of_each_fails(sandbox, suffix):
    language = LANGUAGES[suffix]
    need(language)
    paths = sorted(CONTESTANTS.glob(f"*.{suffix}"))
    assert len(paths) == (40 if suffix in ("java", "cpp") else 20)
    require_right_and_wrong(sandbox, {path.name: entry_of(path, language) for path in paths})
