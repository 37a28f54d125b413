"""Prove that a change left results as they were: a commit and the working tree, compared bit for bit.

    python benchmarks/reference.py main                           # runs, verdicts and step times, some minutes
    python benchmarks/reference.py main --parts runs --runs grpo resume
    python benchmarks/reference.py main --expected staleness="a correction is the default"
    python benchmarks/reference.py --renew                        # write anew what tests/test_same_results.py expects

Both trees run in this environment, with the scripts in ``benchmarks/references`` and the same models:

* ``runs``: small runs of each algorithm on the embedded task, six steps each. The CRC-32 of all weights at the end is
  compared, and all logged metrics except times and memory.
* ``verdicts``: rows of HumanEval, MBPP (full, sanitized, MBPP+) and LeetCode from ``$LIT_RL_DATA``: each reference and
  three programs with one edit. Rows that differ where a program timed out are judged again before they count.
* ``times``: CPU seconds of a training step, programs included; medians, with the trees measured in turn.

Ends with status 1 if runs or verdicts differ. ``--expected`` names differences that are meant: a run, a metric, a
set of rows, or a row.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "tests" / "same_results"
PARTS = ["runs", "verdicts", "times"]
Found = dict[str, dict[str, Any]]
"""Results, by the name of a run or of a set of rows."""


def unpack(commit: str, folder: Path) -> Path:
    """Write the tree of a commit below a folder, unless it is there already."""
    git = ["git", "-C", str(ROOT)]
    named = subprocess.run([*git, "rev-parse", f"{commit}^{{commit}}"], check=True, capture_output=True, text=True)
    tree = folder / named.stdout.strip()
    if not (tree / "lit_rl").exists():
        archive = subprocess.run([*git, "archive", tree.name], check=True, capture_output=True)
        tree.mkdir(parents=True, exist_ok=True)
        subprocess.run(["tar", "-x", "-C", tree], input=archive.stdout, check=True)
    return tree


def child(tree: Path, script: str, answer: Path, *arguments: str | Path) -> Found:
    """Run a script of ``benchmarks/references`` with the library of a tree; return the script's answer."""
    settings = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    paths = {"PYTHONPATH": os.pathsep.join([str(tree), str(ROOT / "benchmarks")])}
    command = [sys.executable, "-P", "-m", f"references.{script}", str(answer), *map(str, arguments)]
    done = subprocess.run(command, env=os.environ | settings | paths, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} with {tree} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    found: Found = json.loads(answer.read_text())
    return found


def flat(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return all numbers of a run in the order of time, the weights last."""
    if "error" in run:
        return dict(run)
    rows = [(row["step"], name, value) for row in run["metrics"] for name, value in row.items()]
    return {f"step {step}: {name}": value for step, name, value in rows} | {"weights": run["weights"]}


def compare(old: Found, new: Found, expected: Mapping[str, str]) -> bool:
    """Print a line for each name, with the first difference; return True if all differences are expected."""
    well = True
    for name in old:
        a, b = old[name], new[name]
        differing = [key for key in a | b if repr(a.get(key)) != repr(b.get(key))]
        differing = ["error"] if "error" in a | b else differing
        left = [] if name in expected else [key for key in differing if key.split(": ")[-1] not in expected]
        well = well and not left
        print(f"  {name:<21}{len(a):>5} results  {'DIFFERENT' if left else 'expected' if differing else 'equal'}")
        for key in left[:1] or differing[:1]:
            reason = "" if left else f" ({expected.get(name) or expected[key.split(': ')[-1]]})"
            texts = [str(one.get(key)).strip().splitlines()[-1] for one in (a, b)]
            print(f"{len(differing):>9} differ, {key}: {' | '.join(texts)}{reason}", flush=True)
    return well


def judge(trees: Sequence[Path], folder: Path, every: int) -> list[Found]:
    """Return the verdicts in both trees; those that depend on the machine's load are repeated if they differ."""
    old, new = (child(tree, "verdicts", folder / "verdicts.json", "--every", str(every)) for tree in trees)
    again = {
        name: [row for row, a in rows.items() if a != (b := new[name].get(row, a)) and {"T", "I"} & {*a, *b}]
        for name, rows in old.items()
    }
    if any(again.values()):
        print(f"  judged again: {again}")
        (folder / "rows.json").write_text(json.dumps(again))
        for tree, found in zip(trees, (old, new), strict=True):
            for name, rows in child(tree, "verdicts", folder / "again.json", "--rows", folder / "rows.json").items():
                found[name] |= rows
    return [old, new]


def time_steps(trees: Sequence[Path], folder: Path, rounds: int) -> None:
    """Print the CPU seconds of a step in both trees, as medians over the rounds."""
    options = ["--length", "18", "--runs", "grpo", "sft"]
    found = [[child(tree, "runs", folder / "times.json", *options) for tree in trees] for _ in range(rounds)]
    for name in options[3:]:
        seconds = [[one[side][name].get("step_seconds", float("nan")) for one in found] for side in (0, 1)]
        old, new = map(statistics.median, seconds)
        print(f"  {name:<21}{old:>8.4f} | {new:.4f} s of CPU a step, ratio {new / old:.3f}", flush=True)


def renew(folder: Path) -> None:
    """Write what the tests expect, without what depends on the machine: time-outs, and rounding in the sampler."""
    options = ["--models", "--wide", "--length", "3", "--runs", "grpo", "ppo_separate_critic", "sft", "dpo"]
    runs = child(ROOT, "runs", folder / "runs.json", *options)
    metrics = {
        name: [{k: v for k, v in row.items() if "sampling/" not in k} for row in run["metrics"]]
        for name, run in runs.items()
    }
    verdicts = child(ROOT, "verdicts", folder / "verdicts.json", "--every", "80")
    sure = {
        name: {row: text for row, text in rows.items() if not {"T", "I"} & {*text}} for name, rows in verdicts.items()
    }
    for name, kept in (("metrics", metrics), ("verdicts", sure)):
        if not any(kept.values()):  # without data sets the verdicts stay
            continue
        (KEPT / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", help="what the working tree is compared with")
    parser.add_argument("--renew", action="store_true", help="write what the tests expect")
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--runs", nargs="+", default=[], help="only these")
    parser.add_argument("--every", type=int, default=8, help="judge one row in so many")
    parser.add_argument("--rounds", type=int, default=3, help="of the step times")
    parser.add_argument("--expected", nargs="+", default=[], metavar="NAME=REASON", help="differences that are meant")
    parser.add_argument("--folder", type=Path, help="where the commit's tree and the models stay")
    given = parser.parse_args()
    if given.renew == bool(given.commit):
        parser.error("give a commit or --renew")
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if given.renew:
            return renew(folder)
        trees = [unpack(given.commit, folder), ROOT]
        expected = dict(one.split("=", 1) for one in given.expected)
        well = True
        if set(given.parts) & {"runs", "times"}:
            child(trees[0], "runs", folder / "models.json", "--models")
        if "runs" in given.parts:
            print("runs", flush=True)
            found = [child(tree, "runs", folder / "runs.json", "--runs", *given.runs) for tree in trees]
            well &= compare(*([{k: flat(run) for k, run in one.items()} for one in found]), expected)
        if "verdicts" in given.parts and os.environ.get("LIT_RL_DATA"):
            print(f"verdicts, one row in {given.every}", flush=True)
            well &= compare(*judge(trees, folder, given.every), expected)
        elif "verdicts" in given.parts:
            print("verdicts: left out, as LIT_RL_DATA names no folder of data sets")
        if "times" in given.parts:
            print("times", flush=True)
            time_steps(trees, folder, given.rounds)
        raise SystemExit(0 if well else 1)


if __name__ == "__main__":
    main()
