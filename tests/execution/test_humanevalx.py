"""HumanEval-X: what the sandbox says of solutions, and of one mutation of each, beside the language's own tools."""

import gzip
import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from support.edited_programs import mutated

from lit_rl.execution import Sandbox, UnitTests
from lit_rl.execution.languages import toolchain

pytestmark = pytest.mark.slow
DATA = Path(os.environ.get("LIT_RL_DATA", "../shared/data")) / "humanevalx"
FILES = {"cpp": "cpp", "java": "java", "javascript": "js", "go": "go", "rust": "rust"}
NUM_MUTATED = 200
# Of Go, which a row's solution uses and its setup may leave out.
PACKAGES = ("math", "strings", "fmt", "strconv", "time", "bytes", "regexp", "sort", "math/rand", "crypto/md5")
# Rows whose own solution fails with the language's own tools, too, and the reason.
FAIL_PLAINLY = {
    "cpp": {
        **dict.fromkeys(("CPP/22", "CPP/137"), "boost is not installed"),
        "CPP/38": "the solution does not compile",
        "CPP/162": "it has to be linked with libcrypto",
    },
    "javascript": {
        **dict.fromkeys(("JavaScript/112", "JavaScript/155"), "the solution fails asserts of its own tests"),
        "JavaScript/162": "the package js-md5 is not installed",
    },
    "rust": {
        **dict.fromkeys(("Rust/38", "Rust/53"), "the tests use the crate rand"),
        "Rust/91": "the solution uses the crate regex",
        "Rust/162": "the solution uses the crate md5",
    },
}
# Rows that say nothing. Rust's have their tests commented out: plainly they pass, and the sandbox refuses a check that
# tests nothing. The solution of Go's looks at two keys of a map, whose order is random: it fails in 1 of 4 runs.
LEFT_OUT = ("Rust/32", "Rust/50", "Go/95")


def rows(language):
    if not DATA.exists():
        pytest.skip(f"HumanEval-X is not in {DATA}")
    if toolchain(language) is None:
        pytest.skip(f"{language} is not installed")
    with gzip.open(DATA / f"humaneval_{FILES[language]}.jsonl.gz") as file:
        return [row for row in map(json.loads, file) if row["task_id"] not in LEFT_OUT]


def parts(language, row):
    """Text before the solution, Go's package clause and imports, and the tests."""
    before, setup = row["declaration"], ""
    if language == "go":
        setup, whole = row["test_setup"], row["canonical_solution"]
        used = (name for name in PACKAGES if f"{name.rpartition('/')[2]}." in whole and f'"{name}"' not in setup)
        before = "".join(f'import "{name}"\n' for name in used) + row["prompt"].replace(row["import"], "")
    if language == "rust":  # every row names crates, which six of them use
        before = re.sub(r"^use (?:rand|regex|md5)\b.*$", "", before, flags=re.M)
    return before, setup


def in_sandbox(language, programs):
    jobs = [(program, UnitTests(test, language, setup, timeout_seconds=5.0)) for program, test, setup in programs]
    with Sandbox(num_workers=2) as sandbox:
        return [outcome.passed for outcome in sandbox.judge_many(jobs)]


def plainly(language, program, test, setup, folder):
    """Return whether the same text passes by the language's own tools. The rows are a data set's: trusted."""
    text = f"{setup}\n{program}\n{test}\n"
    home = toolchain(language).names["home"]
    tests = {
        "cpp": ("program.cpp", ["g++", "-std=gnu++20", "-O2", "-w", "program.cpp", "-o", "program"], ["./program"]),
        "java": ("Main.java", ["javac", "-nowarn", "Main.java"], ["java", "-cp", ".", "Main"]),
        "javascript": ("program.js", ["true"], ["node", "program.js"]),
        "go": ("main_test.go", ["true"], ["go", "test", "-vet=off", "-mod=vendor", "."]),
        "rust": (
            "program.rs",
            [f"{home}/bin/rustc", "--edition=2021", "-Awarnings", "--test", "program.rs"],
            ["./program"],
        ),
    }
    file, build, run = tests[language]
    (folder / file).write_text(text)
    environment = {**os.environ, "GOFLAGS": "-mod=vendor", "GOPROXY": "off"}
    try:
        for command in (build, run):
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=20, env=environment)
            if done.returncode or "Assertion failed" in done.stderr:
                return False
    except subprocess.TimeoutExpired:
        return False
    return True


def compared(language, edit, folder, number=None):
    """Names of the programs that pass in the sandbox, of those that pass plainly, and of all.

    Args:
        language: of the rows.
        edit: gives a program's solution, from that of its row and the program's number.
        folder: for the language's own tools.
        number: of programs, where it is not that of the rows: those take turns.
    """
    if language == "go":
        for name in ("go_mod", "go_sum"):
            shutil.copy(DATA / name, folder / name.replace("_", "."))
        with tarfile.open(DATA / "go_vendor.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    names, programs, found = [], [], rows(language)
    for index in range(number or len(found)):
        row = found[index % len(found)]
        before, setup = parts(language, row)
        solution = edit(row["canonical_solution"], index)
        if solution is not None:
            names.append(row["task_id"] + " again" * (index // len(found)))
            programs.append((before + solution, row["test"], setup))
    passed = in_sandbox(language, programs)
    plain = [plainly(language, *one, folder) for one in programs]
    print(f"{language}: {len(names)} programs, {sum(passed)} pass in the sandbox, {sum(plain)} plainly")
    return (
        {name for name, one in zip(names, passed, strict=True) if one},
        {name for name, one in zip(names, plain, strict=True) if one},
        set(names),
    )


@pytest.mark.parametrize("language", FILES)
def test_solutions_end_as_with_the_languages_own_tools(language, tmp_path):
    here, plain, names = compared(language, lambda solution, _: solution, tmp_path)
    assert here == plain
    assert names - plain == set(FAIL_PLAINLY.get(language, {}))


@pytest.mark.parametrize("language", FILES)
def test_nothing_passes_that_fails_plainly(language, tmp_path):
    here, plain, names = compared(language, mutated, tmp_path, NUM_MUTATED)
    print(f"{language}: only plainly: {sorted(plain - here)}; only in the sandbox: {sorted(here - plain)}")
    assert here <= plain < names
