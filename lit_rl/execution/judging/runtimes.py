"""Programs in languages other than Python: how to prepare, build and start them, and how to read their errors."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.execution.judging.compiling import (
    CompiledProgram,
    Files,
    compiler_failure,
    require_toolchain,
    toolchain_variables,
)
from lit_rl.execution.judging.supervising.child_files import ChildFiles, make_executable_memfd, make_memfd, read_tail
from lit_rl.execution.judging.supervising.jobs import JobReport, ZygoteClient
from lit_rl.execution.judging.supervising.watching import SleepTotal
from lit_rl.execution.judging.verdicts import describe_exit, outcome_of_child, verdict_of_child
from lit_rl.execution.languages import ARTEFACT, LANGUAGES, THREAD_STACK, Language
from lit_rl.execution.wire.printable import make_printable, printable_name
from lit_rl.execution.wire.program_messages import MAX_MESSAGE_LENGTH

DRIVERS = Path(__file__).resolve().parent.parent / "program_side" / "drivers"
_PARSE_SECONDS = 10.0
_JAVA_PLACES = re.compile(r"[{}]|\bpublic\b|\bpackage\b[^;{}]{0,500};")
_RUST_INNER = re.compile(r"^[ \t]*#!\[[^\]]{0,2000}\]", re.M)  # what only a crate's root may have
_RUST_INNER_DOC = re.compile(r"^([ \t]*/[/*])!", re.M)
_COMMENT_OR_TEXT = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|\"{3}(?:\\.|[^\\])*?(?:\"{3}|\Z)|"(?:\\.|[^"\\])*(?:"|\Z)|'(?:\\.|[^'\\\n])'""", re.S
)  # one that is left open goes to the end, so that no text is searched twice
_GO_PACKAGE = re.compile(r"^[ \t]*package\s+\w+", re.M)


def driver_source(name: str) -> str:
    """Return the source of a driver, given the name of its file."""
    return (DRIVERS / name).read_text()


def source_for_compiler(program: str, language: Language) -> str:
    """Return a program with the package, or without the ``public``, as its compiler needs it; line numbers stay."""
    if language == "go":
        return program if _GO_PACKAGE.search(program) else "package main; " + program
    if language != "java":
        return program
    # Drop the package, and ``public`` before top-level types, since a public type has to be in a file of its name.
    depth, end, kept = 0, 0, []
    for found in _JAVA_PLACES.finditer(blank_comments_and_strings(program)):
        if found[0] in "{}":
            depth += 1 if found[0] == "{" else -1
        elif not depth:
            kept += [program[end : found.start()], _blank_out(found)]
            end = found.end()
    return "".join([*kept, program[end:]])


def rename_go_main(program: str) -> str:
    """Put a prepared Go program into its driver's package, with its ``main`` renamed, since the driver has one."""
    program = _GO_PACKAGE.sub("package main", program, count=1)
    return re.sub(r"^(package main; )?func main\(", r"\1func main_(", program, flags=re.M)


def _blank_out(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def blank_comments_and_strings(program: str) -> str:
    """Blank out the comments and texts of a program in a language like C; all other letters keep their places."""
    return _COMMENT_OR_TEXT.sub(_blank_out, program)


def embed_rust_program(program: str) -> str:
    """Return a Rust program as a part of its driver's file, which has its own ``main`` and inner attributes."""
    program = _RUST_INNER_DOC.sub(r"\1 ", _RUST_INNER.sub(_blank_out, program))
    code = blank_comments_and_strings(program)
    is_declared = "impl Solution" not in code or "struct Solution" in code  # LeetCode omits the struct
    return re.sub(r"\bfn main\b", "fn main_", program) + ("" if is_declared else "\nstruct Solution;")


def build_program(client: ZygoteClient, files: Files, language: Language, beside: bool = False) -> CompiledProgram:
    """Build what a runtime runs: the compiled program, or the source if the runtime takes sources."""
    if LANGUAGES[language].builds:
        compiled: CompiledProgram = client.compiler.compile(files, language, beside)
        return compiled
    return CompiledProgram(next(iter(files.values())).encode("utf-8", "surrogatepass"))


def build_failure_outcome(compiled: CompiledProgram) -> Outcome:
    """Return the outcome of a source that does not compile."""
    return Outcome(compiled.verdict or Verdict.SYNTAX_ERROR, (), stderr=compiled.diagnostics, line=compiled.line)


def make_run_job(
    language: Language,
    command: Sequence[str] = (),
    arguments: Sequence[str] = (),
    *,
    answers: bool = False,
) -> dict[str, Any]:
    """Return the job that runs a built program; its channel is the program, or what the runtime's command runs."""
    return {
        "mode": "run",
        "command": [*command],
        "arguments": [*arguments],
        "environment": toolchain_variables(language),
        # Without a limit, the main thread's stack grows within the memory, and other threads do not reserve as much.
        "stack_bytes": THREAD_STACK if LANGUAGES[language].reserves else resource.RLIM_INFINITY,
        "answers": answers,
    }


@contextmanager
def run_built_program(
    client: ZygoteClient,
    language: Language,
    artefact: bytes,
    seconds: float,
    stdin: bytes | None,
    num_cases: int = 1,
    *,
    answers: bool = False,
    command: tuple[str, ...] = (),
    arguments: tuple[str, ...] = (),
    sleep_total: SleepTotal | None = None,
    **names: str,
) -> Iterator[tuple[ZygoteClient, ChildFiles, JobReport]]:
    """Run a built program to its end.

    Yields:
        The client that ran it, its descriptors, and the report.
    """
    spec, runner = LANGUAGES[language], client.compiler.client_for_programs(language, client)
    names = {
        "memory": str(client.settings.memory_bytes >> 20),
        "file": spec.file,
        "driver": driver_source("run.js"),
        "mode": "stdio",
        **names,
    }
    filled = require_toolchain(language).fill_command(command or spec.run, **names)
    job = make_run_job(language, filled, arguments, answers=answers)
    channel = make_memfd(artefact) if spec.run else make_executable_memfd(artefact)
    with ChildFiles(job, stdin, channel, answers_in_job=answers) as child:
        yield runner, child, runner.run([child], seconds, num_cases, compiled=True, sleep_total=sleep_total)


def verdict_of_exit(
    client: ZygoteClient, language: Language, artefact: bytes, ended: tuple[ZygoteClient, ChildFiles, JobReport]
) -> Verdict | None:
    """Return the verdict that follows from the end of a program alone; ``None`` if the program ended normally.

    If a runtime compiles as it starts, a source is at fault if a process that only parses the source fails, too.
    """
    runner, child, report = ended
    verdict = verdict_of_child(runner, child, report)
    if verdict is Verdict.EXCEPTION and LANGUAGES[language].checks and _parser_complaint(client, language, artefact):
        fault = _parser_complaint(client, language, LANGUAGES[language].good.encode())
        if fault:
            raise compiler_failure(language, fault, client.settings)
        return Verdict.SYNTAX_ERROR
    return verdict


def _parser_complaint(client: ZygoteClient, language: Language, source: bytes) -> str:
    """Return the complaint of a process that only parses a source; empty if there is none."""
    command = LANGUAGES[language].checks
    with run_built_program(client, language, source, _PARSE_SECONDS, None, command=command, mode="parse") as run:
        _, child, parsed = run
        return (read_tail(child.stderr) or "nothing") if parsed.children[0].status else ""


def outcome_of_exit(
    verdict: Verdict, language: Language, program: str, child: ChildFiles, report: JobReport, cases: list[Verdict]
) -> Outcome:
    """Return an outcome with the program's output, the error that its runtime told, and the line of the error."""
    spec = LANGUAGES[language]
    outcome = outcome_of_child(verdict, cases, child, report, None)
    stderr = re.sub(rf"{ARTEFACT}|/dev/fd/4|/memfd:lit_rl \(deleted\)", spec.file, outcome.stderr)
    outcome = replace(outcome, stderr=stderr)
    if verdict in (Verdict.PASSED, Verdict.WRONG_ANSWER):
        return outcome
    name = describe_exit(report.children[0].status)["types"][0] if report.children[0].status else None
    error = re.search(spec.error, stderr, re.MULTILINE)
    if error and error["type"]:
        name = printable_name(error["type"])
    return replace(
        outcome,
        line=spec.find_program_line(stderr, program.count("\n") + 1),
        exception_type=name,
        exception_message=make_printable((error["message"] or "")[:MAX_MESSAGE_LENGTH]) if error else "",
    )
