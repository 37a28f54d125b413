"""Task files of the RoboEval benchmark, from a user's own checkout, as plain data.

A task file is a Python module of worlds, built by chained calls, and of checks, functions over a trace. It is
never imported or run: its syntax tree is read by the few rules below, with the trace as an unknown, so that a
check function becomes its formula (see :mod:`lit_rl.data.robots.trace_checks`). Anything outside
the rules is an error that names file and line, not a guess.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lit_rl.arguments import UsageError
from lit_rl.data.robots.robot_checks import RobotTest
from lit_rl.data.robots.service_robot import check_state
from lit_rl.data.robots.trace_checks import KINDS, validate

_CUTS = {
    "AfterFirst": "after_first",
    "BeforeFirst": "before_first",
    "AfterLast": "after_last",
    "BeforeLast": "before_last",
}
_FORMULAS = {"Exists": "exists", "Precedes": "precedes", "ActAtFirst": "act_at_first"}
_MAX_STEPS = 100_000


class TaskFileError(UsageError):
    """A task file holds something these rules do not cover."""


@dataclass(frozen=True)
class RoboEvalTask:
    """One task of the benchmark: several wordings of one instruction, and the worlds to test programs in."""

    name: str
    prompts: tuple[str, ...]
    tests: tuple[RobotTest, ...]


@dataclass(frozen=True)
class _Unknown:
    """Something that depends on the trace, in the check language."""

    json: Any


class _Term(_Unknown):
    """A part of the trace."""


class _Formula(_Unknown):
    """A truth value."""


class _Event(_Unknown):
    """A pattern of an event."""


class _World:
    """A world under construction."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {"locations": [], "objects": {}, "agents": {}, "robot_location": ""}

    def add(self, what: str, *arguments: Any) -> _World:
        match what, *arguments:
            case "addLocation", room:
                self.state["locations"].append(room)
            case "addObject", label, room:
                self.state["objects"].setdefault(room, []).append(label)
            case "addAgent", name, room, answers:
                self.state["agents"].setdefault(room, []).append({"name": name, "answers": list(answers)})
            case "addRobotLocation", room:
                self.state["robot_location"] = room
            case _:
                raise TaskFileError(f"a world has no {what} of {len(arguments)} arguments")
        return self


@dataclass(frozen=True)
class _Function:
    node: ast.FunctionDef
    scope: dict[str, Any]


class _Returned(Exception):
    """A return statement was reached; carries its value."""


def read_tasks(checkout: Path) -> list[RoboEvalTask]:
    """The tasks of a checkout, by name.

    Args:
        checkout: root of a clone of ``ut-amrl/codebotler`` (or ``ut-amrl/robo-instruct``).

    Raises:
        FileNotFoundError: no task files there.
        TaskFileError: a file holds something unknown.
    """
    for folder in (checkout / "benchmark" / "tasks", checkout / "roboeval" / "benchmark" / "tasks"):
        files = sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
        if files:
            return [read_task(path) for path in files]
    raise FileNotFoundError(f"no benchmark/tasks/*.py under {checkout}: give the root of a codebotler checkout")


def read_task(path: Path) -> RoboEvalTask:
    """One task file; see :func:`read_tasks`."""
    reader = _Reader(str(path))
    scope = reader.read_module(ast.parse(path.read_text(encoding="utf-8"), str(path)))
    tests = tuple(
        RobotTest(row["state"].state, should_timeout=bool(row["timeout"]), check=reader.check_of(row["test"]))
        for row in scope["tests"]
    )
    if not tests:
        raise TaskFileError(f"{path}: the list of tests is empty, so every program would pass")
    for test in tests:
        check_state(test.state)
        validate(test.check)
    return RoboEvalTask(scope["name"], tuple(scope["prompts"]), tests)


def contains_all(words: Sequence[str]) -> str:
    """Pattern of a text that contains every word, in any order; a word may be an alternation."""
    return "^" + "".join(f"(?=.*{word})" for word in words) + ".*$"


def contains_all_and_none(words: Sequence[str], excluded: Sequence[str]) -> str:
    """As :func:`contains_all`, and none of the excluded words, taken literally and as whole words."""
    barrier = "|".join(rf"\b{re.escape(word)}\b" for word in excluded)
    return f"^(?!.*{barrier})" + "".join(f"(?=.*{word})" for word in words) + ".*$"


_KNOWN: Mapping[str, Any] = {
    "State": _World,
    "Trace": lambda elements: elements,
    "contain_words": contains_all,
    "contain_words_and_exlude_words": contains_all_and_none,
    "range": range,
    "len": len,
    "str": str,
    **{kind: (lambda *patterns, kind=kind: _Event([kind, *patterns])) for kind in KINDS},
}


class _Reader:
    """Reads statements and expressions of a task file with the trace unknown."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.steps = 0

    def read_module(self, module: ast.Module) -> dict[str, Any]:
        scope: dict[str, Any] = {}
        skipped = (ast.Import, ast.ImportFrom, ast.Expr)
        self.run([node for node in module.body if not isinstance(node, skipped)], scope)
        return scope

    def check_of(self, function: _Function) -> Any:
        """The formula of a check function."""
        return _json(self.call(function, [_Term("trace")], {}))

    # --- statements ---------------------------------------------------------------------------------------

    def run(self, body: Sequence[ast.stmt], scope: dict[str, Any]) -> None:
        for node in body:
            self.steps += 1
            if self.steps > _MAX_STEPS:
                raise self.error(node, "a check that takes too many steps")
            self.run_one(node, scope)

    def run_one(self, node: ast.stmt, scope: dict[str, Any]) -> None:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                scope[name] = self.value(value, scope)
            case ast.FunctionDef(name=name):
                scope[name] = _Function(node, scope)
            case ast.Return(value=value):
                raise _Returned(None if value is None else self.value(value, scope))
            case ast.If(test=test, body=body, orelse=orelse):
                condition = self.value(test, scope)
                if isinstance(condition, _Formula):
                    raise self.error(node, "a branch that depends on the trace")
                self.run(body if condition else orelse, scope)
            case ast.For(target=ast.Name(id=name), iter=iterable, body=body):
                for item in self.value(iterable, scope):
                    scope[name] = item
                    self.run(body, scope)
            case ast.While():
                self.read_visits(node, scope)
            case ast.Expr(value=ast.Constant()):
                pass
            case _:
                raise self.error(node, f"a statement of type {type(node).__name__}")

    def read_visits(self, node: ast.While, scope: dict[str, Any]) -> None:
        """The one loop that task files have: the same act looked for at each later visit of a place.

        It runs while another visit exists in what is left, drops everything up to the next visit, and joins
        ``act_at_first`` of the rest by ``or``. That is ``act_at_any_visit``.
        """
        before = dict(scope)
        condition = _json(self.value(node.test, scope))
        self.run(node.body, scope)
        changed = [name for name in scope if scope[name] != before.get(name)]
        terms = [name for name in changed if isinstance(scope[name], _Term)]
        acts = [name for name in changed if isinstance(scope[name], _Formula)]
        if len(terms) != 1 or len(acts) != 1 or len(changed) != 2:
            raise self.error(node, "a loop over the trace that is not one over visits")
        start, act = _json(before.get(terms[0])), _json(before.get(acts[0]))
        rest, joined = _json(scope[terms[0]]), _json(scope[acts[0]])
        if act[:2] != ["act_at_first", start]:
            raise self.error(node, "a loop over visits without an act at the first")
        _, _, place, event = act
        arrival = ["GoTo", place]
        expected_rest = ["after_first", start, arrival]
        expected_joined = ["or", act, ["act_at_first", expected_rest, place, event]]
        expected_condition = ["exists", expected_rest, arrival]
        if (rest, joined, condition) != (expected_rest, expected_joined, expected_condition):
            raise self.error(node, "a loop over the trace that is not one over visits of one place")
        # What is left of the trace after the loop has no name in the check language.
        del scope[terms[0]]
        scope[acts[0]] = _Formula(["act_at_any_visit", start, place, event])

    # --- expressions --------------------------------------------------------------------------------------

    def value(self, node: ast.expr, scope: dict[str, Any]) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self.look_up(node, name, scope)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self.value(item, scope) for item in items]
            case ast.Dict(keys=keys, values=values):
                pairs = zip(keys, values, strict=True)
                return {self.value(k, scope): self.value(v, scope) for k, v in pairs if k is not None}
            case ast.JoinedStr(values=parts):
                return "".join(str(self.value(part, scope)) for part in parts)
            case ast.FormattedValue(value=inner, conversion=-1, format_spec=None):
                return self.value(inner, scope)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.value(left, scope) + self.value(right, scope)
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                return self.value(left, scope) == self.value(right, scope)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.value(operand, scope)
                return _Formula(["not", inner.json]) if isinstance(inner, _Formula) else not inner
            case ast.BoolOp(op=op, values=values):
                return _join(op, [self.value(part, scope) for part in values])
            case ast.ListComp(elt=item, generators=[ast.comprehension(target=ast.Name(id=name), ifs=[]) as loop]):
                return [self.value(item, {**scope, name: each}) for each in self.value(loop.iter, scope)]
            case ast.Call():
                return self.read_call(node, scope)
            case _:
                raise self.error(node, f"an expression of type {type(node).__name__}")

    def look_up(self, node: ast.expr, name: str, scope: dict[str, Any]) -> Any:
        if name in scope:
            return scope[name]
        if name in _KNOWN:
            return _KNOWN[name]
        raise self.error(node, f"the unknown name {name!r}")

    def read_call(self, node: ast.Call, scope: dict[str, Any]) -> Any:
        arguments = [self.value(argument, scope) for argument in node.args]
        keywords = {k.arg: self.value(k.value, scope) for k in node.keywords if k.arg is not None}
        if isinstance(node.func, ast.Attribute):
            return self.call_method(node, self.value(node.func.value, scope), arguments, keywords)
        function = self.value(node.func, scope)
        if isinstance(function, _Function):
            return self.call(function, arguments, keywords)
        if any(function is known for known in _KNOWN.values()):
            return function(*arguments, **keywords)
        raise self.error(node, "a call of something that is not a function")

    def call_method(self, node: ast.Call, target: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        plain = [argument.json if isinstance(argument, _Event) else argument for argument in arguments]
        if isinstance(target, _World):
            return target.add(method, *arguments)
        if isinstance(target, _Term) and method in _CUTS:
            return _Term([_CUTS[method], target.json, *plain])
        if isinstance(target, _Term) and method in _FORMULAS:
            return _Formula([_FORMULAS[method], target.json, *plain])
        if isinstance(target, str) and method in ("format", "join"):
            render: Callable[..., str] = getattr(target, method)
            return render(*arguments, **keywords)
        raise self.error(node, f"the method {method!r} of {type(target).__name__.strip('_')}")

    def call(self, function: _Function, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        parameters = function.node.args
        names = [parameter.arg for parameter in parameters.args]
        defaults = [self.value(default, function.scope) for default in parameters.defaults]
        # The module's scope is looked up late, as functions may use what is defined after them.
        local = {
            **function.scope,
            **dict(zip(names[len(names) - len(defaults) :], defaults, strict=True)),
            **dict(zip(names, arguments, strict=False)),
            **keywords,
        }
        try:
            self.run(function.node.body, local)
        except _Returned as returned:
            return returned.args[0]
        raise self.error(function.node, "a check without a return")

    def error(self, node: ast.stmt | ast.expr, what: str) -> TaskFileError:
        return TaskFileError(f"{self.file}:{node.lineno}: {what} is not covered by the reader of task files")


def _json(value: Any) -> Any:
    if isinstance(value, _Unknown):
        return value.json
    if isinstance(value, bool):
        return value
    raise TaskFileError(f"a check must be a formula or a truth value, got {value!r}")


def _join(op: ast.boolop, parts: list[Any]) -> Any:
    """``and`` or ``or`` of parts, of which some are known."""
    neutral = isinstance(op, ast.And)
    unknown = [part.json for part in parts if isinstance(part, _Formula)]
    if any(bool(part) is not neutral for part in parts if not isinstance(part, _Formula)):
        return not neutral
    if not unknown:
        return neutral
    return _Formula(unknown[0] if len(unknown) == 1 else ["and" if neutral else "or", *unknown])
