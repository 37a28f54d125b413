"""Which statements of a test run, or run again, only if the program's values say so."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Uses = Callable[[ast.AST], bool]

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_CATCHING = (ast.Try, ast.TryStar, ast.With, ast.AsyncWith)


class Steering:
    """What values of the program decide other than by assignment: branches, loops, handlers, callbacks.

    Args:
        tree: the test.
    """

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._imported = {
            (name.asname or name.name).partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in node.names
        }
        self._definitions = _definitions(tree)
        self._steered: set[ast.AST] = set()

    def __contains__(self, statement: ast.AST) -> bool:
        return statement in self._steered

    def __len__(self) -> int:
        return len(self._steered)

    def spread(self, uses: Uses) -> None:
        """Take one step: ``uses`` says whether a part of the test holds a value of the program."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.stmt) and self._steers(node, uses):
                self._steer(node)
            elif isinstance(node, ast.ClassDef) and not _is_run(node):
                self._steer(node)  # its objects may be given to the program, which calls what it likes
            elif isinstance(node, ast.Call) and (uses(node.func) or _registers(node)):
                self._steer_definitions(part for given in _given(node) for part in ast.walk(given))
        for node in list(self._steered):
            self._steer_definitions(ast.walk(node))

    def changed_names(self) -> Iterator[str]:
        """Names that a steered statement may change."""
        for node in self._steered:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, ast.ExceptHandler | ast.FunctionDef | ast.AsyncFunctionDef) and node.name:
                yield node.name
            elif (
                isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del)
            ) or isinstance(node, ast.Call):
                yield from self._variables(node)

    def _variables(self, node: ast.AST) -> Iterator[str]:
        names = (part.id for part in ast.walk(node) if isinstance(part, ast.Name))
        return (name for name in names if name not in self._imported and name not in self._definitions)

    def _steers(self, node: ast.stmt, uses: Uses) -> bool:
        """Whether what is inside of a statement depends on the program."""
        if isinstance(node, _CATCHING):  # whatever precedes or follows the call that fails
            return uses(node)
        if isinstance(node, ast.If | ast.While) and uses(node.test):
            return True
        if isinstance(node, ast.Match):
            return uses(node.subject)
        return (isinstance(node, ast.For | ast.AsyncFor) and uses(node.iter)) or self._is_left_early(node)

    def _is_left_early(self, node: ast.stmt) -> bool:
        """Whether a steered statement leaves a loop or function early."""
        leaving = (ast.Break, ast.Continue) if isinstance(node, _LOOPS) else (ast.Return,)
        if not isinstance(node, (*_LOOPS, ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        return any(isinstance(part, leaving) and part in self._steered for part in ast.walk(node))

    def _steer(self, node: ast.AST) -> None:
        self._steered.update(ast.walk(node))

    def _steer_definitions(self, parts: Iterator[ast.AST]) -> None:
        """Steer the functions of the tests that these parts name: the program decides whether they are called."""
        for part in parts:
            name = part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else ""
            for definition in self._definitions.get(name, ()):
                if definition not in self._steered:
                    self._steer(definition)


def _definitions(tree: ast.Module) -> dict[str, list[Definition]]:
    found: dict[str, list[Definition]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
    return found


def _is_run(node: ast.ClassDef) -> bool:
    """Whether a class holds tests, rather than making objects for them."""
    return node.name.startswith("Test") or any("TestCase" in ast.unparse(base) for base in node.bases)


def _registers(call: ast.Call) -> bool:
    """Whether a call registers a function that may run at any time, such as at an alarm."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in ("signal", "Timer")


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *[word.value for word in call.keywords]]
