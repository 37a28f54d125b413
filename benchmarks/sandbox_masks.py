"""Judge random wrong programs by random tests, and check that none passes and that none is masked.

``python benchmarks/sandbox_masks.py --minutes 30 --seed 0 [--tier T] [--num-workers 2] [--keep masks_failures.jsonl]``.
Each round is made from the seed and its number alone: some tests, and for each a right program and several wrong ones.
What must hold: the right program passes; no wrong program does, and none is an infrastructure failure, for one that
could choose to be left out of baseline and loss would choose which of its rows count. What does not hold is written,
with seed and round, as a line of JSON; ``--first-round N --rounds 1`` makes that round again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from random_tests.problems import random_problem
from random_tests.wrong_programs import wrong_program

from lit_rl.execution import AssertTests, Outcome, Sandbox, Verdict

PROBLEMS_A_ROUND = 4
WRONG_A_PROBLEM = 7


def programs(rng: random.Random) -> Iterator[tuple[str, AssertTests, bool, str]]:
    """Programs of a round: source, check, whether it is right, and the form of the test."""
    for _ in range(PROBLEMS_A_ROUND):
        problem = random_problem(rng)
        in_place = problem.kind == "in_place"
        form = f"{problem.kind}: {problem.form}"
        yield problem.right, AssertTests(problem.test, problem.entry_point, 10.0, in_place=in_place), True, form
        check = AssertTests(problem.test, problem.entry_point, 0.5, in_place=in_place)
        for _ in range(WRONG_A_PROBLEM):
            yield wrong_program(rng, problem), check, False, form


def fault_of(outcome: Outcome, is_right: bool) -> str | None:
    """Fault of a verdict; ``None`` if there is none."""
    if is_right:
        return None if outcome.passed else f"a right program is {outcome.verdict}"
    if outcome.verdict is Verdict.INFRASTRUCTURE_FAILURE:
        return "a wrong program is masked"
    return "a wrong program passes" if outcome.passed else None


def judge_round(sandbox: Sandbox, seed: int, number: int, seen: Counter[str]) -> Iterator[dict[str, Any]]:
    """Faults of one round."""
    batch = list(programs(random.Random(f"{seed}/{number}")))
    outcomes = sandbox.judge_many([(source, check) for source, check, _, _ in batch])
    for (source, check, is_right, form), outcome in zip(batch, outcomes, strict=True):
        seen[f"{'right' if is_right else 'wrong'}: {outcome.verdict}"] += 1
        if fault := fault_of(outcome, is_right):
            yield {
                "seed": seed,
                "round": number,
                "fault": fault,
                "form": form,
                "said": outcome.stderr[-200:],
                "test": check.test,
                "program": source,
            }


def run(
    seed: int,
    minutes: float,
    tell: Callable[[dict[str, Any]], None],
    *,
    tier: int | None = None,
    num_workers: int = 2,
    first_round: int = 0,
    most_rounds: int | None = None,
) -> tuple[int, Counter[str]]:
    """Judge rounds until the time is up; returns their number and the verdicts seen."""
    deadline, rounds = time.monotonic() + 60 * minutes, 0
    seen: Counter[str] = Counter()
    with Sandbox(num_workers, tier=tier) as sandbox:
        while time.monotonic() < deadline and rounds != most_rounds:
            for fault in judge_round(sandbox, seed, first_round + rounds, seen):
                tell(fault)
            rounds += 1
    return rounds, seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tier", type=int)
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--first-round", type=int, default=0)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--keep", type=Path, default=Path("masks_failures.jsonl"))
    options = parser.parse_args()
    faults: Counter[str] = Counter()
    failed: set[int] = set()

    def tell(fault: dict[str, Any]) -> None:
        faults[f"{fault['fault']} ({fault['form']})"] += 1
        failed.add(fault["round"])
        with options.keep.open("a") as file:
            file.write(json.dumps(fault) + "\n")

    rounds, seen = run(
        options.seed,
        options.minutes,
        tell,
        tier=options.tier,
        num_workers=options.num_workers,
        first_round=options.first_round,
        most_rounds=options.rounds,
    )
    print(f"seed {options.seed}: {rounds} rounds, {sum(seen.values())} programs, {sum(faults.values())} faults")
    for name, count in [*sorted(seen.items()), *faults.most_common()]:
        print(f"  {count:7d} {name}")
    if failed:
        print(f"rounds with faults, in {options.keep}: {' '.join(map(str, sorted(failed)[:50]))}")
    sys.exit(1 if faults else os.EX_OK)


if __name__ == "__main__":
    main()
