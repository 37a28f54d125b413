from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lit_rl.data.robots.robot_program import explore_memberships, lower_double_quoted, prepare

BODY = "def task_program():\n    go_to(\"Hall\")\n    say('Hi')"


LOWERED = BODY.replace("Hall", "hall")
# What is written, the program that is made of it, and by how many lines that begins later.
PREPARED = {
    "inside of a fence": (f"Sure, here it is:\n```python\n{BODY}\n```\nIt goes to the hall.", LOWERED + "\n", 2),
    "cut at a later line in column zero": (BODY + "\n\n# Next: go to the kitchen\n", LOWERED + "\n", 0),
    "what is before the definition": ("import time\n\n" + BODY, "import time\n\n" + LOWERED, 0),
    "a closing fence alone": (BODY + "\n```\nmore words", LOWERED, 0),
    "a bare fence": (f"```\n{BODY}\n```", LOWERED + "\n", 1),
}


def test_the_program_is_what_is_meant():
    found = {name: prepare(text) for name, (text, _, _) in PREPARED.items()}
    assert {name: (p.source, p.line_offset) for name, p in found.items()} == {n: row[1:] for n, row in PREPARED.items()}


def test_a_missing_definition_is_put_in_front_and_shifts_the_lines():
    prepared = prepare('    go_to("hall")\n    say("x")\n')
    assert prepared.source.splitlines()[:2] == ["def task_program():", '    go_to("hall")']
    assert prepared.line_offset == -1


def test_only_double_quoted_strings_on_one_line_are_lowered():
    assert lower_double_quoted("""say(f"Hi {Name}") # "A"\nsay('B')""") == """say(f"hi {name}") # "a"\nsay('B')"""
    assert lower_double_quoted('"A\nB"') == '"A\nB"'


@given(st.text(alphabet='def task_progr():\n `python"AbC x#', max_size=80), st.booleans())
def test_preparing_twice_changes_nothing_more(text, defined):
    once = prepare(BODY + text if defined else text)
    assert prepare(once.source).source == once.source


def test_membership_tests_of_strings_become_true_false_or_stay():
    source = 'rooms = get_all_rooms()\nif "a" in rooms and "b" not in get_all_rooms():\n    pass'
    seen = {explore_memberships(source, random.Random(seed)) for seed in range(60)}
    conditions = {line for text in seen for line in text.splitlines() if line.startswith("if")}
    assert "if True and False:" in conditions
    assert any("in rooms" in condition for condition in conditions)
    assert len(conditions) == 3 * 3


def test_membership_in_answers_is_left_alone():
    source = "if 'yes' in asked:\n    pass\nif x in rooms:\n    pass\nif 'a' in ask('b', 'c', ['d']):\n    pass"
    assert {explore_memberships(source, random.Random(seed)) for seed in range(40)} == {source}


def test_a_program_with_a_syntax_error_is_left_as_it_is():
    assert all(explore_memberships("if 'a' in", random.Random(seed)) == "if 'a' in" for seed in range(5))


ODD_SOURCES = {
    "700 terms": "x = " + " + ".join(["1"] * 700),
    "5000 terms": "x = " + " + ".join(["1"] * 5000),
    "deep parentheses": "x = " + "(" * 150 + "1" + ")" * 150,
    "deep lists": "x = " + "[" * 3000 + "]" * 3000,
    "many signs": "x = " + "-" * 50_000 + "1",
    "a long number": "x = 0x" + "f" * 50_000,
    "half a pair of surrogates": "x = '\ud800'",
    "a null": "x = 1\x00",
    "a backslash in an f-string": "x = f'{1}{chr(10)}' f\"{'''\\n'''}\"",
    "megabytes": "x = [" + "1," * 1_000_000 + "]",
    "an unknown escape": "x = '\\d'",
}


@pytest.mark.filterwarnings("error")
def test_no_program_is_too_odd_to_be_read():
    for name, line in ODD_SOURCES.items():
        source = prepare(f"rooms = get_all_rooms()\nif 'a' in rooms:\n    pass\n{line}\n").source
        for seed in range(5):
            assert explore_memberships(source, random.Random(seed)).startswith("def task_program"), name
