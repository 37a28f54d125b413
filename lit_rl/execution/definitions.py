"""What a piece of source defines, and whether it is a program at all; in bounded time."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

MOST_CHARACTERS = 1 << 20  # parsed of one completion; blocks beyond that count as unparsed
_C_LIKE = re.compile(r"^[ \t]*#[ \t]*include\b|[;{}][ \t]*\r?$|^[ \t]*//", re.MULTILINE)
_VALUES = (
    *(ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.JoinedStr, ast.Starred),
    *(ast.Tuple, ast.List, ast.Dict, ast.Set, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare),
)


class SourceReader:
    """Parses pieces of one completion, up to a total length.

    The limit counts characters, not seconds: the same completion gives the same program on every machine.
    """

    def __init__(self) -> None:
        self._left = MOST_CHARACTERS
        self._trees: dict[str, ast.Module | None] = {}

    def allows(self, characters: int) -> bool:
        """Whether this many more characters may be read; counts them as read."""
        self._left -= characters
        return self._left >= 0

    def tree(self, source: str) -> ast.Module | None:
        """The tree of a Python source; ``None`` if it does not parse or the limit is reached."""
        if source not in self._trees:
            self._trees[source] = _parse(source) if self.allows(len(source)) else None
        return self._trees[source]

    def is_python(self, source: str) -> bool:
        """Whether a source without a tag is Python: it parses, and it is more than a value or a word."""
        tree = self.tree(source)
        return tree is not None and any(not _is_value(statement) for statement in tree.body)

    def defines(self, source: str, name: str) -> bool:
        """Whether a Python source parses and defines a function or class, or ``Class.method``, at its top."""
        first = name.split(".")[0]
        tree = self.tree(source) if first in source else None
        return tree is not None and first in _top_names(tree.body)


def seems_to_define(source: str, name: str) -> bool:
    """Whether a line looks like the definition of a name, in broken Python too."""
    first = re.escape(name.split(".")[0])
    line = rf"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+{first}\b|^{first}[ \t]*="
    return re.search(line, source, re.MULTILINE) is not None


def defines_c(source: str, name: str) -> bool:
    """Whether a C or C++ source seems to define a function of that name."""
    # Every repetition has a limit: the text is untrusted.
    function = rf"\b{re.escape(name)}[ \t\r\n]{{0,20}}\([^;{{}}()]{{0,200}}\)[^;{{}}()]{{0,100}}\{{"
    return re.search(function, source) is not None


def is_c(source: str) -> bool:
    """Whether a source without a tag looks like C or C++."""
    return _C_LIKE.search(source) is not None


def _parse(source: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in the policy's text
            return ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError):
        return None


def _is_value(statement: ast.stmt) -> bool:
    """Whether a statement is just a value: ``[1, 2]``, a word, or ``Output: 5``, to Python an annotation."""
    if isinstance(statement, ast.AnnAssign):
        return statement.value is None
    return isinstance(statement, ast.Expr) and isinstance(statement.value, _VALUES)


def _top_names(statements: list[ast.stmt]) -> set[str]:
    """Names that statements at the top of a module define, in the branches of ``if`` and ``try`` too."""
    return {name for statement in statements for name in _names(statement)}


def _names(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (alias.asname for alias in statement.names if alias.asname)
    elif isinstance(statement, ast.Assign):
        yield from (node.id for target in statement.targets for node in ast.walk(target) if isinstance(node, ast.Name))
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield from [statement.target.id] if isinstance(statement.target, ast.Name) else []
    elif isinstance(statement, ast.If | ast.Try | ast.With):
        inner = [*statement.body, *getattr(statement, "orelse", []), *getattr(statement, "finalbody", [])]
        inner += [line for handler in getattr(statement, "handlers", []) for line in handler.body]
        yield from _top_names(inner)
