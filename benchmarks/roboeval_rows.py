"""Convert the task files of RoboEval to the rows that ``lit_rl.data.RoboEval`` reads.

    python benchmarks/roboeval_rows.py CHECKOUT roboeval.jsonl

CHECKOUT is the root of a clone of https://github.com/ut-amrl/codebotler, whose licence forbids use as training data.
A task file is a Python module of worlds, built by chained calls, and of checks, functions over a trace. It is run here,
outside the sandbox, with a symbolic trace in place of a recorded one, so that a check returns its formula (see
``lit_rl/data/robots/trace_checks.py``). A row has ``name``, ``prompts`` and ``tests``.
"""

from __future__ import annotations
import __future__

import argparse
import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reproductions.robot_tasks import contains_all, contains_all_and_none

from lit_rl.data.robots.trace_checks import KINDS, compile_formula


@dataclass(frozen=True)
class Formula:
    """A truth value that depends on the robot's trace."""

    json: list[Any]

    def __bool__(self) -> bool:
        raise TypeError(f"a branch depends on the trace: {self.json}")


class World:
    """A world, built by chained calls."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {"locations": [], "objects": {}, "agents": {}, "robot_location": ""}

    def addLocation(self, room: str) -> World:
        self.state["locations"].append(room)
        return self

    def addObject(self, label: str, room: str) -> World:
        self.state["objects"].setdefault(room, []).append(label)
        return self

    def addAgent(self, name: str, room: str, answers: list[str]) -> World:
        self.state["agents"].setdefault(room, []).append({"name": name, "answers": answers})
        return self

    def addRobotLocation(self, room: str) -> World:
        self.state["robot_location"] = room
        return self


class Trace:
    """A part of the trace, with the methods of the benchmark."""

    def __init__(self, elements: Any = "trace") -> None:
        self.json = elements

    def __getattr__(self, method: str) -> Any:
        name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in method).lstrip("_")
        kind = Trace if name.startswith(("after_", "before_")) else Formula
        return lambda *arguments: kind([name, self.json, *arguments])


def join(operator: str, neutral: bool, *parts: Any) -> Any:
    """Join truth values, some of them known, by ``and`` (neutral: True) or ``or``."""
    unknown = [part.json for part in parts if isinstance(part, Formula)]
    if any(bool(part) is not neutral for part in parts if not isinstance(part, Formula)):
        return not neutral
    match unknown:
        case []:
            return neutral
        case [one]:
            return Formula(one)
        case [["act_at_first", start, place, event], ["act_at_first", ["after_first", *after], *same]]:
            if [after, same] == [[start, ["GoTo", place]], [place, event]]:
                return Formula(["act_at_any_visit", start, place, event])
    return Formula([operator, *unknown])


class Symbolic(ast.NodeTransformer):
    """Replaces what cannot be overloaded: ``and``, ``or``, ``not``, and loops over the trace.

    The one loop of the task files looks for the same act at each later visit of a place. Its body is run once, and
    :func:`join` recognises the result.
    """

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        name = type(node.op).__name__.lower()
        call = ast.parse(f"join({name!r}, {name == 'and'})", mode="eval").body
        assert isinstance(call, ast.Call)
        call.args += [self.visit(value) for value in node.values]
        return call

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return ast.Call(ast.Name("negate", ast.Load()), [node.operand], []) if isinstance(node.op, ast.Not) else node

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        return [self.visit(statement) for statement in node.body]


NAMES: dict[str, Any] = {
    "State": World,
    "Trace": lambda elements: Trace(),
    "contain_words": contains_all,
    "contain_words_and_exlude_words": contains_all_and_none,
    "join": join,
    "negate": lambda value: Formula(["not", value.json]) if isinstance(value, Formula) else not value,
    **{kind: (lambda *patterns, kind=kind: [kind, *patterns]) for kind in KINDS},
}


def read_task(file: Path) -> dict[str, Any]:
    """Return the row of one task file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    # Imports are those of the benchmark itself and of typing, which only annotations use.
    tree.body = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom | ast.Expr)]
    tree = ast.fix_missing_locations(Symbolic().visit(tree))
    names = dict(NAMES)
    exec(compile(tree, str(file), "exec", flags=__future__.annotations.compiler_flag), names)
    tests = []
    for test in names["tests"]:
        check = test["test"](None)
        check = check.json if isinstance(check, Formula) else check
        compile_formula(check)
        tests.append({"state": test["state"].state, "should_timeout": bool(test["timeout"]), "check": check})
    return {"name": names["name"], "prompts": names["prompts"], "tests": tests}


def read_tasks(checkout: Path) -> Iterator[dict[str, Any]]:
    """Return the rows of a checkout, by name."""
    for file in sorted((checkout / "benchmark" / "tasks").glob("*.py")):
        if file.name != "__init__.py":
            yield read_task(file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    rows = list(read_tasks(given.checkout))
    given.file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(f"{len(rows)} tasks, {sum(len(row['tests']) for row in rows)} tests")
