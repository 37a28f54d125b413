"""Preparation of test code for a grader, once per test and not once per program."""

from __future__ import annotations

import ast
import builtins
import marshal
import re
import symtable
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from lit_rl.execution.interface import FaultyCheck
from lit_rl.execution.judging.asserts.evidence import EvidenceInserter, called_name, can_fail, helpers_that_never_assert
from lit_rl.execution.judging.asserts.test_list import TestList

# Functions that run code that they are given, except for ``eval``, which the grader allows for plain arithmetic.
_RUN_CODE = ("exec", "timeit", "runcode", "runsource", "FunctionType", "exec_module")
_RUN_FILES = ("run_path", "run_module", "exec_module")
# Objects that tests replace in their own process; the program's process keeps its own.
_INPUT = re.compile(r"(?:^|\.)(?:input|open|stdin|argv)\b")
_OUTPUT = re.compile(r"(?:^|\.)(?:print|stdout|stderr)\b")
_READS_OUTPUT = re.compile(r"getvalue|assert_|call_|called|mock_calls")
_FOREIGN_CODE = (
    "the tests use {} to run code that is not part of the tests and may be the program's: compare the value itself, or "
    "write the code into the tests"
)
_UNSEEN = (
    "the tests replace {} in their own process, but the program runs in another process without the replacement: pass "
    "arguments to the program and compare what the program returns, or use StdioTests"
)
_UNCALLED = (
    "the asserts of this problem's tests are in functions or classes that nothing calls: give the check an "
    "entry_point if the asserts are in check(candidate), or name the functions test_..."
)
Import = tuple[str, tuple[str, ...], int]


class PreparedTests(NamedTuple):
    """Tests, prepared for a grader to run.

    Args:
        code: the compiled tests, packed; after each statement that can fail stands a call that counts it.
        imports: modules that the tests import anywhere, each with the names taken from it and the line of the import.
        texts: string literals of the tests that may be source code for the tests to run.
        names: names that refer to what the program defines.
        modules: names of modules that the tests use without importing them, each with its module and the attributes
            that are used.
        calls_check: whether the tests call their function ``check`` themselves.
        check_line: line on which the tests define ``check``.
        required: numbers of those asserts that no condition guards.
        runs: what to run after the definitions: kind, name and line of test functions and classes.
    """

    code: bytes
    imports: tuple[Import, ...]
    texts: tuple[str, ...]
    names: tuple[str, ...]
    modules: dict[str, tuple[str, tuple[str, ...]]]
    calls_check: bool
    check_line: int | None
    required: tuple[int, ...]
    runs: tuple[tuple[str, str, int], ...]


@lru_cache(maxsize=512)
def prepare_tests(test: str, entry_point: str | None) -> PreparedTests:
    """Compile the tests for a grader."""
    try:
        tree = ast.parse(test)
        names = names_from_program(test, tree, entry_point)
        modules = unimported_modules(tree, names, entry_point)
        names -= {name for name, (module, _) in modules.items() if module != name}
        imports, texts = tuple(_find_imports(tree)), _possible_source_texts(tree)
        calls_check = any(is_call_of_check(node) for node in _statements_run_at_import(tree))
        runs = tuple(_tests_to_run(tree))
        check = {"check"} if entry_point is not None or calls_check else set()
        if fault := next(_faults_of_tests(tree, names, check | {name for _, name, _ in runs}), None):
            raise FaultyCheck(fault)
        called = check | {name for kind, name, _ in runs if kind == "function"}
        evidence = EvidenceInserter()
        counted = evidence.visit(tree)
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        for name in called & functions.keys():
            evidence.mark_asserts_required(functions[name])
        TestList(counted, called).continue_after_failures()
        code = compile(ast.fix_missing_locations(counted), "<test>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        fault = f"the test code of this problem does not compile: {error}"
        raise error if isinstance(error, FaultyCheck) else FaultyCheck(fault) from None
    lines = [node.lineno for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    return PreparedTests(
        marshal.dumps(code),
        imports,
        texts,
        tuple(sorted(names)),
        modules,
        calls_check,
        lines[-1] if lines else None,
        tuple(evidence.required),
        runs,
    )


@lru_cache(maxsize=4096)
def count_tests(test: str, entry_point: str | None) -> int:
    """Count the tests in a source without running it; return 0 if it does not compile."""
    try:
        tree = ast.parse(test)
        calls_check = any(is_call_of_check(node) for node in _statements_run_at_import(tree))
        run = {name for _, name, _ in _tests_to_run(tree)} | (
            {"check"} if entry_point is not None or calls_check else set()
        )
        return TestList(EvidenceInserter().visit(tree), run).count()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0


def _faults_of_tests(tree: ast.Module, names: frozenset[str], run: set[str]) -> Iterator[str]:
    """Yield the reasons why the tests can judge no program."""
    yield from map(_FOREIGN_CODE.format, _runners_of_foreign_code(tree))
    yield from map(_UNSEEN.format, _replaced_streams(tree))
    mute = helpers_that_never_assert(tree)
    if not can_fail(tree, mute):
        yield "the tests of this problem assert nothing that can fail: every program would pass them"
    if not names:
        yield "the tests of this problem use no function of the program"
    reached = run | _used_names(tree)  # names of definitions that are used
    parts = [node for node in tree.body if getattr(node, "name", None) in (None, *reached)]
    if not can_fail(ast.Module(parts, []), mute):
        yield _UNCALLED


def _tests_to_run(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """Yield the test functions and test classes that the tests themselves do not call."""
    used = _used_names(tree)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any("TestCase" in ast.unparse(base) for base in node.bases):
            yield "unittest", node.name, node.lineno
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test") and node.name not in used:
            if any(isinstance(item, ast.FunctionDef) and item.name.startswith("test") for item in node.body):
                yield "class", node.name, node.lineno
        elif (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name.startswith("test")
            and node.name not in used
            and can_fail(node)
        ):
            yield "function", node.name, node.lineno


def _statements_run_at_import(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements that run with the module itself, leaving out those in functions and classes."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            yield from _statements_run_at_import(node)


def _find_imports(tree: ast.AST) -> Iterator[Import]:
    """Yield the modules that the tests import, with imported names and line; leave out imports that may fail."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call) and called_name(node) in ("import_module", "__import__") and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield name.value, (), node.lineno
        if isinstance(node, ast.Import):
            yield from ((item.name, (), node.lineno) for item in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module, tuple(item.name for item in node.names if item.name != "*"), node.lineno
        elif not (isinstance(node, ast.Try) and any(_catches_import_error(handler) for handler in node.handlers)):
            yield from _find_imports(node)


def _catches_import_error(handler: ast.ExceptHandler) -> bool:
    named = {part.id for part in ast.walk(handler.type) if isinstance(part, ast.Name)} if handler.type else set()
    return not handler.type or bool(named & {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


def _runners_of_foreign_code(tree: ast.Module) -> Iterator[str]:
    """Yield the functions by which tests run code from outside the tests, which a program may have written."""
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            own |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    for node in ast.walk(tree):
        called = called_name(node)
        argument = node.args[0] if isinstance(node, ast.Call) and node.args else None
        is_own = isinstance(argument, ast.Constant | ast.Lambda) or getattr(argument, "id", None) in own
        if called in _RUN_FILES or (called in _RUN_CODE and not is_own):
            yield called


def _replaced_streams(tree: ast.Module) -> Iterator[str]:
    """Yield objects that tests replace for a program to read from or print to, though it runs in another process."""
    reads = any(isinstance(node, ast.Attribute) and _READS_OUTPUT.match(node.attr) for node in ast.walk(tree))
    for replaced in map(_patched_global, ast.walk(tree)):
        if _INPUT.search(replaced) or (reads and _OUTPUT.search(replaced)):
            yield replaced


def _patched_global(node: ast.AST) -> str:
    """Return the name that a node replaces for all code of its process, such as ``sys.stdin``; empty if none."""
    if isinstance(node, ast.With) and any(called_name(part) == "print" for one in node.body for part in ast.walk(one)):
        return ""  # the tests print there themselves
    if isinstance(node, ast.With):
        streams = [called_name(item.context_expr).partition("redirect_")[2] for item in node.items]
        return next((f"sys.{stream}" for stream in streams if stream), "")
    if isinstance(node, ast.FunctionDef):
        return node.name if node.name == "input" else ""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda) and ast.unparse(node.targets[0]) == "input":
        return "input"
    if isinstance(node, ast.Assign):
        named = [ast.unparse(target) for target in node.targets if isinstance(target, ast.Attribute)]
        return next((name for name in named if name.startswith(("sys.", "builtins."))), "")
    called = called_name(node)
    if called in ("patch", "object", "setattr") and isinstance(node, ast.Call) and node.args:
        first, *more = [ast.unparse(arg).strip("'\"") for arg in node.args[:2]]
        return first if called == "patch" else ".".join((first, *more)) if first in ("sys", "builtins") else ""
    return ""


def _possible_source_texts(tree: ast.Module) -> tuple[str, ...]:
    """Return the texts that the tests may run as code; none if the tests name nothing that runs code."""
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if not named & {"eval", "exec", "compile", "timeit", "get_type_hints"}:
        return ()
    constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return tuple(dict.fromkeys(text for text in constants if isinstance(text, str)))


def _used_names(tree: ast.Module) -> set[str]:
    """Return the names that the tests look up, each outside its own definition."""
    found: set[str] = set()
    for statement in tree.body:
        own = getattr(statement, "name", None)
        found.update(node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and node.id != own)
    return found


def is_call_of_check(statement: ast.stmt) -> bool:
    """Return whether a statement is a call of the tests' own function ``check``, and nothing else."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "check"


def names_from_program(test: str, tree: ast.Module, entry_point: str | None) -> frozenset[str]:
    """Return the names in a test that mean the program's: names used but not bound by the test, and not builtin.

    Tests must not use a program's own ``abs`` or ``set``. Where a test uses only builtin names
    (``assert sum(10, 15) == 6``), the outermost call is the one under test.
    """
    module = symtable.symtable(test, "<test>", "exec")
    binding = (one for one in module.get_symbols() if one.is_assigned() or one.is_imported() or one.is_namespace())
    bound = {symbol.get_name() for symbol in binding}
    chosen = {name for name in _free_names(module) if name not in bound and not hasattr(builtins, name)}
    if entry_point is not None:
        chosen.add(entry_point)
    elif not chosen:
        chosen = {
            name for call in _tested_operands(tree, bound) if (name := _plain_callee_name(call)) and name not in bound
        }
    return frozenset(chosen)


def _free_names(scope: symtable.SymbolTable) -> Iterator[str]:
    """Yield the names that a scope, or a scope within it, looks up in the module."""
    for symbol in scope.get_symbols():
        if symbol.is_referenced() and (scope.get_type() == "module" or symbol.is_global()):
            yield symbol.get_name()
    for inner in scope.get_children():
        yield from _free_names(inner)


def _tested_operands(tree: ast.Module, bound: set[str]) -> Iterator[ast.expr]:
    """Yield the first operand of each assert, and the first argument of each call of a test helper."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            yield node.test.left if isinstance(node.test, ast.Compare) else node.test
        elif isinstance(node, ast.Call) and _plain_callee_name(node) in bound and node.args:
            yield node.args[0]


def _plain_callee_name(node: ast.expr) -> str | None:
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None


# Customary names of modules in tests of numeric programs.
_CUSTOMARY = {
    "np": "numpy",
    "numpy": "numpy",
    "pd": "pandas",
    "pandas": "pandas",
    "scipy": "scipy",
    "plt": "matplotlib.pyplot",
    "sp": "sympy",
    "sympy": "sympy",
    "torch": "torch",
    "nx": "networkx",
    "pytest": "pytest",
}
# Functions that tests use for comparisons, relying on the program to have imported them.
_COMPARING = {"isclose": "math", "deepcopy": "copy", "approx": "pytest"}


def unimported_modules(
    tree: ast.Module, names: frozenset[str], entry_point: str | None
) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Find names that tests use as modules without importing them; they mean our modules, whatever the program binds.

    Returns:
        For each name, its module and the attributes that are used; for a function of a module, its dotted name.
    """
    attributes: dict[str, set[str]] = {}
    otherwise: set[str] = set()
    inside = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            attributes.setdefault(node.value.id, set()).add(node.attr)
        elif isinstance(node, ast.Name) and id(node) not in inside:
            otherwise.add(node.id)
    found = {}
    for name in names - {entry_point}:
        module = _CUSTOMARY.get(name, name if name in sys.stdlib_module_names else None)
        if module is not None and name in attributes and name not in otherwise:
            found[name] = (module, tuple(sorted(attributes[name])))
        elif name in _COMPARING and name in otherwise and len(names) > 1:
            found[name] = (f"{_COMPARING[name]}.{name}", ())
    return found
