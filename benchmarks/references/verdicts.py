"""Verdicts of benchmark rows: of each reference, and of three programs that differ from it by one edit.

    python -P -m references.verdicts answer.json --every 40

Data are looked for in ``$LIT_RL_DATA``. The answer has a word for each row: ``PWEW`` is a reference that passed (P) and
mutants with a wrong answer (W), an exception (E) and a wrong answer; T timed out, S syntax error, M out of memory, I
infrastructure failure.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lit_rl import data
from lit_rl.execution import Sandbox

SETS: dict[str, Callable[[str], Any]] = {
    "humaneval": lambda folder: data.HumanEval(f"{folder}/humaneval/HumanEval.jsonl.gz"),
    "mbpp": lambda folder: data.MBPP(f"{folder}/mbpp/mbpp.jsonl.gz", test_split="all"),
    "sanitized": lambda folder: data.MBPP(f"{folder}/mbpp/sanitized-mbpp.json.gz", test_split="all"),
    "mbpp_plus": lambda folder: data.MBPPPlus(f"{folder}/evalplus/MbppPlus-OriginFmt.jsonl.gz"),
    "leetcode": lambda folder: data.DeepCoder(validation=[f"{folder}/competitive/leetcode_functional_train.jsonl.gz"]),
}
NUM_MUTANTS = 3
PAIRS = [(ast.Eq, ast.NotEq), (ast.Lt, ast.GtE), (ast.Gt, ast.LtE), (ast.In, ast.NotIn), (ast.Is, ast.IsNot)]
PAIRS += [(ast.Add, ast.Sub), (ast.Mult, ast.Add), (ast.FloorDiv, ast.Div), (ast.Mod, ast.FloorDiv), (ast.And, ast.Or)]
SWAPPED: dict[type, type] = {b: a for a, b in PAIRS} | dict(PAIRS)


def edit(node: ast.AST) -> str:
    """Make a node mean something else; returns the kind of the edit, empty if there is none for it."""
    match node:
        case ast.Compare() if type(node.ops[0]) in SWAPPED:
            node.ops[0] = SWAPPED[type(node.ops[0])]()
            return "comparison"
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            node.value = value + 1
            return "constant"
        case ast.BinOp() | ast.BoolOp() if type(node.op) in SWAPPED:
            node.op = SWAPPED[type(node.op)]()
            return "operator"
        case ast.Return(value=ast.expr()):
            node.value = ast.Constant(None)
            return "return"
        case ast.Call(args=[_, *_]):
            node.func = ast.Name("repr")
            return "the last resort"
    return ""


def mutants(program: str) -> list[str]:
    """Up to three programs with one edit each, of unlike kinds where possible; ``while`` loops would not end."""
    tree = ast.parse(program)
    looping = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.While) for inner in ast.walk(node)}
    kinds: dict[str, list[str]] = {}
    for number, node in enumerate(ast.walk(tree)):
        edited = ast.parse(program)
        if id(node) not in looping and (kind := edit(list(ast.walk(edited))[number])):
            kinds.setdefault(kind, []).append(ast.unparse(edited))
    most = max(map(len, kinds.values()), default=0)
    in_turn = [kinds[kind][place] for place in range(most) for kind in sorted(kinds) if place < len(kinds[kind])]
    return list(dict.fromkeys(in_turn))[:NUM_MUTANTS]


def verdicts_of(problems: Sequence[Any], sandbox: Any) -> dict[str, str]:
    """A letter for each program, by task id."""
    programs = {problem.task_id: [problem.reference, *mutants(problem.reference)] for problem in problems}
    jobs = [(program, problem.check) for problem in problems for program in programs[problem.task_id]]
    verdicts = [str(outcome.verdict) for outcome in sandbox.judge_many(jobs)]
    letters = iter("M" if verdict == "out_of_memory" else verdict[0].upper() for verdict in verdicts)
    return {name: "".join(next(letters) for _ in of_row) for name, of_row in programs.items()}


def judged(choose: Callable[[str, list[Any]], list[Any]]) -> dict[str, dict[str, str]]:
    """Verdicts of the rows that a function chooses from the name and the problems of each set."""
    found: dict[str, dict[str, str]] = {}
    with Sandbox(num_workers=2) as sandbox:
        for name, make in SETS.items():
            try:
                rows = choose(name, make(os.environ["LIT_RL_DATA"]).problems("test"))
                found[name] = verdicts_of(rows, sandbox)
            except Exception:
                found[name] = {"error": traceback.format_exc()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("answer", type=Path)
    parser.add_argument("--every", type=int, default=1, help="one row in so many")
    parser.add_argument("--rows", type=Path, help="JSON with lists of task ids by set, instead")
    given = parser.parse_args()
    if given.rows:
        named = json.loads(given.rows.read_text())
        found = judged(lambda name, problems: [one for one in problems if one.task_id in named[name]])
    else:
        found = judged(lambda name, problems: problems[:: given.every])
    given.answer.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
