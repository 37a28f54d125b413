"""Unit tests that are compiled with the program: a driver runs the tests, and sends a secret after the last test.

They are for evaluation: program and tests share a process, so a program that looks for the secret finds it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace

from lit_rl.execution.checks import UnitTests
from lit_rl.execution.interface import FaultyCheck, Outcome, Verdict
from lit_rl.execution.judging.compiling import Files
from lit_rl.execution.judging.runtimes import (
    blank_comments_and_strings,
    build_failure_outcome,
    build_program,
    driver_source,
    outcome_of_exit,
    rename_go_main,
    run_built_program,
    source_for_compiler,
    verdict_of_exit,
)
from lit_rl.execution.judging.supervising.child_files import read_whole
from lit_rl.execution.judging.supervising.jobs import ZygoteClient
from lit_rl.execution.languages import Language

_GO_PACKAGES = (
    "bytes crypto/md5 encoding/hex encoding/json errors fmt math math/big math/bits math/rand reflect regexp sort "
    "strconv strings time unicode unicode/utf8"
)
_GO_IMPORT = re.compile(r'^[ \t]*(?:import[ \t]+)?(?:\([ \t]*)?"([\w./-]+)"', re.M)
_GO_NO_CODE = re.compile(r"""//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"?|`[^`]*`?|'(?:\\.|[^'\\\n])*'?""", re.S)
_TEST: dict[Language, re.Pattern[str]] = {
    "go": re.compile(r"^func (Test\w*)\(", re.M),
    "rust": re.compile(r"^[ \t]*#\[test\]", re.M),
}
# For Rust's own harness: run only our tests, one by one, in the order of their names.
_RUST_ARGUMENTS = ("--test-threads=1", "--nocapture", "lit_rl_tests::")


def judge_units(client: ZygoteClient, program: str, check: UnitTests) -> Outcome:
    """Compile the program with its tests, run them, and compare what arrives with the secret that was given."""
    if not program.strip():
        return Outcome(Verdict.NO_PROGRAM)
    client.on_report()  # from here on, this process reads the program
    language = check.language
    if language in _TEST and not _TEST[language].search(blank_comments_and_strings(check.test)):
        raise FaultyCheck("UnitTests.test: expected functions named Test... (Go) or marked #[test] (Rust), got none")
    source = source_for_compiler(program, language)
    setup = check.setup if language in ("cpp", "go", "rust") else " ".join(check.setup.split("\n"))
    built = build_program(client, _FILES[language](source, replace(check, setup=setup)), language, beside=True)
    if built.verdict is not None:
        is_of_program = (built.line or 0) <= source.count("\n") + 1
        return build_failure_outcome(built if is_of_program else built._replace(line=None))
    secret = os.urandom(32).hex().encode()
    arguments = _RUST_ARGUMENTS if language == "rust" else ()
    with run_built_program(
        client, language, built.binary, check.timeout_seconds, secret, answers=True, arguments=arguments, mode="tests"
    ) as run:
        _, child, report = run
        ended = verdict_of_exit(client, language, built.binary, run)
        if ended is None:
            ended = Verdict.PASSED if read_whole(child.answers) == secret else Verdict.EXCEPTION
        return outcome_of_exit(ended, language, source, child, report, [ended])


def _cpp_files(program: str, check: UnitTests) -> Files:
    parts = {"setup.cpp": check.setup, "program.cpp": program, "tests.cpp": check.test}
    units = "".join(f'#include "{name}"\n' for name in parts)
    return {
        "run.cpp": driver_source("run.cpp"),
        "units.cpp": units,
        **{name: f"{text}\n" for name, text in parts.items()},
    }


def _java_files(program: str, check: UnitTests) -> Files:
    # Tests are written for programs that import java.util; a program's own class takes precedence over an import of it.
    text = f"import java.util.*; {check.setup}{program}\n{source_for_compiler(check.test, 'java')}\n"
    return {"Main.java": text, "LitRlRun.java": driver_source("Run.java")}


def _go_files(program: str, check: UnitTests) -> Files:
    program = re.sub(r"^[ \t]*package\s+\w+;?", "", rename_go_main(program), count=1, flags=re.M)
    setup = check.setup if "package" in check.setup else f"package main\n{check.setup}"
    setup = _go_setup_with_imports(setup, program, check.test)
    text = f"{setup}\n//line program.go:1\n{program}\n//line tests.go:1\n{check.test}\n"
    entries = ", ".join(f'{{"{name}", {name}}}' for name in _TEST["go"].findall(check.test))
    main = 'package main\n\nimport (\n\t"testing"\n\tlit_rl "lit_rl"\n)\n\n'
    main += f"func main() {{ lit_rl.Run([]testing.InternalTest{{{entries}}}) }}\n"
    files = {"run.go": driver_source("run.go"), "program.go": text, "main.go": main}
    return files | {"assert.go": driver_source("assert.go"), "github.com/stretchr/testify/.keep": ""}


def _go_setup_with_imports(setup: str, program: str, test: str) -> str:
    """Return the setup without the program's imports, plus imports of common packages that program or tests lack.

    HumanEval-X does so, too: a completion begins after the imports.
    """
    imported = set(_GO_IMPORT.findall(program))
    kept = [line for line in setup.split("\n") if not (found := _GO_IMPORT.match(line)) or found[1] not in imported]
    imported |= set(_GO_IMPORT.findall(setup))
    code = _GO_NO_CODE.sub("", f"{program}\n{test}")
    used = [name for name in _GO_PACKAGES.split() if re.search(rf"\b{name.rpartition('/')[2]}\.[A-Z]", code)]
    return "\n".join([*kept, *(f'import "{name}"' for name in used if name not in imported)])


def _rust_files(program: str, check: UnitTests) -> Files:
    tests = driver_source("run.rs").replace("TESTS", check.test)
    return {"program.rs": f"{program}\n{check.setup}\n{tests}"}


_FILES: dict[Language, Callable[[str, UnitTests], Files]] = {
    "cpp": _cpp_files,
    "java": _java_files,
    # The tests stand in a block, so that program and tests may declare the same name.
    "javascript": lambda program, check: {"program.js": f"{check.setup}{program}\n;{{\n{check.test}\n}}"},
    "go": _go_files,
    "rust": _rust_files,
}
