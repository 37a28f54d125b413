"""Style of the library's texts: docstrings that begin with a verb or a noun, and no filler words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = {
    str(file.relative_to(ROOT)): file.read_text()
    for folder in ("lit_rl", "callbacks", "benchmarks")  # ``rglob`` does not follow the link from ``lit_rl/callbacks``
    for file in (ROOT / folder).rglob("*.py")
}
FIRST_WORDS = {"What", "How", "Whether", "Why", "Where", "Which", "Who", "When"}
FILLERS = re.compile(r"\b(lets? pass|of ours|for ever|at hand)\b", re.IGNORECASE)


def docstrings_of(source: str) -> Iterator[ast.Constant]:
    """Texts that are statements of their own: docstrings, and what is written below constants and attributes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    tests = {str(file.relative_to(ROOT)): file.read_text() for file in (ROOT / "tests").rglob("*.py")}
    questions = [
        f"{file}:{text.lineno}"
        for file, source in (SOURCES | tests).items()
        for text in docstrings_of(source)
        if FIRST_WORDS & {text.value.split()[0]}
    ]
    assert len(SOURCES) > 200
    assert questions == []


def test_no_text_message_or_comment_has_a_filler() -> None:
    """Blanks, ends of lines, quotes and the marks of comments are one blank, so that no phrase hides in two lines."""
    found = {file: FILLERS.findall(re.sub(r'(?:\bf"|[\s"#])+', " ", source)) for file, source in SOURCES.items()}
    assert {file: phrases for file, phrases in found.items() if phrases} == {}
