"""MBPP+ beside EvalPlus's own judge: its references, and a thousand of them with one edit.

Needs the package ``evalplus``; on a few problems the two differ by design, named here with the reason.
"""

from __future__ import annotations

import ast
import random
from typing import Any

import pytest
from support.named_jobs import judge_named

from lit_rl.data.mbpp import MBPPPlus
from lit_rl.data.mbpp_plus import restored_inputs
from lit_rl.data.rows import read_rows
from lit_rl.execution import Sandbox

pytestmark = pytest.mark.peers

NUM_MUTATED = 1000
TOO_LARGE = ("mbpp/255", "mbpp/599")  # more memory and more time than a program has, here
COMPARISONS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
OPERATIONS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Div, ast.Mod: ast.FloorDiv}


class OneEdit(ast.NodeTransformer):
    """Count the places where an edit is possible, and edit one of them."""

    def __init__(self, place: int) -> None:
        self.place, self.count = place, 0

    def _here(self) -> bool:
        self.count += 1
        return self.count - 1 == self.place

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if type(node.ops[0]) in COMPARISONS and self._here():
            node.ops[0] = COMPARISONS[type(node.ops[0])]()
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if type(node.op) in OPERATIONS and self._here():
            node.op = OPERATIONS[type(node.op)]()
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is int and self._here():
            return ast.Constant(node.value + 1)
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        self.generic_visit(node)
        if node.value is not None and self._here():
            node.value = ast.List([node.value], ast.Load())
        return node


def edited(program: str, seed: int) -> str | None:
    """Program with one edit; the same for the same seed."""
    count = OneEdit(-1)
    count.visit(ast.parse(program))
    if not count.count:
        return None
    return ast.unparse(
        ast.fix_missing_locations(OneEdit(random.Random(seed).randrange(count.count)).visit(ast.parse(program)))
    )


def by_evalplus(rows: dict[str, Any], programs: dict[tuple[str, int], str]) -> dict[tuple[str, int], bool]:
    """Return which programs pass, as EvalPlus's own functions say; the programs are a data set's: trusted."""
    reason = "EvalPlus is not installed: pip install evalplus==0.3.1"
    theirs = pytest.importorskip("evalplus.eval", reason=reason)
    from evalplus.eval._special_oracle import MBPP_OUTPUT_NOT_NONE_TASKS
    from evalplus.gen.util import trusted_exec

    expected: dict[str, tuple[list[Any], list[Any], list[float]]] = {}
    passed = {}
    for (name, seed), program in programs.items():
        row = rows[name]
        function = row.text("entry_point")
        if name not in expected:
            inputs = restored_inputs(row)
            truth = row.text("prompt") + row.text("canonical_solution")
            expected[name] = (
                inputs,
                *trusted_exec(truth, inputs, function, True, function in MBPP_OUTPUT_NOT_NONE_TASKS),
            )
        inputs, outputs, seconds = expected[name]
        said, _ = theirs.untrusted_check(
            "mbpp",
            program,
            inputs,
            function,
            outputs,
            row.number_of("atol"),
            seconds,
            fast_check=True,
            min_time_limit=5.0,
        )
        passed[name, seed] = said == theirs.PASS
    return passed


@pytest.mark.parametrize("file", ["MbppPlus-OriginFmt.jsonl.gz", "MbppPlus.jsonl.gz"])
def test_programs_end_as_evalplus_judges_them(real_data, file):
    folder = real_data / "evalplus"
    rows = {f"mbpp/{row.text('task_id').split('/')[1]}": row for row in read_rows(str(folder / "MbppPlus.jsonl.gz"))}
    problems = {
        one.task_id: one for one in MBPPPlus(str(folder / file)).problems("test") if one.task_id not in TOO_LARGE
    }
    programs = {(name, -1): str(problem.reference) for name, problem in problems.items()}
    for seed in range(4 * NUM_MUTATED):
        name = list(problems)[seed % len(problems)]
        if len(programs) < len(problems) + NUM_MUTATED and (program := edited(str(problems[name].reference), seed)):
            programs[name, seed] = program
    theirs = by_evalplus(rows, programs)
    with Sandbox(num_workers=2, memory_bytes=2 << 30) as sandbox:
        ours = judge_named(sandbox, {key: (program, problems[key[0]].check) for key, program in programs.items()})
    differ = {key: ours[key].verdict for key in programs if ours[key].passed != theirs[key]}
    print(f"{file}: {len(programs)} programs, {sum(theirs.values())} pass at EvalPlus; differ: {differ}")
    assert differ == {}
