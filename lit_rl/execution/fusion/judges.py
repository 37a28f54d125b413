"""Judges that run programs on a server by requests: counterparts of the local judges.

If a program's functions are called, a script runs the program, reads the calls from stdin, and writes plain values to
stdout: only the program and the arguments of its calls leave this machine. The server's own verdict on the script is
ignored; values are compared here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from lit_rl.errors import UsageError
from lit_rl.execution.checks import AssertTests, CallTests, Check, StdioTests
from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.execution.judging.asserts.assert_plan import Call
from lit_rl.execution.judging.calls import CallAnswers, assert_plan_of, case_calls, refuse_object
from lit_rl.execution.judging.stdio import Expected, judge_cases, same_output
from lit_rl.execution.judging.verdicts import with_error_details
from lit_rl.execution.wire import plain
from lit_rl.execution.wire.printable import make_printable
from lit_rl.execution.wire.program_messages import Description


class RemoteRun(NamedTuple):
    """One run on the server."""

    verdict: Verdict | None
    stdout: str
    stderr: str
    wall_seconds: float


Run = Callable[[str, str, str, float], RemoteRun]
"""Function that runs code on the server, given code, language, stdin and CPU seconds."""

RemoteJudge = Callable[[Run, str], Outcome]

_TAIL = 4096
_COMPILE_SECONDS = 10.0
_COMPILE_ONLY = """
import sys
try:
    compile(sys.stdin.read().removeprefix("\\ufeff"), "<program>", "exec")
except BaseException:
    sys.exit(1)
"""
# Some servers report longer output as a time-out, because the pipe fills before the server reads it.
_MAX_ANSWER_LENGTH = 100_000

# The modules that run a program and write its values; each stands before the modules that import it.
_MODULES = (
    *("wire.bounded_json", "wire.printable", "wire.library_values"),
    *("wire.plain", "wire.channel", "wire.errors"),
    "program_side.child",
)

_SHIM = """
import json, os, sys, types
for _name in ("lit_rl", "lit_rl.execution", "lit_rl.execution.wire", "lit_rl.execution.program_side"):
    sys.modules[_name] = types.ModuleType(_name)
    sys.modules[_name].__path__ = []
for _name, _source in {modules!r}:
    _module = sys.modules["lit_rl.execution." + _name] = types.ModuleType(_name)
    _package, _, _name = _name.partition(".")
    setattr(sys.modules["lit_rl.execution." + _package], _name, _module)
    exec(_source, _module.__dict__)
_out = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
_left = [{longest}]
def _say(text):
    data = (text + "\\n").encode()
    _left[0] -= len(data)
    if _left[0] < 0:
        os.write(_out, b"{{\\"types\\": [\\"OutputLimit\\"], \\"stage\\": \\"run\\"}}\\n")
        os._exit(0)
    os.write(_out, data)
_describe = _module.describe_exception
_module.describe_exception = lambda error: {{**_describe(error), "message": ""}}
_module._line = _say
_module._run_calls_job(json.loads(sys.stdin.read()))
os._exit(0)
"""


def remote_judge_of(check: Check) -> RemoteJudge:
    """Return the judge of a check, to be called with a function that runs code, and with the program."""
    if obstacle := _unsupported_reason(check):
        raise UsageError(f"{obstacle}: use the local Sandbox")
    judge = _JUDGES[type(check)](check)
    return lambda run, program: judge(run, program) if program.strip() else Outcome(Verdict.NO_PROGRAM)


def _make_stdio_judge(check: StdioTests) -> RemoteJudge:
    return lambda run, program: judge_cases(check, partial(_judge_remote_case, run, program, check))


def _judge_remote_case(run: Run, program: str, check: StdioTests, stdin: str, expected: Expected) -> Outcome:
    ran = run(program, check.language, stdin, check.timeout_seconds)
    verdict = ran.verdict
    if verdict is Verdict.SYNTAX_ERROR and check.language == "python" and not _is_no_python(run, program):
        verdict = Verdict.EXCEPTION
    if verdict is None:
        same = same_output(ran.stdout.encode("utf-8", "surrogatepass"), expected, check)
        verdict = Verdict.PASSED if same else Verdict.WRONG_ANSWER
    return Outcome(
        verdict,
        (),
        {},
        make_printable(ran.stdout[-_TAIL:]),
        make_printable(ran.stderr[-_TAIL:]),
        wall_seconds=ran.wall_seconds,
    )


def _make_calls_judge(check: CallTests) -> RemoteJudge:
    calls = case_calls(check)

    def judge(run: Run, program: str) -> Outcome:
        seconds = check.timeout_seconds * check.cpu_limit_factor
        answers, ran = _run_calls_remotely(run, program, calls, seconds, check.in_place)
        return _outcome_of_remote_calls(
            answers, answers.verdicts_of_calls(check), [(index,) for index in range(len(calls))], ran
        )

    return judge


def _make_asserts_judge(check: AssertTests) -> RemoteJudge:
    plan = assert_plan_of(check)
    assert plan is not None  # tests without a plan were refused

    def judge(run: Run, program: str) -> Outcome:
        answers, ran = _run_calls_remotely(run, program, plan.calls, check.timeout_seconds, in_place=False)
        return _outcome_of_remote_calls(
            answers, answers.verdicts_of_plan(plan), [one.calls for one in plan.assertions], ran
        )

    return judge


_JUDGES: Mapping[type[Check], Callable[[Any], RemoteJudge]] = {
    StdioTests: _make_stdio_judge,
    CallTests: _make_calls_judge,
    AssertTests: _make_asserts_judge,
}


def _unsupported_reason(check: Check) -> str:
    """Return why a server cannot judge a check; empty if it can. A server would cut off a long right answer."""
    length = 0
    if isinstance(check, StdioTests):
        if check.language not in ("python", "cpp"):
            return f"the server cannot run {check.language}"
        if check.checker is not None:
            return "a server cannot run a checker beside the program"
        accepted = ((text,) if isinstance(text, str) else text for _, text in check.cases)
        length = max(len(text.encode("utf-8", "surrogateescape")) for texts in accepted for text in texts)
    elif isinstance(check, CallTests):
        if check.language != "python":
            return f"the server cannot make calls in {check.language}"
        length = _size_of_expected_answers(expected for _, expected in check.cases)
    elif isinstance(check, AssertTests):
        for option in ("in_place", "allow_objects"):
            if getattr(check, option):
                return f"a server cannot honour AssertTests({option}=True)"
        plan = assert_plan_of(check)
        if plan is None:
            return "these tests do more than compare results of literal calls"
        length = _size_of_expected_answers(assertion.wanted_literal() for assertion in plan.assertions)
    else:
        return f"{type(check).__name__} cannot be judged by a server"
    return f"the server cannot return the expected {length} bytes of answers" if length > _MAX_ANSWER_LENGTH else ""


def _size_of_expected_answers(expected: Iterable[Any]) -> int:
    return sum(len(plain.dumps(value)) + 1 for value in expected)


def _run_calls_remotely(
    run: Run, program: str, calls: Sequence[Call], seconds: float, in_place: bool
) -> tuple[CallAnswers, RemoteRun]:
    trees = [
        (
            call.name,
            plain.to_json_tree(list(call.args), refuse_object),
            plain.to_json_tree(dict(call.kwargs), refuse_object),
        )
        for call in calls
    ]
    given = json.dumps({"source": program, "calls": trees, "in_place": in_place})
    ran = run(_calls_shim_source(), "python", given, seconds)
    content = ran.stdout[: _MAX_ANSWER_LENGTH + 1001].encode("utf-8", "surrogatepass")
    ended = ran.verdict
    if b'"OutputLimit"' in content[-100:] or len(ran.stdout) > _MAX_ANSWER_LENGTH + 1000:
        ended = Verdict.OUTPUT_LIMIT
    return CallAnswers(content, len(calls), ended, lambda error: _verdict_of_error(run, program, error)), ran


@lru_cache(maxsize=1)
def _calls_shim_source() -> str:
    folder = Path(__file__).parent.parent
    modules = [(name, folder.joinpath(*name.split(".")).with_suffix(".py").read_text("utf-8")) for name in _MODULES]
    return _SHIM.format(modules=modules, longest=_MAX_ANSWER_LENGTH)


def _verdict_of_error(run: Run, program: str, error: Description) -> Verdict:
    """Return the verdict on a program that reports an exception; a server measures nothing that confirms the report."""
    if error.get("stage") == "compile":
        return Verdict.SYNTAX_ERROR if _is_no_python(run, program) else Verdict.EXCEPTION
    return Verdict.OUT_OF_MEMORY if "MemoryError" in error["types"] else Verdict.EXCEPTION


def _is_no_python(run: Run, program: str) -> bool:
    """Return whether a source fails to compile, in a run that only compiles it."""
    return run(_COMPILE_ONLY, "python", program, _COMPILE_SECONDS).verdict is Verdict.EXCEPTION


def _outcome_of_remote_calls(
    answers: CallAnswers, cases: Sequence[Verdict], made: Sequence[Sequence[int]], ran: RemoteRun
) -> Outcome:
    verdict, error = answers.verdict_and_error(cases, made)
    return with_error_details(
        Outcome(verdict, tuple(cases), {}, "", make_printable(ran.stderr[-_TAIL:]), wall_seconds=ran.wall_seconds),
        error,
    )
