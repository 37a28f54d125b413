"""Test code made ready for a grader, once per test and not once per program."""

from __future__ import annotations

import ast
import marshal
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from lit_rl.execution.judging.evidence import Evidence, can_fail, idle_helpers, statements
from lit_rl.execution.judging.names_in_tests import foreign_modules, program_names
from lit_rl.execution.judging.own_lines import own_lines

Runs = tuple[tuple[str, str, int], ...]


class FaultyTests(ValueError):
    """Tests that cannot judge any program: a fault of the problem, never of a program."""


class PreparedTests(NamedTuple):
    """What a grader needs to run tests.

    Args:
        code: the compiled tests, packed; what can fail is followed by a call that counts it.
        names: names that mean the program's.
        modules: names that mean modules though the tests do not import them, each with its module and the
            attributes that are used.
        calls_check: whether the tests call their function ``check`` themselves.
        check_line: line on which they define it.
        required: numbers of those asserts that no condition guards.
        runs: what to run after the definitions: kind, name and line of test functions and classes.
    """

    code: bytes
    names: tuple[str, ...]
    modules: dict[str, tuple[str, tuple[str, ...]]]
    calls_check: bool
    check_line: int | None
    required: tuple[int, ...]
    runs: Runs


@lru_cache(maxsize=512)
def prepare_tests(test: str, entry_point: str | None) -> PreparedTests:
    """Compile the tests for a grader.

    Raises:
        FaultyTests: if they are not Python, assert nothing, or never use the program.
    """
    try:
        tree = ast.parse(test)
        names = program_names(test, tree, entry_point)
        modules = foreign_modules(tree, names, entry_point)
        names -= {name for name, (module, _) in modules.items() if module != name}
        calls_check = any(_is_call_of_check(node) for node in statements(tree))
        runs = tuple(_runs(tree))
        _require_asserts(tree, names, entry_point, calls_check, runs)
        functions = {name for kind, name, _ in runs if kind == "function"}
        evidence = Evidence()
        counted = evidence.visit(tree)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and (node.name in functions or node.name == "check"):
                evidence.require(node)
        code = compile(ast.fix_missing_locations(counted), "<test>", "exec", dont_inherit=True)
    except FaultyTests:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FaultyTests(f"the test code of this problem does not compile: {error}") from None
    return PreparedTests(
        marshal.dumps(code),
        tuple(sorted(names)),
        modules,
        calls_check,
        _line_of_check(tree),
        tuple(evidence.required),
        runs,
    )


@lru_cache(maxsize=64)
def lines_of_the_tests(test: str, entry_point: str | None) -> frozenset[int]:
    """Lines of tests that no value of the program can reach: an error there is the tests' own."""
    tree = ast.parse(test)
    names = set(program_names(test, tree, entry_point))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "check" and node.args.args:
            names.add(node.args.args[0].arg)
    return frozenset(own_lines(tree, names))


def _require_asserts(
    tree: ast.Module,
    names: frozenset[str],
    entry_point: str | None,
    calls_check: bool,
    runs: Runs,
) -> None:
    idle = idle_helpers(tree)
    if not can_fail(tree, idle):
        raise FaultyTests("the tests of this problem assert nothing: every program would pass them")
    if not names:
        raise FaultyTests("the tests of this problem use no function of the program")
    if not any(can_fail(ast.Module([node], []), idle) for node in _reached(tree, entry_point, calls_check, runs)):
        raise FaultyTests(
            "the asserts of this problem's tests stand in functions or classes that nothing calls: give the check an "
            "entry_point if they are in check(candidate), or name the functions test_..."
        )


def _reached(tree: ast.Module, entry_point: str | None, calls_check: bool, runs: Runs) -> Iterator[ast.stmt]:
    """Statements of the tests that are run, or defined and used by name."""
    run = {name for _, name, _ in runs} | ({"check"} if entry_point is not None or calls_check else set())
    used = _used_names(tree)
    for node in tree.body:
        is_definition = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if not is_definition or getattr(node, "name", "") in run | used:
            yield node


def _runs(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """Test functions and test classes that the tests themselves do not call."""
    used = _used_names(tree)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any("TestCase" in ast.unparse(base) for base in node.bases):
            yield "unittest", node.name, node.lineno
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test") and node.name not in used:
            if any(isinstance(item, ast.FunctionDef) and item.name.startswith("test") for item in node.body):
                yield "class", node.name, node.lineno
        elif _is_test_function(node) and getattr(node, "name", "") not in used:
            yield "function", getattr(node, "name", ""), node.lineno


def _is_test_function(node: ast.stmt) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return node.name.startswith("test") and can_fail(node)


def _used_names(tree: ast.Module) -> set[str]:
    """Names that the tests look up, each outside its own definition."""
    found: set[str] = set()
    for statement in tree.body:
        own = getattr(statement, "name", None)
        for node in statements(ast.Module([statement], [])):
            values: list[ast.AST] = [part for _, part in ast.iter_fields(node) if isinstance(part, ast.expr)]
            values += [part for _, field in ast.iter_fields(node) if isinstance(field, list) for part in _plain(field)]
            loaded = (part for value in values for part in ast.walk(value) if isinstance(part, ast.Name))
            found.update(part.id for part in loaded if part.id != own)
    return found


def _plain(field: list[Any]) -> list[ast.AST]:
    nested = (ast.stmt, ast.ExceptHandler, ast.match_case)
    return [part for part in field if isinstance(part, ast.AST) and not isinstance(part, nested)]


def _is_call_of_check(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "check"


def _line_of_check(tree: ast.Module) -> int | None:
    lines = [node.lineno for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    return lines[-1] if lines else None
