"""Call tests in every language: for all but Python, a driver in the program's process makes the calls.

Arguments go in and values come out as JSON, a line per call; the supervisor compares. A program can write any line in
the driver's place, but it cannot know the expected values, which never leave the supervisor.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lit_rl.execution.checks import CallTests
from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.execution.judging.calls import CallAnswers, case_calls, failed_call, judge_python_calls
from lit_rl.execution.judging.compiling import Files, require_toolchain
from lit_rl.execution.judging.runtimes import (
    blank_comments_and_strings,
    build_failure_outcome,
    build_program,
    driver_source,
    embed_rust_program,
    outcome_of_exit,
    rename_go_main,
    run_built_program,
    source_for_compiler,
    verdict_of_exit,
)
from lit_rl.execution.judging.supervising.child_files import read_whole
from lit_rl.execution.judging.supervising.jobs import ZygoteClient
from lit_rl.execution.judging.verdicts import with_error_details
from lit_rl.execution.languages import LANGUAGES, Language
from lit_rl.execution.wire.bounded_json import NOT_CARRIED, NotPlain, parse_bounded_json
from lit_rl.execution.wire.program_messages import Description

_DRIVERS: dict[Language, str] = {
    **{"javascript": "calls.js", "go": "calls.go", "java": "Calls.java"},
    **{"rust": "calls.rs", "cpp": "calls.cpp", "c": "calls.cpp"},
}
_INCLUDED: tuple[Language, ...] = ("cpp", "rust")  # the program becomes a part of its driver's file
_SOLUTION = re.compile(r"\b(?:class|struct|impl)\s+Solution\b")
_C_NUMBER = r"(?:(?:const|unsigned|signed|long|short|int|double|float|bool|_Bool|void|size_t|u?int\d+_t)\b[ \t]*)+"
_C_TYPE = rf"(?:{_C_NUMBER}|(?:(?:const|unsigned|signed)[ \t]+)*char\b[ \t]*(?:const\b[ \t]*)?(?:\*[ \t]*)?)"
_GO_GENERIC = r"\s*\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()]*(?:\([^()]*\)[^()]*)*)\)"
_JAVA_CLASS = re.compile(r"\b(?:class|interface|record|enum)\s+(\w+)")


def judge_calls(client: ZygoteClient, program: str, check: CallTests) -> Outcome:
    """Make one call per case, in order, in a driver's process (for Python see ``calls``); compare the values here."""
    if check.language == "python":
        return judge_python_calls(client, program, check)
    if not program.strip():
        return Outcome(Verdict.NO_PROGRAM)
    language, spec = check.language, LANGUAGES[check.language]
    client.on_report()  # from here on, this process reads the program
    source = source_for_compiler(program, language)
    if language == "c":
        require_toolchain("cpp")  # C's driver is in C++
        if not _c_pointer_declaration(source, check):
            message = f"the program declares no {check.entry_point} whose types are only numbers, bool, char and char *"
            return Outcome(Verdict.SYNTAX_ERROR, stderr=message)
    built = build_program(client, _program_and_driver_files(source, check), language, beside=language == "c")
    if built.verdict is not None:
        return build_failure_outcome(built)
    # Drivers that parse JSON themselves get no escaped letters.
    lines = [json.dumps(args, ensure_ascii=language not in (*_INCLUDED, "c")) for args, _ in check.cases]
    with run_built_program(
        client,
        language,
        built.binary,
        check.timeout_seconds,
        "\n".join([_driver_header_line(source, check), *lines]).encode(),
        check.cpu_limit_factor,
        answers=True,
        command=spec.calls,
        driver=driver_source(_DRIVERS[language]),
    ) as run:
        _, child, report = run
        ended = verdict_of_exit(client, language, built.binary, run)
        answers = CallAnswers(read_whole(child.answers), len(check.cases), ended, _verdict_of_error, _parse_answer)
        wanted = replace(check, cases=tuple((args, json.loads(json.dumps(expected))) for args, expected in check.cases))
        cases = answers.verdicts_of_calls(wanted)
        verdict, error = answers.verdict_and_error(cases, [(index,) for index in range(len(cases))])
        outcome = outcome_of_exit(verdict, language, source, child, report, cases)
        if outcome.passed:
            return outcome
        if error is not None and error["types"]:
            outcome = with_error_details(outcome, error)
        elif verdict is Verdict.EXCEPTION and error is None and outcome.exception_type is None:
            outcome = replace(outcome, exception_type="SystemExit")  # it ended without a message
        return replace(outcome, failed_case=failed_call(answers, cases, case_calls(check), check))


def _program_and_driver_files(source: str, check: CallTests) -> Files:
    """Return the program, and its driver if the driver is compiled with it; the root comes first."""
    file, language = LANGUAGES[check.language].file, check.language
    if language == "go":
        instance = check.entry_point + _go_type_arguments(source, check)
        return {file: rename_go_main(source), "calls.go": driver_source(_DRIVERS["go"]).replace("ENTRY", instance)}
    if language == "c":
        driver = driver_source(_DRIVERS["c"]).replace("ENTRY", "lit_rl_entry")
        pointer = f"\n__typeof__(&{check.entry_point}) lit_rl_entry = &{check.entry_point};"
        declared = driver.replace('#include "program.cpp"', _c_pointer_declaration(source, check))
        return {"run.cpp": declared, file: source + pointer}
    if language in _INCLUDED:
        named = driver_source(_DRIVERS[language]).replace("ENTRY", _qualified_function_name(source, check.entry_point))
        return {_DRIVERS[language]: named, file: embed_rust_program(source) if language == "rust" else source}
    return {file: source, "LitRlCalls.java": driver_source(_DRIVERS["java"])} if language == "java" else {file: source}


def _c_pointer_declaration(source: str, check: CallTests) -> str:
    """Return the declaration of a pointer to a C function, for the driver; empty if it cannot carry the types."""
    # A type may end with blanks, and so may what follows.
    code = re.sub(r"[ \t]+", " ", blank_comments_and_strings(source))
    found = re.search(rf"^(?:static |inline )*({_C_TYPE})\s*{check.entry_point}\s*\(([^(){{}};]*)\)\s*\{{", code, re.M)
    parameters = [" ".join(one.split()) for one in found[2].split(",")] if found and found[2].strip() else []
    if not found or not all(re.fullmatch(rf"{_C_TYPE}\w*", one) for one in parameters):
        return ""
    return f'#define _Bool bool\nextern "C" {found[1]} (*lit_rl_entry)({", ".join(parameters)});'


def _qualified_function_name(source: str, entry_point: str) -> str:
    """Return the function's name in C++ and Rust: in ``Solution``, if that exists and none is outside it."""
    code, depth, is_outside = blank_comments_and_strings(source), 0, "." in entry_point
    for found in re.finditer(rf"[{{}}]|(?<![\w.:>]){entry_point}\s*[(<]", code):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        is_outside |= depth == 0 and found[0] not in "{}"
    return entry_point.replace(".", "::") if is_outside or not _SOLUTION.search(code) else f"Solution::{entry_point}"


def _go_type_arguments(source: str, check: CallTests) -> str:
    """Return the types, in brackets, with which a generic Go function is called: those of its arguments in JSON."""
    found = re.search(rf"\bfunc {check.entry_point}{_GO_GENERIC}", source)
    if not found:
        return ""
    bound: dict[str, list[Any]] = {part.split()[0]: [] for part in found[1].split(",") if part.strip()}

    def bind(kind: str, values: list[Any]) -> None:
        if kind in bound:
            bound[kind] += values
        elif values and kind.startswith("[]"):
            bind(kind[2:], [item for value in values if isinstance(value, list | tuple) for item in value])
        elif values and kind.startswith("map["):
            key, _, inside = kind[4:].partition("]")
            maps = [value for value in values if isinstance(value, dict)]
            bind(key, [str(name) for one in maps for name in one])
            bind(inside, [item for one in maps for item in one.values()])

    kind = ""
    for index, part in reversed([*enumerate(found[2].split(","))]):
        kind = part.strip().partition(" ")[2].strip() or kind  # one type for several names
        if kind.startswith("..."):
            bind(kind[3:], [value for args, _ in check.cases for value in args[index:]])
        else:
            bind(kind, [args[index] for args, _ in check.cases if index < len(args)])
    usable = [name for name in bound if bound[name] or "~" not in found[1]]  # others follow from a constraint
    return f"[{', '.join(_go_type_of_values(bound[name]) for name in usable)}]"


def _go_type_of_values(values: list[Any]) -> str:
    kinds = set(map(type, values))
    if kinds and kinds <= {list, tuple}:
        return "[]" + _go_type_of_values([item for value in values for item in value])
    if kinds == {dict}:
        return "map[string]" + _go_type_of_values([item for value in values for item in value.values()])
    names: dict[str, set[type]] = {"int": {int}, "float64": {int, float}, "string": {str}, "bool": {bool}}
    return next((name for name, held in names.items() if kinds <= held), "any")


def _driver_header_line(source: str, check: CallTests) -> str:
    """Return a driver's first line: the function, 1 if its changed first argument is the answer, and Java's classes."""
    classes: Sequence[str] = _JAVA_CLASS.findall(source) if check.language == "java" else ()
    return " ".join([check.entry_point, str(int(check.in_place)), *dict.fromkeys(classes)])


def _parse_answer(line: bytes) -> Any:
    match parse_bounded_json(line):
        case [value]:
            return value
    raise NotPlain("no value of a call")


def _verdict_of_error(error: Description) -> Verdict:
    return Verdict.WRONG_ANSWER if NOT_CARRIED in error["types"] else Verdict.EXCEPTION
