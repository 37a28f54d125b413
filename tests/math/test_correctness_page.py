"""The page of pitfalls is true: every row is there, and its tests exist and name their row."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

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
