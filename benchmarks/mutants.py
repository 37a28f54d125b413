"""Make one mistake after another in a copy of the code: does a test notice each of them?

    python benchmarks/mutants.py                # all rows
    python benchmarks/mutants.py minibatch      # rows whose name contains the word

Each row of the tables in ``mutations`` names a file, a text in it, what stands there after the mistake, and the tests
that must fail. The tests run in a temporary copy of the tree, so nothing here is changed. Prints a line per mistake and
ends with the survivors; the exit status is 1 if there are any, or if a row no longer fits the code.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mutations import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parent.parent
LONGEST_SECONDS = 600.0
_NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "runs", "build", "dist", "*.egg-info", ".*_cache", "__pycache__")


class DoesNotFitError(ValueError):
    """The row's text is not in the file exactly once: the code has changed and the row must follow."""


def break_copy(tree: Path, mutant: Mutant) -> str:
    """Make the mistake in a copy of the tree; returns the file's text before it.

    Raises:
        DoesNotFitError: the old text is not there exactly once.
    """
    file = tree / mutant.file
    before = file.read_text()
    count = before.count(mutant.old)
    if count != 1:
        raise DoesNotFitError(f"{mutant.file} has {mutant.old!r} {count} times instead of once: mend the row")
    file.write_text(before.replace(mutant.old, mutant.new))
    return before


def is_noticed(tree: Path, mutant: Mutant) -> bool:
    """True if one of the mutant's tests fails in the tree as it is now.

    Raises:
        DoesNotFitError: pytest did not run the tests, so their failing says nothing.
    """
    marked = "" if "::" in mutant.tests else "not slow"  # a test that is named runs, slow or not
    options = ["-q", "-x", "-m", marked, "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *mutant.tests.split()]
    paths = {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=tree, env=os.environ | paths, capture_output=True, text=True, timeout=LONGEST_SECONDS
        )
    except subprocess.TimeoutExpired:
        return True  # a run that never ends is noticed
    if done.returncode not in (0, 1):  # 2 to 5: a usage error, no such test, nothing collected
        raise DoesNotFitError(f"pytest could not run {mutant.tests}: {done.stdout[-400:]}{done.stderr[-400:]}")
    return done.returncode == 1


def try_all(mutants: list[Mutant]) -> tuple[list[str], list[str]]:
    """Names of the mutants that survive, and rows that no longer fit; prints a line per mutant."""
    survivors, misfits = [], []
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        shutil.copytree(ROOT, tree, symlinks=True, ignore=_NOT_COPIED)
        for mutant in mutants:
            started = time.monotonic()
            try:
                before = break_copy(tree, mutant)
                try:
                    word = "killed" if is_noticed(tree, mutant) else "SURVIVES"
                finally:
                    (tree / mutant.file).write_text(before)
            except DoesNotFitError as error:
                misfits.append(f"{mutant.name}: {error}")
                word = "DOES NOT FIT"
            survivors += [mutant.name] if word == "SURVIVES" else []
            print(f"{word:12} {time.monotonic() - started:5.0f} s  {mutant.name}", flush=True)
    return survivors, misfits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only rows whose name or file contains one of these")
    words = parser.parse_args().words
    chosen = [m for m in MUTANTS if not words or any(word in m.name or word in m.file for word in words)]
    survivors, misfits = try_all(chosen)
    print(f"killed {len(chosen) - len(survivors) - len(misfits)}/{len(chosen)}")
    for line in [f"survives: {name}" for name in survivors] + [f"does not fit: {text}" for text in misfits]:
        print(line)
    raise SystemExit(1 if survivors or misfits or not chosen else 0)


if __name__ == "__main__":
    main()
