"""Which names in a test mean the program's."""

from __future__ import annotations

import ast
import builtins
import symtable
import sys
from collections.abc import Iterator


def program_names(test: str, tree: ast.Module, entry_point: str | None) -> frozenset[str]:
    """Names of the test that mean the program's: used, not bound by the test, and not builtin.

    Tests must not use a program's own ``abs`` or ``set``. Where a test uses only builtin names
    (``assert sum(10, 15) == 6``), the outermost call is the one under test.

    Args:
        test: source of the test.
        tree: the same, parsed.
        entry_point: the function under test, if it is known.
    """
    module = symtable.symtable(test, "<test>", "exec")
    bound = {symbol.get_name() for symbol in module.get_symbols() if _binds(symbol)}
    chosen = {name for name in _free(module) if name not in bound and not hasattr(builtins, name)}
    if entry_point is not None:
        chosen.add(entry_point)
    elif not chosen:
        chosen = {name for call in _tested_calls(tree, bound) if (name := _name(call)) and name not in bound}
    return frozenset(chosen)


def _binds(symbol: symtable.Symbol) -> bool:
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()


def _free(scope: symtable.SymbolTable) -> Iterator[str]:
    """Names that a scope, or one within it, looks up in the module."""
    for symbol in scope.get_symbols():
        if symbol.is_referenced() and (scope.get_type() == "module" or symbol.is_global()):
            yield symbol.get_name()
    for inner in scope.get_children():
        yield from _free(inner)


def _tested_calls(tree: ast.Module, bound: set[str]) -> Iterator[ast.expr]:
    """What an assert compares first, or what a helper of the test is given first."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            yield node.test.left if isinstance(node.test, ast.Compare) else node.test
        elif isinstance(node, ast.Call) and _name(node) in bound and node.args:
            yield node.args[0]


def _name(node: ast.expr) -> str | None:
    """Name of the function that is called, if it is a plain one."""
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
# Functions that tests compare with, and rely on the program to have imported.
_COMPARING = {"isclose": "math", "deepcopy": "copy", "approx": "pytest"}


def foreign_modules(
    tree: ast.Module, names: frozenset[str], entry_point: str | None
) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Names that tests use as modules without importing them: they mean ours, whatever the program binds to them.

    Args:
        tree: the test.
        names: names that the test does not bind.
        entry_point: the function under test.

    Returns:
        For each name its module and the attributes that are used; a dotted name for a function of a module.
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
