"""The grader's process: runs test code; every use of the program is a request to the program's process.

The program sends only plain data, so no code of it ever runs here: no ``__eq__``, no patched builtin, no frame to
search. When the first test fails, or after the last test, one line with a secret of this job goes to the supervisor,
and the exit status says the same. If the program's process ended before, in any way, the tests have not passed. Around
that line stands a letter for each test: after a test that failed, the others still run, to be counted.

Before the first program, the tests are rehearsed without one (:func:`rehearse_tests`), up to their first use of a name
that a program provides. A failure there is the tests' fault for every program; later errors are the program's fault.
"""

from __future__ import annotations

import errno
import inspect
import itertools
import json
import marshal
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import CodeType
from typing import Any

from lit_rl.execution.grading.guard import install_code_guard
from lit_rl.execution.grading.names import (
    FAILED,
    HELD,
    PASSED,
    PROBED,
    rehearsal_namespace,
    require_import,
    tests_namespace,
)
from lit_rl.execution.grading.tests_side import ProgramEnded, TestsRpcLink
from lit_rl.execution.program_side.child import CHANNEL
from lit_rl.execution.program_side.interpreter import reseed_random
from lit_rl.execution.wire.channel import Channel
from lit_rl.execution.wire.errors import describe_exception, innermost_line_in
from lit_rl.execution.wire.program_messages import exception_description_or_none
from lit_rl.execution.wire.value_text import value_text

RESULT = 1  # stdout of the grader: nothing else writes there, tests print to stderr
STATUSES = {"passed": 41, "failed": 42, "raised": 43, "ended": 44, "error": 46, "faulty": 47}
"""Exit status of the grader for each kind of result; only a rehearsal ends with ``faulty``."""

HELD_TEST, FAILED_TEST, RAISED_TEST = b".", b"f", b"e"
"""Letters for tests that held, for tests that failed, and for tests in which the program raised an exception."""
_MAX_TESTS = 100_000

_SHORTAGES = (errno.EAGAIN, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC)


def grade(job: dict[str, Any]) -> int:
    """Run the tests of ``job``, send the result to the supervisor as one line of JSON, and return the exit status."""
    program = TestsRpcLink(Channel(CHANNEL), job["in_place"], job["allow_objects"])
    results = ReportingTestRunner(_reserve_stdout_for_result(), job, program)
    reseed_random(job["seed"])  # from a stream of its own, the program could tell what tests draw
    code = marshal.loads(job["code"])
    install_code_guard(code, job["texts"], lambda: program.is_used, program.mark_program_disbelieved)
    results.send_result_once(run_tests(job, code, program, results))
    return STATUSES[results.kind]


def rehearse_tests(job: dict[str, Any]) -> int:
    """Run the tests of ``job`` without a program, up to their first use of a program, which ends this process.

    If the tests fail or end before they use a program, return the exit status; the reason goes to the supervisor.
    """
    result = _reserve_stdout_for_result()
    reseed_random(job["seed"])
    code = marshal.loads(job["code"])
    progress, passes = _TestRunner(), False
    try:
        install_code_guard(code, job["texts"], lambda: False, lambda: None)
        for module, names, progress.line in job["imports"]:
            require_import(module, names)
        progress.line = None
        progress.run(job, code, rehearsal_namespace(job))
        message = "the tests neither used the program nor asserted anything of it"
    except BaseException as error:
        line = innermost_line_in(error, "<test>") or progress.line
        message = f"{_error_summary(error)}{f' in line {line} of the tests' if line else ' in the tests'}"
        passes = isinstance(error, MemoryError) or getattr(error, "errno", None) in _SHORTAGES
    result.send("\n" + json.dumps({"kind": "faulty", "message": message, "passes": passes, "secret": job["secret"]}))
    return STATUSES["faulty"]


def _reserve_stdout_for_result() -> Channel:
    """Keep standard output for the result alone; from now on, the tests print to standard error."""
    result = os.dup(RESULT)
    os.dup2(2, RESULT)
    return Channel(result)


class _TestRunner:
    """Runner of tests that tracks their position: ``line`` is the line of the running definition."""

    line: int | None = None

    def attempt(self, test: Callable[[], Any]) -> None:
        """Run a test, or a function that holds several tests."""
        test()

    def record_pass(self) -> None:
        """Go on after a test that held."""

    def record_failure(self, error: BaseException) -> None:
        """End the tests at the first failure."""
        raise error

    def run(self, job: dict[str, Any], code: CodeType, namespace: dict[str, Any]) -> None:
        """Run the definitions and asserts of the tests, then their function ``check``, test functions and classes."""
        exec(code, namespace)
        check = namespace.get("check")
        if job["entry_point"] is not None and callable(check) and not job["calls_check"]:
            self.line = job["check_line"]
            self.attempt(partial(check, namespace["candidate"]))
        for kind, name, defined_at in job["runs"]:
            self.line = defined_at
            if kind == "unittest":
                _run_unittest_case(namespace[name], self)
            elif kind == "class":
                _run_test_class(namespace[name], namespace, self)
            else:
                _run_test_function(namespace[name], namespace, self)


class ReportingTestRunner(_TestRunner):
    """Runner that sends the result as soon as it is known, and still runs the tests after a test that failed.

    ``kinds`` is what the program said about names of its own; ``evidence`` holds the numbers of asserts that held.
    """

    def __init__(self, channel: Channel, job: dict[str, Any], program: TestsRpcLink) -> None:
        self._channel, self._job, self._program = channel, job, program
        self._num_tests = self._num_noted = 0  # tests that ended, and asserts that held since the last of them
        self._is_unset = False  # whether the program raised where the tests wanted to bind a name
        self.kind = ""
        self.kinds: dict[str, Any] = {}
        self.evidence: set[int] = set()

    def callbacks_for_tests(self) -> dict[str, Callable[..., None]]:
        """Return the functions that the tests call, see ``TestList.continue_after_failures``."""
        return {
            PASSED: self._record_evidence,
            HELD: self.record_pass,
            FAILED: self.record_caught_error,
            PROBED: self._forgive_missing_name,
        }

    def attempt(self, test: Callable[[], Any]) -> None:
        before = self._num_tests
        try:
            test()
            if self._num_tests == before:
                self.record_pass()
        except BaseException:
            self.record_caught_error(is_test=True)

    def record_pass(self) -> None:
        """Count a test that held; a test that missed a name of the program has failed, whatever caught the error."""
        missed = self.missed_name_error()
        if missed is not None:
            return self.record_failure(missed)
        self._write_test_letter(HELD_TEST)

    def missed_name_error(self) -> NameError | None:
        """Return the error for a name that the tests used and the program does not define, if there is one."""
        name = self._program.missed
        return None if name is None else NameError(f"name {name!r} is not defined", name=name)

    def _forgive_missing_name(self) -> None:
        """Allow tests to try several names that a program may define."""
        if self.kinds and self._program.missed != self._job["entry_point"]:
            self._program.missed = None

    def record_caught_error(self, is_test: bool) -> None:
        """Go on after the present exception, which a test or a statement between tests has raised."""
        error = sys.exception()
        if not isinstance(error, Exception) or type(error).__name__ == "SkipTest":
            raise  # the exception is the caller's
        self.record_failure(error, is_test)

    def record_failure(self, error: BaseException, is_test: bool = True) -> None:
        self._program.missed = None
        found = {"line": self.line, **_classify_failure(error, self._program, self._job["names"], self.kinds)}
        found["number"] = self._current_assert_number
        raised = found["kind"] == "raised"
        if is_test:
            self._write_test_letter(
                RAISED_TEST if raised or (self._is_unset and isinstance(error, NameError)) else FAILED_TEST
            )
        self._is_unset = raised and not is_test
        self.send_result_once(found)

    def send_result_once(self, found: dict[str, Any]) -> None:
        if self.kind:
            return
        if self._program.ended:  # whatever the tests made of it
            found = {"kind": "ended", "error": self._program.last_error, "line": found.get("line")}
        elif self._program.is_disbelieved and found["kind"] == "passed":
            found = {"kind": "failed", "message": "AssertionError: an answer of the program is no evidence"}
        if "error" in found:
            found["error"] = exception_description_or_none(found["error"])
        self.kind = found["kind"]
        self._channel.send(
            "\n" + json.dumps({"number": self._current_assert_number, **found, "secret": self._job["secret"]})
        )

    @property
    def _current_assert_number(self) -> int:
        """Number of the assert being tried; the iterations of a loop of unknown length count as they are reached."""
        return self._num_tests + self._num_noted + 1

    def _record_evidence(self, number: int) -> None:
        self.evidence.add(number)
        self._num_noted += 1

    def _write_test_letter(self, letter: bytes) -> None:
        self._num_tests, self._num_noted = self._num_tests + 1, 0
        if self._num_tests <= _MAX_TESTS:
            os.write(self._channel.descriptor, letter)


def _run_unittest_case(case: Any, progress: _TestRunner) -> None:
    import unittest

    class Result(unittest.TestResult):
        def addSuccess(self, test: Any) -> None:
            progress.record_pass()

        def addError(self, test: Any, err: Any) -> None:
            progress.record_failure(err[1])

        addFailure = addError

        def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
            if err is not None:
                self.addError(test, err)

        def addUnexpectedSuccess(self, test: Any) -> None:
            self.addError(test, (None, AssertionError(f"{test} passed, and was expected to fail")))

    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(Result())


def _run_test_class(kind: Any, namespace: dict[str, Any], progress: _TestRunner) -> None:
    for name in [name for name in vars(kind) if name.startswith("test")]:
        instance = kind()
        getattr(instance, "setup_method", lambda *_: None)(*_setup_hook_arguments(instance, "setup_method", name))
        try:
            _run_test_function(getattr(instance, name), namespace, progress)
        finally:
            getattr(instance, "teardown_method", lambda *_: None)(
                *_setup_hook_arguments(instance, "teardown_method", name)
            )


def _setup_hook_arguments(instance: Any, hook: str, name: str) -> tuple[Any, ...]:
    function = getattr(instance, hook, None)
    return (getattr(instance, name),) if function and inspect.signature(function).parameters else ()


def _run_test_function(function: Callable[..., Any], namespace: dict[str, Any], progress: _TestRunner) -> None:
    wanted = inspect.signature(function).parameters.get("candidate")
    for given in _pytest_argument_sets(function):
        if "candidate" in namespace and wanted is not None and wanted.default is wanted.empty:
            given = {"candidate": namespace["candidate"], **given}
        progress.attempt(partial(_call_or_await, function, given))


def _call_or_await(function: Callable[..., Any], given: dict[str, Any]) -> None:
    result = function(**given)
    if inspect.iscoroutine(result):
        import asyncio

        asyncio.run(result)


def _pytest_argument_sets(function: Any) -> Iterator[dict[str, Any]]:
    """Yield the arguments for each run: one set, or the product of pytest's ``parametrize`` marks."""
    marks = [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]
    for chosen in itertools.product(*[_pytest_mark_cases(*mark.args[:2]) for mark in marks]):
        yield {name: value for case in chosen for name, value in case.items()}


def _pytest_mark_cases(names: Any, values: Iterable[Any]) -> list[dict[str, Any]]:
    split = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    return [dict(zip(split, [value] if len(split) == 1 else value, strict=True)) for value in values]


def run_tests(
    job: dict[str, Any], code: CodeType, program: TestsRpcLink, results: ReportingTestRunner
) -> dict[str, Any]:
    """Run the tests and describe the result; failures after which the tests went on are already reported."""
    try:
        results.kinds = program.request_name_kinds(frozenset((*job["names"], *job["modules"])))
        namespace = tests_namespace(job, results.kinds, program)
        namespace |= results.callbacks_for_tests()
        results.run(job, code, namespace)
        if missed := results.missed_name_error():
            raise missed
    except ProgramEnded as error:
        return {"kind": "ended", "error": program.last_error, "line": innermost_line_in(error, "<test>")}
    except BaseException as error:
        return {"line": results.line, **_classify_failure(error, program, job["names"], results.kinds)}
    if not set(job["required"]) <= results.evidence:
        return {"kind": "failed", "message": "AssertionError: an assert of the tests did not run"}
    if not results.evidence:
        return {"kind": "failed", "message": "AssertionError: no assert of the tests ran"}
    return {"kind": "passed"}


def _classify_failure(
    error: BaseException, program: TestsRpcLink, names: tuple[str, ...], kinds: dict[str, Any]
) -> dict[str, Any]:
    """Describe what ended the tests: the program's exception, a failed assert, or an error that a value caused."""
    line = innermost_line_in(error, "<test>")
    found: dict[str, Any] = {"message": _error_summary(error)} | ({} if line is None else {"line": line})
    for cause in _exception_chain(error):
        known = next((description for raised, description in program.errors if raised is cause), None)
        if known is not None:
            return {**found, "kind": "raised", "message": "", "error": known}
    if isinstance(error, AssertionError):
        return {**found, "kind": "failed", "actual": value_text(program.last_result)}
    if isinstance(error, NameError) and error.name in names and error.name not in kinds:
        # A name that the tests use and do not define is the program's to define.
        message = f"NameError: the tests use {error.name}, which neither they nor the program define"
        return {**found, "kind": "raised", "message": message, "error": {"types": ["NameError"]}}
    return {**found, "kind": "error"}


def _error_summary(error: BaseException) -> str:
    return f"{type(error).__name__}: {describe_exception(error)['message']}"[:500]


def _exception_chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, its contexts and causes, and the exceptions that a group holds."""
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
