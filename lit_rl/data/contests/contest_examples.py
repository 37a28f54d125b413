"""Which tests of a contest problem its statement shows: only where the statement leaves no doubt."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from lit_rl.data.contests.contest_tests import ContestTest
from lit_rl.data.shown_examples import shown_examples

# A line that says "Input", "Sample Input 1", "-----Sample Output-----", "Examples Input" and the like, and no more.
_LABEL = re.compile(r"[\W_]*(?:(?:sample|examples?|standard)[\W_]*)?{word}s?[\W_]*(?:\d+|#\d+)?[\W_]*", re.IGNORECASE)


def shown_tests(statement: str, tests: Sequence[ContestTest], parameters: Sequence[str] = ()) -> list[ContestTest]:
    """The tests whose input and output stand in the statement as an example.

    A test of a whole program is shown if its input stands in the statement line by line below a line that says
    ``Input`` (or ``Sample Input`` and the like), and below it a line that says ``Output``, followed by the expected
    output. A test of a function is shown if the statement has that call with that value, see
    :func:`~lit_rl.data.shown_examples.shown_examples`.

    Args:
        statement: what the policy reads.
        tests: of the problem.
        parameters: names of the function's parameters, in order, where they are known.
    """
    if any(test.function for test in tests):
        return [test for test in tests if _is_shown_call(statement, test, parameters)]
    lines = [line.strip() for line in statement.split("\n")]
    return [test for test in tests if _is_shown_run(lines, test)]


def parameters_of(starter_code: str, function: str) -> list[str]:
    r"""The names of a function's parameters in starter code, without ``self``; none if it cannot be read.

    Example:
        >>> parameters_of("class Solution:\n    def add(self, x: int, y: int) -> int:\n", "add")
        ['x', 'y']
    """
    try:
        tree = ast.parse(f"{starter_code.rstrip()} pass")
    except (SyntaxError, ValueError):
        return []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return [argument.arg for argument in node.args.args if argument.arg != "self"]
    return []


def _is_shown_call(statement: str, test: ContestTest, parameters: Sequence[str]) -> bool:
    examples = shown_examples(statement, str(test.function), parameters)
    stored = repr((_lists(test.given), _lists(test.expected)))
    return any(repr((_lists(example.arguments), _lists(example.expected))) == stored for example in examples)


def _lists(value: object) -> object:
    """The value with lists for tuples: stored tests have no tuples."""
    return [_lists(item) for item in value] if isinstance(value, (list, tuple)) else value


def _is_shown_run(lines: Sequence[str], test: ContestTest) -> bool:
    """Whether lines of a statement hold input and output of a test, each below its label."""
    for expected in test.expected if isinstance(test.expected, tuple) else (test.expected,):
        given, printed = _block(str(test.given)), _block(str(expected))
        if not given or not printed:  # an empty block stands anywhere
            continue
        wanted = (*given, None, *printed)
        if any(_follows(lines, start + 1, wanted) for start, line in enumerate(lines) if _says(line, "input")):
            return True
    return False


def _follows(lines: Sequence[str], start: int, wanted: Sequence[str | None]) -> bool:
    """Whether the lines from ``start`` on, empty ones left out, begin with those wanted."""
    found = [line for line in lines[start:] if line not in ("", "```")][: len(wanted)]
    if len(found) < len(wanted):
        return False
    return all(
        _says(line, "output") if want is None else line == want for line, want in zip(found, wanted, strict=True)
    )


def _block(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _says(line: str, word: str) -> bool:
    return re.fullmatch(_LABEL.pattern.replace("{word}", word), line, re.IGNORECASE) is not None
