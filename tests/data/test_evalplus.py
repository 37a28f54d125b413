"""MBPP+ beside EvalPlus's own judge: its references, and a thousand of them with one edit.

Needs the package ``evalplus``.
"""

import random
import re
from itertools import islice
from typing import Any

import pytest
from support.named_jobs import judge_named

from lit_rl.data.mbpp import MBPPPlus
from lit_rl.data.rows import read_rows
from lit_rl.execution import CallTests, Sandbox

pytestmark = pytest.mark.peers

NUM_MUTATED = 1000
TOO_LARGE = ("mbpp/255", "mbpp/599")  # more memory and more time than a program has, here
EDITS = (("<=", ">"), ("<", ">="), ("==", "!="), ("+ 1", "+ 2"), ("true", "false"), ("+", "-"), ("0", "1"), ("1", "2"))


def mutated(program: str, seed: int) -> str | None:
    """A program with one edit, the same for the same seed; ``None`` if none of the edits fits."""
    places = [(found.start(), old, new) for old, new in EDITS for found in re.finditer(re.escape(old), program)]
    if not places:
        return None
    start, old, new = random.Random(seed).choice(places)
    return program[:start] + new + program[start + len(old) :]


def by_evalplus(
    rows: dict[str, Any], checks: dict[str, CallTests], programs: dict[tuple[str, int], str]
) -> dict[tuple[str, int], bool]:
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
            inputs = [arguments for arguments, _ in checks[name].cases]
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
            row.float_number("atol"),
            seconds,
            fast_check=True,
            min_time_limit=5.0,
        )
        passed[name, seed] = said == theirs.PASS
    return passed


def test_programs_end_as_evalplus_judges_them(real_data):
    """Of the rows that become calls with values; the others' inputs are only in a file that is not read here."""
    origin, plus = (str(real_data / "evalplus" / f"MbppPlus{form}.jsonl.gz") for form in ("-OriginFmt", ""))
    rows = {f"mbpp/{row.text('task_id').split('/')[1]}": row for row in read_rows(plus)}
    problems = [one for one in MBPPPlus(origin).problems("test") if isinstance(one.check, CallTests)]
    checks = {one.task_id: one.check for one in problems}
    references = {one.task_id: str(one.reference) for one in problems}
    programs = {(name, -1): program for name, program in references.items() if name not in TOO_LARGE}
    names = [name for name, _ in programs]
    edited = ((names[seed % len(names)], seed) for seed in range(4 * NUM_MUTATED))
    found = ((name, seed, mutated(references[name], seed)) for name, seed in edited)
    programs |= {(name, seed): program for name, seed, program in islice((one for one in found if one[2]), NUM_MUTATED)}
    theirs = by_evalplus(rows, checks, programs)
    with Sandbox(num_workers=2, memory_bytes=2 << 30) as sandbox:
        ours = judge_named(sandbox, {key: (program, checks[key[0]]) for key, program in programs.items()})
    differ = {key: ours[key].verdict for key in programs if ours[key].passed != theirs[key]}
    print(f"{len(programs)} programs, {sum(theirs.values())} pass at EvalPlus; differ: {differ}")
    assert differ == {}
