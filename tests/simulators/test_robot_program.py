from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lit_rl.simulators.robot_program import explore_memberships, lower_double_quoted, prepare

BODY = "def task_program():\n    go_to(\"Hall\")\n    say('Hi')"


def test_the_inside_of_a_python_fence_is_kept():
    prepared = prepare(f"Sure, here it is:\n```python\n{BODY}\n```\nIt goes to the hall.")
    assert prepared.source == BODY.replace("Hall", "hall") + "\n"
    assert prepared.line_offset == 2


def test_a_missing_definition_is_put_in_front_and_shifts_the_lines():
    prepared = prepare('    go_to("hall")\n    say("x")\n')
    assert prepared.source.splitlines()[:2] == ["def task_program():", '    go_to("hall")']
    assert prepared.line_offset == -1


def test_the_program_is_cut_at_the_first_later_line_in_column_zero():
    assert prepare(BODY + "\n\n# Next: go to the kitchen\n").source == BODY.replace("Hall", "hall") + "\n"


def test_what_stands_before_the_definition_is_kept():
    text = "import time\n\n" + BODY
    assert prepare(text).source == text.replace("Hall", "hall")


def test_a_closing_fence_without_an_opening_one_ends_the_program():
    assert prepare(BODY + "\n```\nmore words").source == BODY.replace("Hall", "hall")


def test_a_bare_fence_before_the_definition_opens_a_block():
    assert prepare(f"```\n{BODY}\n```").source == BODY.replace("Hall", "hall") + "\n"


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
@pytest.mark.parametrize("line", ODD_SOURCES.values(), ids=ODD_SOURCES)
def test_no_program_is_too_odd_to_be_read(line):
    source = f"rooms = get_all_rooms()\nif 'a' in rooms:\n    pass\n{line}\n"
    for seed in range(5):
        assert explore_memberships(prepare(source).source, random.Random(seed)).startswith("def task_program")
