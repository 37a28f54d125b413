"""The grader's process: runs test code; every use of the program is a request to the program's process.

The program sends plain data only, so nothing of it ever runs here: no ``__eq__``, no patched builtin, no
frame to search. One line with a secret of this job reaches the supervisor after the last test ran, and the exit
status says the same; if the program's process ended before, in any way, the tests have not passed.

Before the first program, the tests are rehearsed without any (:func:`rehearse`), up to their first use of a name that
the program provides. What fails there is the tests' fault for every program; every later error is the program's.
"""

from __future__ import annotations

import errno
import inspect
import itertools
import json
import marshal
import os
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import Any

from lit_rl.execution.grading.guard import guard
from lit_rl.execution.grading.names import PASSED, namespace_of, require_import, unprovided_namespace
from lit_rl.execution.grading.tests_side import ProgramEnded, TestsSide
from lit_rl.execution.program_side.child import CHANNEL
from lit_rl.execution.program_side.interpreter import draw_anew
from lit_rl.execution.wire.channel import Channel
from lit_rl.execution.wire.errors import describe, line_in
from lit_rl.execution.wire.program_messages import bounded_description
from lit_rl.execution.wire.value_text import value_text

RESULT = 1  # stdout of the grader: nothing else writes there, tests print to stderr
STATUSES = {"passed": 41, "failed": 42, "raised": 43, "ended": 44, "error": 46, "faulty": 47}
"""Exit status of the grader for each kind of result; ``faulty`` is that of a rehearsal alone."""

_SHORTAGES = (errno.EAGAIN, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC)


def grade(job: dict[str, Any]) -> int:
    """Run the tests of ``job``; the result goes to the supervisor as one line of JSON.

    Returns:
        The exit status that belongs to the result.
    """
    result = _take_stdout()
    program = TestsSide(Channel(CHANNEL), job["in_place"], job["allow_objects"])
    counts: dict[int, int] = {}
    draw_anew(job["seed"])  # the program's own stream would tell it what the tests draw
    code = marshal.loads(job["code"])
    guard(code, job["texts"], lambda: program.is_used, program.disbelieve)
    found = result_of_tests(job, code, program, counts)
    if program.ended:  # whatever the tests made of it
        found = {"kind": "ended", "error": program.last_error, "line": found.get("line")}
    elif program.is_disbelieved and found["kind"] == "passed":
        found = {"kind": "failed", "message": "AssertionError: an answer of the program is no evidence"}
    if "error" in found:
        found["error"] = bounded_description(found["error"])
    result.send(json.dumps(found | {"num_passed": sum(counts.values()), "secret": job["secret"]}))
    return STATUSES[found["kind"]]


def rehearse(job: dict[str, Any]) -> int:
    """Run the tests of ``job`` without a program, up to their first use of one, which ends this process.

    Returns:
        The exit status of tests that fail, or end, before they use a program; why goes to the supervisor.
    """
    result = _take_stdout()
    draw_anew(job["seed"])
    code = marshal.loads(job["code"])
    progress, passes = _Progress(), False
    try:
        guard(code, job["texts"], lambda: False, lambda: None)
        for module, names, progress.line in job["imports"]:
            require_import(module, names)
        progress.line = None
        progress.run(job, code, unprovided_namespace(job))
        message = "the tests neither used the program nor asserted anything of it"
    except BaseException as error:
        line = line_in(error, "<test>") or progress.line
        message = f"{_named(error)}{f' in line {line} of the tests' if line else ' in the tests'}"
        passes = isinstance(error, MemoryError) or getattr(error, "errno", None) in _SHORTAGES
    result.send(json.dumps({"kind": "faulty", "message": message, "passes": passes, "secret": job["secret"]}))
    return STATUSES["faulty"]


def _take_stdout() -> Channel:
    """Standard output for the result alone; the tests print to standard error from now on."""
    result = os.dup(RESULT)
    os.dup2(2, RESULT)
    return Channel(result)


class _Progress:
    """Runs tests and tracks their position: ``line`` is that of the running definition."""

    line: int | None = None

    def run(self, job: dict[str, Any], code: CodeType, namespace: dict[str, Any]) -> None:
        """Run the definitions and asserts of the tests, then their function ``check``, test functions and classes.

        Raises:
            TypeError: for a function that needs more than pytest's ``parametrize`` gives.
            BaseException: the exception of the first test that fails.
        """
        exec(code, namespace)
        check = namespace.get("check")
        if job["entry_point"] is not None and callable(check) and not job["calls_check"]:
            self.line = job["check_line"]
            check(namespace["candidate"])
        for kind, name, defined_at in job["runs"]:
            self.line = defined_at
            if kind == "unittest":
                _run_case(namespace[name])
            elif kind == "class":
                _run_class(namespace[name], namespace)
            else:
                _run_function(namespace[name], name, namespace)


def _run_case(case: Any) -> None:
    import unittest

    failures: list[BaseException] = []

    class Result(unittest.TestResult):
        def addError(self, test: Any, err: Any) -> None:
            failures.append(err[1])
            self.stop()

        addFailure = addError

        def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
            if err is not None:
                self.addError(test, err)

        def addUnexpectedSuccess(self, test: Any) -> None:
            failures.append(AssertionError(f"{test} passed, and was expected to fail"))
            self.stop()

    result = Result()
    result.failfast = True
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    if failures:
        raise failures[0]


def _run_class(kind: Any, namespace: dict[str, Any]) -> None:
    for name in [name for name in vars(kind) if name.startswith("test")]:
        instance = kind()
        getattr(instance, "setup_method", lambda *_: None)(*_wanted(instance, "setup_method", name))
        try:
            _run_function(getattr(instance, name), name, namespace)
        finally:
            getattr(instance, "teardown_method", lambda *_: None)(*_wanted(instance, "teardown_method", name))


def _wanted(instance: Any, hook: str, name: str) -> tuple[Any, ...]:
    function = getattr(instance, hook, None)
    return (getattr(instance, name),) if function and inspect.signature(function).parameters else ()


def _run_function(function: Callable[..., Any], name: str, namespace: dict[str, Any]) -> None:
    for given in _parameter_sets(function):
        missing = [
            parameter.name
            for parameter in inspect.signature(function).parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            and parameter.name not in given
        ]
        if missing == ["candidate"] and "candidate" in namespace:
            given = {**given, "candidate": namespace["candidate"]}
        elif missing:
            raise TypeError(f"{name} of the tests needs {', '.join(missing)}: fixtures are not supported")
        result = function(**given)
        if inspect.iscoroutine(result):
            import asyncio

            asyncio.run(result)


def _parameter_sets(function: Any) -> Iterator[dict[str, Any]]:
    """Arguments for each run: one set, or the product of pytest's ``parametrize`` marks."""
    marks = [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]
    for chosen in itertools.product(*[_cases(*mark.args[:2]) for mark in marks]):
        yield {name: value for case in chosen for name, value in case.items()}


def _cases(names: Any, values: Iterable[Any]) -> list[dict[str, Any]]:
    split = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    return [dict(zip(split, [value] if len(split) == 1 else value, strict=True)) for value in values]


def result_of_tests(job: dict[str, Any], code: CodeType, program: TestsSide, counts: dict[int, int]) -> dict[str, Any]:
    """Run the tests and describe the result. Fills ``counts`` with how often each assert held, by its number."""

    def passed(number: int) -> None:
        counts[number] = counts.get(number, 0) + 1

    kinds: dict[str, Any] = {}
    progress = _Progress()
    try:
        kinds = program.hello(frozenset((*job["names"], *job["modules"])))
        namespace = namespace_of(job, kinds, program)
        progress.run(job, code, namespace | {PASSED: passed})
    except ProgramEnded as error:
        return {"kind": "ended", "error": program.last_error, "line": line_in(error, "<test>")}
    except BaseException as error:
        return {"line": progress.line, **_of_error(error, program, job["names"], kinds)}
    if not set(job["required"]) <= counts.keys():
        return {"kind": "failed", "message": "AssertionError: an assert of the tests did not run"}
    if not counts:
        return {"kind": "failed", "message": "AssertionError: no assert of the tests ran"}
    return {"kind": "passed"}


def _of_error(
    error: BaseException, program: TestsSide, names: tuple[str, ...], kinds: dict[str, Any]
) -> dict[str, Any]:
    """Describe what ended the tests: the program's exception, a failed assert, or an error that a value caused.

    Args:
        error: the exception.
        program: the connection.
        names: names that mean the program's.
        kinds: what the program said about them.
    """
    line = line_in(error, "<test>")
    found: dict[str, Any] = {"message": _named(error)} | ({} if line is None else {"line": line})
    for cause in _behind(error):
        told = next((description for raised, description in program.errors if raised is cause), None)
        if told is not None:
            return {**found, "kind": "raised", "message": "", "error": told}
    if isinstance(error, AssertionError):
        return {**found, "kind": "failed", "actual": value_text(program.last_result)}
    if isinstance(error, NameError) and error.name in names and error.name not in kinds:
        # A name that the tests use and do not define is the program's to define.
        message = f"NameError: the tests use {error.name}, which neither they nor the program define"
        return {**found, "kind": "raised", "message": message, "error": {"types": ["NameError"]}}
    return {**found, "kind": "error"}


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {describe(error)['message']}"[:500]


def _behind(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, those that it was raised for, and those that a group holds."""
    seen: list[BaseException] = []
    waiting = [error]
    while waiting:
        error = waiting.pop()
        if error is None or any(error is other for other in seen):
            continue
        seen.append(error)
        yield error
        waiting += [error.__context__, error.__cause__]
        waiting += error.exceptions[::-1] if isinstance(error, BaseExceptionGroup) else ()
