"""The tests' end of the connection: which answers to trust, and what the program may do to the tests' objects."""

from __future__ import annotations

import contextlib
import select
import threading
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, NoReturn

from lit_rl.execution.wire import object_table
from lit_rl.execution.wire.channel import Channel, ChannelClosed
from lit_rl.execution.wire.link import BadMessage, RpcLink, encode
from lit_rl.execution.wire.object_table import ARITHMETIC, OPERATIONS, ORDER, operate_on
from lit_rl.execution.wire.proxies import Proxy

_PLAIN_OPERATIONS = frozenset(("getattr", "setattr", "delattr", "dir", "copy", "deepcopy", "method", "await"))
_ENDING_MILLISECONDS = 3000
_CALLABLE_ONLY = (FunctionType, BuiltinFunctionType, MethodType)
_UNTRUSTED = "an object of the program was given a value of the tests, so its operators and attributes prove nothing"
# Operations that an object answers by its own code, which tests may call with any values.
_TRUSTED = frozenset(
    ("__call__", "call", "method", "method of", "await", "derive", "copy", "deepcopy", "__getitem__", "__setitem__")
)
_NUMBERS = "abs neg pos invert bool int float complex index round trunc floor ceil"
_NUMERIC = ARITHMETIC | {f"__{name}__" for name in _NUMBERS.split()}
# Operators by which an object sees a value that the tests bring.
_BRINGING = ARITHMETIC | {f"__{name}__" for name in ("getitem", "setitem", "delitem", "round", "format")}
_DESCRIPTORS = (property, classmethod, staticmethod)
_SUBTRACTING = ("__sub__", "__rsub__")
_WITHOUT_ORDER = OPERATIONS - ORDER
_NAMED = ("getattr", "setattr", "delattr", "method")
# Builtin functions that act on any object they are given: the program can use its own process's.
_FOR_TESTS_ONLY = (eval, exec, compile, __import__, open, getattr, setattr, delattr, vars, globals, locals, input)
_OF_MOCKS = ("attach_mock", "configure_mock", "mock_add_spec", "reset_mock")


class ProgramEnded(BaseException):
    """The program's process is gone. Not an ``Exception``: no test can catch it by accident."""


class TestsRpcLink(RpcLink):
    """The tests' end of the link: sends requests to the program, and answers its requests to the tests' objects.

    Objects of the program are compared by identity, or with ``allow_objects`` as their classes decide. Their operators
    work, with one exception: once an operator has brought a plain value of the tests to an object, plain values that
    objects return from operators or attributes are no longer believed. Such an object could make
    ``abs(result - expected)`` small, or repeat what it saw, whatever was expected. Objects of classes that the tests
    name, and results of functions and methods, stay believed.

    Args:
        channel: to the program's process.
        in_place: give the tests' lists, dicts and sets the content that the program left in its copies.
        allow_objects: see :class:`lit_rl.execution.checks.AssertTests`.

    Attributes:
        is_used: whether the tests have used the program.
        is_disbelieved: whether something that the tests looked at is no evidence, so that the tests have not passed.
        missed: the last name that the tests used and the program does not define.
        last_result: result of the last request that had one.
        errors: exceptions that the program raised, each with the program's description of it.
    """

    __test__ = False

    def __init__(self, channel: Channel, in_place: bool, allow_objects: bool) -> None:
        super().__init__(channel, object_table.TESTS, OPERATIONS if allow_objects else _WITHOUT_ORDER)
        self._in_place = in_place
        self._allow_objects = allow_objects
        self._lock = threading.RLock()
        self._knows_tests = False  # whether an object saw a value of the tests through an operator
        self._untrusted: set[int] = set()  # objects that an operator made from such a value
        self.named: set[type] = set()
        self.ended = False
        self.is_used = self.is_disbelieved = False
        self.missed: str | None = None
        self.last_result: Any = None
        self.errors: list[tuple[BaseException, Any]] = []

    def request_name_kinds(self, wanted: frozenset[str]) -> dict[str, Any]:
        with contextlib.suppress(ChannelClosed):  # the program may have said why
            self.channel.send(encode(sorted(wanted)))
        message: list[Any] = []
        with contextlib.suppress(ChannelClosed, BadMessage):
            message = self.receive()
        if message[:1] == ["names"] and isinstance(message[1], dict):
            return message[1]
        self.end_tests(message)

    # --- requests ----------------------------------------------------------------------------------------

    def request(
        self, operation: str, target: int | str, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Send one request; return the value in the answer, or raise the program's exception here."""
        if self.ended:
            raise ProgramEnded
        with self._lock:
            self.is_used = True
            try:
                result = super().request(operation, target, args, kwargs or {})
            except (ChannelClosed, BadMessage):
                self.end_tests([])
        if self._knows_tests and isinstance(target, int):
            self._refuse_doubtful_answer(target, operation, result)
        self.last_result = result
        return result

    def mark_program_disbelieved(self) -> None:
        self.is_disbelieved = True

    def receive(self) -> list[Any]:
        message = super().receive()
        if message[0] == "end":
            self.end_tests(message)
        return message

    def decode_response(self, message: list[Any], args: tuple[Any, ...]) -> Any:
        value = super().decode_response(message, args)
        if self._in_place and len(message) == 4:
            for mine, theirs in zip(args, message[2], strict=True):
                _copy_back_mutations(mine, self.decode_value(theirs))
        return value

    def decode_exception(self, description: Any) -> BaseException:
        error = super().decode_exception(description)
        self.last_error = description
        self.errors.append((error, description))
        return error

    def end_tests(self, message: list[Any]) -> NoReturn:
        """Mark the program as ended, with the reason if the program gave one, and end the tests."""
        if len(message) > 1 and isinstance(message[1], dict):
            self.last_error = message[1]
            # Wait for the end of its process, whose exit status is the evidence: an honest process ends immediately.
            poll = select.poll()
            poll.register(self.channel.descriptor, select.POLLIN)
            with contextlib.suppress(ChannelClosed):
                while poll.poll(_ENDING_MILLISECONDS):
                    self.channel.receive()
        self.ended = True
        raise ProgramEnded

    # --- the program's objects ---------------------------------------------------------------------------

    def make_function_standin(
        self, target: int | str, name: str, *, is_async: bool = False, doc: Any = None
    ) -> Callable[..., Any]:
        """Make a stand-in for a function of the program, given by number, or found by name at each call."""
        if not isinstance(target, str) and (type(target) is not int or target < 0 or self.held.is_own_number(target)):
            raise BadMessage("the number names no object of the program")
        operation = "call" if isinstance(target, str) else "__call__"

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return self.request(operation, target, args, kwargs)
            except NameError as error:
                if str(error) == f"the program defines no {target}":
                    self.missed = name
                raise

        async def call_async(*args: Any, **kwargs: Any) -> Any:
            return await call(*args, **kwargs)

        function = call_async if is_async else call
        function.__name__ = function.__qualname__ = name
        function.__doc__ = doc if isinstance(doc, str) else None
        if isinstance(target, int):
            self.register_standin(target, function)
        return function

    def mirror_subclass(self, kind: Any, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> None:
        """Make a class in the program's process, with the methods of a class of the tests."""
        theirs = tuple(base for base in bases if issubclass(base, Proxy))
        crossing = {key: value for key, value in members.items() if key == "__init__" or not key.startswith("__")}
        crossing = {key: value for key, value in crossing.items() if not isinstance(value, _DESCRIPTORS)}
        made = self.request("derive", "", (name, theirs, crossing))
        number = type.__getattribute__(made, "_class_number_")
        type.__setattr__(kind, "_class_number_", number)
        self.register_standin(number, kind)
        self.derived.add(kind)

    def apply_operator(self, standin: Any, operation: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Apply an operator to an object of the program; the class docstring says which answers are trusted."""
        if operation == "__contains__" and not self._is_of_named_class(standin) and not self._allow_objects:
            return any(item is args[0] or item == args[0] for item in standin)
        if operation == "__exit__":
            kind, error, _ = args
            swallowed = self.request("__exit__", standin._number_, (kind, error, None))
            # The end of a ``with`` block never swallows a failed assert.
            return bool(swallowed) and not isinstance(error, AssertionError) and isinstance(error, Exception)
        brings = operation in _BRINGING and not all(isinstance(value, Proxy) for value in args)
        if not brings or self._allow_objects or (self._is_of_named_class(standin) and operation not in _SUBTRACTING):
            return super().apply_operator(standin, operation, args, kwargs)
        self._knows_tests = True
        result = super().apply_operator(standin, operation, args, kwargs)
        if isinstance(result, Proxy):
            self._untrusted.add(result._number_)
        elif result is not NotImplemented and operation not in _TRUSTED:
            self._refuse_untrusted_answer()
        return result

    def _refuse_doubtful_answer(self, target: int, operation: str, result: Any) -> None:
        """Refuse a plain answer of an object that may know what is expected."""
        is_named = self._is_of_named_class(self._standins.get(target))
        is_doubtful = target in self._untrusted and (operation in _NUMERIC or not is_named)
        if isinstance(result, Proxy):
            self._untrusted.update([result._number_] if is_doubtful else [])
        elif result is not NotImplemented and (is_doubtful or not (is_named or operation in _TRUSTED)):
            self._refuse_untrusted_answer()

    def _refuse_untrusted_answer(self) -> NoReturn:
        self.mark_program_disbelieved()  # the tests have not passed, even if they catch the error
        raise TypeError(_UNTRUSTED)

    def _is_of_named_class(self, standin: Any) -> bool:
        return any(isinstance(standin, kind) or standin is kind for kind in self.named)

    # --- the tests' objects ------------------------------------------------------------------------------

    def perform(self, operation: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Use, for the program, an object that the tests gave it, without letting the program look inside."""
        if isinstance(target, str) or operation not in OPERATIONS | _PLAIN_OPERATIONS:
            raise BadMessage(operation)
        is_callable_only = isinstance(target, _CALLABLE_ONLY) and operation not in ("__call__", "__repr__", "__str__")
        is_hidden = operation in _NAMED and (not args or not isinstance(args[0], str) or args[0].startswith("_"))
        if is_callable_only or is_hidden:
            raise AttributeError(f"{type(target).__name__} object of the tests has no attribute {args[:1]}")
        if self._changes_behaviour(operation, target, args, kwargs):
            raise TypeError(
                f"the program may not use {operation} on a {type(target).__name__} that belongs to the tests"
            )
        return operate_on(target, operation, args, kwargs)

    def _changes_behaviour(self, operation: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether the program would change how the tests' objects behave, and not only their values."""
        changes = operation in ("setattr", "delattr")
        if isinstance(target, type):
            is_own = target.__module__ == "__main__" or self.held.was_sent(target)
            forbidden = changes or not is_own
        else:
            forbidden = changes and callable(getattr(type(target), args[0], None))
        answers = any("__" in name for name in kwargs) or (operation == "method" and args[0] in _OF_MOCKS)
        return forbidden or answers or any(target is function for function in _FOR_TESTS_ONLY)

    def is_fatal_error(self, error: BaseException) -> bool:
        return isinstance(error, ProgramEnded) or super().is_fatal_error(error)


def _copy_back_mutations(mine: Any, theirs: Any) -> None:
    """Give a list, dict or set of the test the content that the program left in its copy."""
    if type(mine) is not type(theirs):
        return
    if isinstance(mine, list):
        mine[:] = theirs
    elif isinstance(mine, dict | set):
        mine.clear()
        mine.update(theirs)
