"""Which lines of a test have nothing to do with the program: an error there is the test's own."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from lit_rl.execution.judging.steering import Steering

# What works on files: the program's process has the same folder.
_FILES = ("open", "os", "shutil", "tempfile", "pathlib", "Path", "glob", "fileinput", "sqlite3", "zipfile", "tarfile")


def own_lines(tree: ast.Module, names: Iterable[str]) -> tuple[int, ...]:
    """Lines that no value of the program's can reach.

    Values are followed through assignments, loops, parameters and results by name alone: a name that holds one
    anywhere counts as holding one everywhere. So does a name that is changed where a value of the program's decides
    whether or how often (see ``Steering``); the lines there are not the test's own. Lines that are returned are
    certain; some that could be are missing.

    Args:
        tree: the test.
        names: names that mean the program's.
    """
    steering = Steering(tree)
    touched = _touched_names(tree, {*names, "candidate", *_FILES}, steering)
    own: set[int] = set()
    others: set[int] = set()
    for statement, first, last, parts in _spans(tree):
        renamed = getattr(statement, "name", None) in touched  # another object may be run under the name
        theirs = renamed or statement in steering or any(_uses(part, touched) for part in parts)
        lines = others if theirs else own
        lines.update(range(first, last + 1))
    return tuple(sorted(own - others))


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _touched_names(tree: ast.Module, names: set[str], steering: Steering) -> set[str]:
    """All names that can hold a value of the program's."""
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    touched = set(names)
    while True:
        before = len(touched), len(steering)
        for node in ast.walk(tree):
            if _flows(node, touched):
                touched.update(_targets(node))
            if isinstance(node, ast.Call):
                touched.update(_parameters(node, functions, touched))
        steering.spread(lambda part: _uses(part, touched))
        touched.update(steering.changed_names())
        if (len(touched), len(steering)) == before:
            return touched


def _flows(node: ast.AST, touched: set[str]) -> bool:
    """Whether a statement or expression gives a value of the program's to what it binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        results = [part for part in ast.walk(node) if isinstance(part, ast.Return | ast.Yield | ast.YieldFrom)]
        return any(_uses(part, touched) for part in results)
    if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        return _uses(node.iter, touched)
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
        return _uses(node, touched)  # also as a key on the left
    if isinstance(node, ast.withitem):
        return _uses(node.context_expr, touched)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):  # ``seen.append(f(1))``
        return any(_uses(part, touched) for part in [*node.args, *[word.value for word in node.keywords]])
    return isinstance(node, ast.Try) and any(_uses(part, touched) for part in node.body)


def _targets(node: ast.AST) -> Iterator[str]:
    """Names that a statement or expression binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _roots(target)
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension | ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
        yield from _roots(node.target)
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from _roots(node.optional_vars)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from _roots(node.func.value)
    elif isinstance(node, ast.Try):
        yield from (handler.name for handler in node.handlers if handler.name)


def _roots(node: ast.AST) -> Iterator[str]:
    return (part.id for part in ast.walk(node) if isinstance(part, ast.Name))


def _parameters(call: ast.Call, functions: dict[str, _Function], touched: set[str]) -> set[str]:
    """Parameters that a call gives a value of the program's, or that a function passed along may get."""
    given = [*call.args, *[word.value for word in call.keywords]]
    found: set[str] = set()
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if name in functions and any(_uses(part, touched) for part in given):
        found |= _names_of_parameters(functions[name])
    if _uses(call, touched):
        for part in given:
            if isinstance(part, ast.Name) and part.id in functions:
                found |= _names_of_parameters(functions[part.id])
            elif isinstance(part, ast.Lambda):
                found |= _names_of_parameters(part)
    return found


def _names_of_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    return {part.arg for part in ast.walk(function.args) if isinstance(part, ast.arg)}


def _uses(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(node))


def _spans(tree: ast.Module) -> Iterator[tuple[ast.stmt, int, int, list[ast.AST]]]:
    """Each statement with its first and last line and its parts; of one with a body, only what precedes that."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt):
            continue
        body = getattr(node, "body", None)
        if not body:
            yield node, node.lineno, node.end_lineno or node.lineno, [node]
            continue
        yield node, _first_line(node), max(node.lineno, _first_line(body[0]) - 1), list(_head(node))


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *[part.lineno for part in decorators]])


def _head(node: ast.stmt) -> Iterator[ast.AST]:
    """What precedes the body; for a class also what runs to create it."""
    blocks = ("body", "orelse", "finalbody", "handlers")
    for name, part in ast.iter_fields(node):
        if name not in blocks:
            yield from _nodes(part)
    if isinstance(node, ast.ClassDef):
        for statement in node.body:
            if getattr(statement, "body", None):
                yield from _head(statement)
            else:
                yield statement


def _nodes(part: object) -> list[ast.AST]:
    if isinstance(part, list):
        return [item for item in part if isinstance(item, ast.AST)]
    return [part] if isinstance(part, ast.AST) else []
