"""HumanEval-X: its solutions pass, but for those that fail with the language's own tools, too."""

import gzip
import json
import os
import re
from pathlib import Path

import pytest
from support.named_jobs import judge_named

from lit_rl.execution import Sandbox, UnitTests
from lit_rl.execution.languages import find_toolchain

pytestmark = pytest.mark.slow
DATA = Path(os.environ.get("LIT_RL_DATA", "../shared/data")) / "humanevalx"
FILES = {"cpp": "cpp", "java": "java", "javascript": "js", "go": "go", "rust": "rust"}
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
    if find_toolchain(language) is None:
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


@pytest.mark.parametrize("language", FILES)
def test_solutions_end_as_with_the_languages_own_tools(language):
    jobs = {}
    for row in rows(language):
        before, setup = parts(language, row)
        check = UnitTests(row["test"], language, setup, timeout_seconds=5.0)
        jobs[row["task_id"]] = before + row["canonical_solution"], check
    with Sandbox(num_workers=2) as sandbox:
        outcomes = judge_named(sandbox, jobs)
    assert {name for name, outcome in outcomes.items() if not outcome.passed} == set(FAIL_PLAINLY.get(language, {}))
