"""Test functions and test classes, run as pytest and unittest run them."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any


def run_test(kind: str, name: str, namespace: dict[str, Any]) -> None:
    """Run what the tests define but do not call.

    Args:
        kind: ``unittest`` or ``class`` for a class, ``function`` for a function.
        name: its name.
        namespace: the tests' globals.

    Raises:
        TypeError: for a function that needs more than pytest's ``parametrize`` gives.
        BaseException: the exception of the first test that fails.
    """
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
