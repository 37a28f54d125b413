"""The page of pitfalls is true: every row is there, and its tests exist and name their row."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from pathlib import Path

from lit_rl import math

TESTS = Path(__file__).parent
PAGE = TESTS.parent.parent / "docs" / "correctness.md"


def rows() -> dict[int, str]:
    found = re.findall(r"^\| (\d+) \|.*\| ([^|]+) \|$", PAGE.read_text(), flags=re.MULTILINE)
    return {int(number): where for number, where in found}


@cache
def docstrings(path: Path) -> dict[str, str]:
    tree = ast.parse(path.read_text())
    return {node.name: ast.get_docstring(node) or "" for node in tree.body if isinstance(node, ast.FunctionDef)}


def items_named(docstring: str) -> set[int]:
    """Numbers after the word item or items: "Items 35 and 37: ...", "Items 55 to 57"."""
    lists = re.findall(r"[Ii]tems? (\d+(?:(?:, | and | to )\d+)*)", docstring)
    numbers: set[int] = set()
    for part in [part for whole in lists for part in re.split(", | and ", whole)]:
        first, *last = map(int, part.split(" to "))
        numbers.update(range(first, (last or [first])[0] + 1))
    return numbers


def test_every_pitfall_has_a_row_with_a_test_or_a_reason() -> None:
    found = rows()
    assert sorted(found) == list(range(1, 1 + max(found)))
    assert f"# Correctness: {len(found)} known pitfalls" in PAGE.read_text()
    assert all("`" in where for where in found.values())


def test_the_tests_named_on_the_page_exist_and_name_their_row() -> None:
    for number, where in rows().items():
        for file, test in re.findall(r"`([\w/.]+)::(\w+)`", where):
            whole = file.endswith(".py")
            known = docstrings(PAGE.parent.parent / file if whole else TESTS / f"test_{file}.py")
            assert test in known, f"row {number} names {file}::{test}, which does not exist"
            assert number in items_named(known[test]), f"{file}::{test} does not name item {number}"


def test_no_test_names_an_item_that_has_no_row() -> None:
    naming = (path for path in TESTS.parent.rglob("test_*.py") if re.search(r"[Ii]tems? \d", path.read_text()))
    for path in naming:
        for test, text in docstrings(path).items():
            assert items_named(text) <= set(rows()), f"{path.name}::{test} names an item without a row"


def test_no_public_function_changes_its_inputs_in_place() -> None:
    """The names of torch's in-place functions end in an underscore; none is called here (item 35).

    Only ``linear_head`` calls some, on blocks of logits that it made itself; ``test_logprobs.py`` watches its
    inputs.
    """
    for path in Path(inspect.getfile(math)).parent.glob("*.py"):
        if path.name == "linear_head.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                name = node.func.attr
                assert not name.endswith("_") or name.startswith("__"), f"{path.name} calls {name}"
