"""The grader's process: runs test code; every use of the program is a request to the program's process.

The program sends plain data only, so nothing of it ever runs here: no ``__eq__``, no patched builtin, no
frame to search. A line ``["passed"]`` reaches the supervisor only after the last test ran; if the program's
process ended before, in any way, the tests have not passed.
"""

from __future__ import annotations

import contextlib
import json
import marshal
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from lit_rl.execution.program_side import child
from lit_rl.execution.wire import plain
from lit_rl.execution.wire.channel import Channel, ChannelClosed

PASSED = "__lit_rl_passed__"  # the tests call it after every assert that held
RESULT = 1  # stdout of the grader: nobody else writes there, tests print to stderr


class ProgramEnded(BaseException):
    """The program's process is gone. Not an ``Exception``: no test can catch it by accident."""


class Program:
    """Requests to the program's process."""

    def __init__(self, channel: Channel, in_place: bool, allow_objects: bool) -> None:
        self._channel = channel
        self._in_place = in_place
        self._allow_objects = allow_objects
        self.ended = False
        self.errors: list[BaseException] = []
        self.last_error: dict[str, Any] | None = None

    def hello(self, wanted: frozenset[str]) -> dict[str, Any]:
        """What the wanted names are in the program, once it ran; ``ProgramEnded`` if it did not."""
        with contextlib.suppress(ChannelClosed):
            self._channel.send(json.dumps(sorted(wanted)))
        kind, content = self._receive()
        if kind != "names" or not isinstance(content, dict):
            self.last_error = content
            self.ended = True
            raise ProgramEnded
        return content

    def request(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One request and its answer: a value, or the program's exception, raised here."""
        trees = plain.to_tree(args, self._hold), plain.to_tree(kwargs, self._hold)
        try:
            self._channel.send(json.dumps([kind, target, *trees], separators=(",", ":")))
        except ChannelClosed:
            self.ended = True
            raise ProgramEnded from None
        answer = self._receive()
        try:
            if answer[0] == "value":
                result = plain.from_tree(answer[1], self._revive)
                if self._in_place:
                    for mine, theirs in zip(args, plain.from_tree(answer[2], self._revive), strict=True):
                        _copy_back(mine, theirs)
                return result
            if answer[0] != "error":
                raise plain.NotPlain
            error = child.exception_from(answer[1])
        except plain.NotPlain:
            raise
        except (ValueError, TypeError, KeyError, IndexError, RecursionError, OverflowError) as fault:
            raise plain.NotPlain(f"{type(fault).__name__} in an answer of the program") from None
        self.last_error = answer[1]
        self.errors.append(error)
        raise error

    def function(self, name: str) -> Callable[..., Any]:
        """A stand-in for one of the program's functions or classes."""

        def call(*args: Any, **kwargs: Any) -> Any:
            return self.request("call", name, args, kwargs)

        call.__name__ = call.__qualname__ = name
        return call

    def _receive(self) -> list[Any]:
        if self.ended:
            raise ProgramEnded
        try:
            answer = json.loads(self._channel.receive())
            if isinstance(answer, list) and answer and answer[0] in ("names", "value", "error"):
                return answer
            self.last_error = answer[1] if isinstance(answer, list) and len(answer) > 1 else None
        except (ChannelClosed, ValueError, RecursionError):
            pass
        self.ended = True
        raise ProgramEnded

    def _hold(self, value: Any) -> list[Any]:
        if isinstance(value, RemoteObject):
            return ["o", value.__dict__["_number"]]
        raise TypeError(f"a {type(value).__name__} of the tests cannot be given to the program: no plain data")

    def _revive(self, tree: list[Any]) -> Any:
        if type(tree[1]) is not int or not isinstance(tree[2], str):
            raise plain.NotPlain("an object without a number")
        return (TrustedObject if self._allow_objects else RemoteObject)(self, tree[1], tree[2])


class RemoteObject:
    """A handle of an object that lives in the program's process.

    Attributes, methods, items and length are asked for there and come back as plain data, or as further
    handles. Comparison is not: a handle is equal to itself alone, whatever its class says.
    """

    def __init__(self, program: Program, number: int, type_name: str) -> None:
        self.__dict__.update(_program=program, _number=number, _type_name=type_name)

    def _do(self, kind: str, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_program"].request(kind, self.__dict__["_number"], args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return self._do("getattr", name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._do("setattr", name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the object, in the program's process."""
        return self._do("invoke", *args, **kwargs)

    def __len__(self) -> int:
        return int(self._do("len"))

    def __iter__(self) -> Any:
        return iter(self._do("iter"))

    def __getitem__(self, key: Any) -> Any:
        return self._do("item", key)

    def __str__(self) -> str:
        return str(self._do("text"))

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<{self.__dict__['_type_name']} of the program>"


class TrustedObject(RemoteObject):
    """A handle that also compares as the program's class says (``allow_objects``)."""

    def __eq__(self, other: object) -> bool:
        return self._do("equal", other) is True

    def __lt__(self, other: object) -> bool:
        return self._do("less", other) is True

    def __hash__(self) -> int:
        return int(self._do("hash"))

    def __bool__(self) -> bool:
        return self._do("true") is True


def _copy_back(mine: Any, theirs: Any) -> None:
    """Give a list, dict or set of the test the content that the program left in its copy."""
    if type(mine) is not type(theirs):
        return
    if isinstance(mine, list):
        mine[:] = theirs
    elif isinstance(mine, dict | set):
        mine.clear()
        mine.update(theirs)


def grade(job: dict[str, Any], channel: Channel) -> int:
    """Run the tests of ``job``; the verdict goes to the supervisor as one line of JSON."""
    result = os.dup(RESULT)
    os.dup2(2, RESULT)
    program = Program(channel, job["in_place"], job["allow_objects"])
    num_passed = [0]
    verdict = _run_tests(job, program, num_passed)
    if program.ended:  # whatever the tests made of it
        verdict = ["ended", None, program.last_error]
    os.write(result, json.dumps([*verdict, num_passed[0]]).encode())
    return 0


def _run_tests(job: dict[str, Any], program: Program, num_passed: list[int]) -> list[Any]:
    def passed() -> None:
        num_passed[0] += 1

    try:
        namespace = _namespace(frozenset(job["names"]), job["entry_point"], program)
        namespace[PASSED] = passed
        exec(marshal.loads(job["code"]), namespace)
        check = namespace.get("check")
        if job["entry_point"] is not None and callable(check) and not job["calls_check"]:
            check(namespace["candidate"])
    except ProgramEnded:
        return ["ended", None, program.last_error]
    except BaseException as error:
        if any(error is raised for raised in program.errors):
            return ["raised", None, program.last_error]
        return ["failed", f"{type(error).__name__}: {error}"[:500], None]
    return ["passed", None, None]


def _namespace(wanted: frozenset[str], entry_point: str | None, program: Program) -> dict[str, Any]:
    """Names of the program that the tests use, each as a stand-in."""
    kinds = program.hello(wanted)
    namespace: dict[str, Any] = {"__name__": "tests"}
    for name in wanted & kinds.keys():
        kind = kinds[name]
        if kind[0] == "function":
            namespace[name] = program.function(name)
        elif kind[0] == "value":
            namespace[name] = plain.from_tree(kind[1], program._revive)
    # ``math`` and the like, which tests use because the program imports them: ours, never the program's.
    for name in wanted & sys.stdlib_module_names:
        if kinds.get(name, ["module"])[0] == "module":
            namespace[name] = import_module(name)
    if entry_point is not None:
        namespace[entry_point] = namespace["candidate"] = program.function(entry_point)
    return namespace
