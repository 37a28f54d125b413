"""Requests in both directions between the program's process and the one that runs its tests.

Each end has the same parts: objects of its own that the other end knows only by number; stand-ins for the other end's
objects; and a loop that answers the other end's requests while it waits for the answer to its own. So a function of the
tests that the program was given runs in the tests' process, called from the middle of a call.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import Any

from lit_rl.execution.wire import plain
from lit_rl.execution.wire.bounded_json import NotCarried, checked_json_text, describe_not_carried, parse_bounded_json
from lit_rl.execution.wire.channel import Channel, ChannelClosed
from lit_rl.execution.wire.errors import describe_exception, plain_exception_attributes, set_exception_attributes
from lit_rl.execution.wire.object_table import OPERATIONS, ObjectTable, ReplacedStopIteration, is_control_flow_exception
from lit_rl.execution.wire.proxies import local_exception_class, new_proxy, new_proxy_class

_NEVER_CROSS = (ModuleType, FrameType, CodeType, TracebackType)
_NO_OPTIONS: Mapping[str, Any] = {}
_ONE_BY_ONE, _MAX_AT_ONCE = 32, 256
_MAX_TEXT_LENGTH = 4096
_MAX_CAUSES = 4

encode: Callable[[Any], str] = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class BadMessage(Exception):
    """The other end wrote a message that no honest one would."""


class CannotBeSent(TypeError, AttributeError):
    """A value is neither plain data nor an object for which a stand-in could be made."""


class RpcLink(ABC):
    """One end of the connection."""

    def __init__(self, channel: Channel, side: int, operations: frozenset[str] = OPERATIONS) -> None:
        self.channel = channel
        self.held = ObjectTable(side)
        self._operations = operations
        self.derived: set[type] = set()  # classes of this side that extend a class of the other side
        self._entries: dict[int, list[Any]] = {}
        self._standins: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}  # by ``id`` of the stand-in, which ``_standins`` keeps alive
        self._ahead: dict[int, tuple[int, list[Any]]] = {}
        self._late: dict[int, BaseException] = {}
        self.last_error: dict[str, Any] | None = None

    @abstractmethod
    def perform(self, operation: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Perform a request of the other side."""

    def is_fatal_error(self, error: BaseException) -> bool:
        """Return whether an exception ends this side's loop instead of being an answer."""
        return isinstance(error, ChannelClosed | BadMessage)

    def mirror_subclass(self, kind: Any, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> None:
        """Tell the other side of a class of this side that extends a class of the other side."""
        raise TypeError(f"{name} cannot extend a class of another process")

    def apply_operator(self, standin: Any, operation: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Apply an operator or builtin function to a stand-in."""
        if operation == "__next__":
            return self._next_item_of_standin(standin)
        return self.request(operation, standin._number_, args, kwargs)

    # --- sending -----------------------------------------------------------------------------------------

    def send(self, message: list[Any]) -> None:
        """Send one message, with what the other side must know about the objects in it."""
        self.channel.send(checked_json_text(encode([*message, self.held.take_descriptions()])))

    def request(
        self, operation: str, target: int | str, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] = _NO_OPTIONS
    ) -> Any:
        """Request an operation from the other side; return its value or raise its exception."""
        options = {name: self.encode_value(value) for name, value in kwargs.items()}
        self.send(["do", operation, target, [self.encode_value(value) for value in args], options])
        while True:
            message = self.receive()
            if message[0] != "do":
                return self.decode_response(message, args)
            self.answer_request(message)

    def encode_value(self, value: Any) -> Any:
        """Return a value in its form between processes. Iterators stay here: their items may be endless."""
        if isinstance(value, Iterator):
            return self.to_ref(value)
        return plain.to_json_tree(value, self.to_ref)

    def to_ref(self, value: Any) -> list[Any]:
        """Return a reference, by number, to an object of either side."""
        if isinstance(value, _NEVER_CROSS):
            raise CannotBeSent(f"a {type(value).__name__} cannot be given to another process")
        theirs = self._numbers.get(id(value))
        return self.held.to_ref(value) if theirs is None else ["o", theirs, "object"]

    # --- receiving ---------------------------------------------------------------------------------------

    def receive(self) -> list[Any]:
        line = self.channel.receive()
        with self._errors_as_bad_message():
            message: list[Any] = parse_bounded_json(line)
            for entry in message[-1]:
                self._entries[entry[1]] = entry
            return message

    @contextmanager
    def _errors_as_bad_message(self) -> Iterator[None]:
        """Read what the other side wrote; a failure means that no honest end wrote it, or that it cannot be carried."""
        try:
            yield
        except (ChannelClosed, BadMessage):
            raise
        except Exception as error:
            if isinstance(error, NotCarried):
                self.last_error = describe_not_carried(error)
            raise BadMessage(f"{type(error).__name__} in a message: {error}") from None

    def decode_value(self, tree: Any) -> Any:
        with self._errors_as_bad_message():
            return plain.from_json_tree(tree, self.from_ref)

    def decode_response(self, message: list[Any], args: tuple[Any, ...]) -> Any:
        """Return the value in an answer, or raise the exception if the answer holds one."""
        if message[0] == "value":
            return self.decode_value(message[1])
        if message[0] == "not implemented":
            return NotImplemented
        if message[0] != "error":
            raise BadMessage(message[0])
        raise self.decode_exception(message[1])

    def answer_request(self, message: list[Any]) -> None:
        """Perform the request of a message, and send the result."""
        try:
            self.send(self._make_response(message))
        except CannotBeSent as error:
            self.send(["error", self.describe_error(error)])

    def _make_response(self, message: list[Any]) -> list[Any]:
        with self._errors_as_bad_message():
            _, operation, target, args, options, _ = message
            values = tuple([self.decode_value(tree) for tree in args])
            kwargs = {name: self.decode_value(tree) for name, tree in options.items()}
            found: Any = target if isinstance(target, str) else self.held.object_of(target)
        try:
            if operation == "next":
                return ["value", ["l", *self._take_encoded_items(found, *values)]]
            result = self.perform(operation, found, values, kwargs)
            return ["not implemented"] if result is NotImplemented else self.make_value_response(result, values)
        except BaseException as error:
            if self.is_fatal_error(error):
                raise
            return ["error", self.describe_error(error)]

    def make_value_response(self, result: Any, values: tuple[Any, ...]) -> list[Any]:
        return ["value", self.encode_value(result)]

    def _take_encoded_items(self, iterator: Iterator[Any], wanted: int) -> list[Any]:
        """Return the next items, each encoded when it is made; an exception waits until those before it are taken."""
        if error := self._late.pop(id(iterator), None):
            raise error
        trees: list[Any] = []
        # One at a time from an iterator of the program's own class, which may be looked at between two items.
        for _ in range(min(wanted, _MAX_AT_ONCE) if type(iterator).__module__ in ("builtins", "itertools") else 1):
            try:
                trees.append(self.encode_value(next(iterator)))
            except StopIteration:
                break
            except BaseException as error:
                if not trees or self.is_fatal_error(error):
                    raise
                self._late[id(iterator)] = error
                break
        return trees

    # --- stand-ins ---------------------------------------------------------------------------------------

    def from_ref(self, tree: list[Any]) -> Any:
        """Return the object with the number in a tree: our object, or a stand-in for the other side's object."""
        number = tree[1]
        return self.held.object_of(number) if self.held.is_own_number(number) else self.standin(number)

    def standin(self, number: int) -> Any:
        """Return the stand-in for an object of the other side, which is always the same stand-in."""
        found = self._standins.get(number)
        if found is None:
            entry = self._entries[number]
            found = (
                self._make_class_standin(*entry[1:]) if entry[0] == "class" else self._make_object_standin(*entry[1:])
            )
            self.register_standin(number, found)
        return found

    def register_standin(self, number: int, standin: Any) -> None:
        """Register the stand-in for the other side's object with this number."""
        self._standins[number] = standin
        if not (isinstance(standin, type) and issubclass(standin, BaseException) and "_text_" not in vars(standin)):
            self._numbers[id(standin)] = number  # an exception class of the standard library is both sides' own

    def _make_object_standin(self, number: int, class_number: int) -> Any:
        if self.held.is_own_number(class_number):
            raise BadMessage("an object of one side, of a class of the other")
        kind = self.from_ref(["o", class_number])
        if not issubclass(kind, BaseException):
            return new_proxy(kind, self, number)
        error = kind.__new__(kind)
        if "_text_" in vars(kind):
            error.__dict__["_origin_"] = (self, number)
        error.args = tuple(self.request("getattr", number, ("args",)))
        return error

    def _make_class_standin(
        self, number: int, name: str, bases: list[int], operations: list[str], methods: list[str], known: str
    ) -> type:
        parents = tuple(self.from_ref(["o", base]) for base in bases)
        if known != "-":
            return local_exception_class(self, str(name), parents, str(known))
        allowed = [operation for operation in operations if operation in self._operations]
        return new_proxy_class(self, number, str(name), parents, allowed, [str(method) for method in methods])

    def _next_item_of_standin(self, standin: Any) -> Any:
        """Return the next item of an iterator; after the first few items, one request fetches several."""
        taken, waiting = self._ahead.pop(standin._number_, (0, []))
        if not waiting:
            wanted = 1 if taken < _ONE_BY_ONE else min(taken - _ONE_BY_ONE + 2, _MAX_AT_ONCE)
            waiting = self.request("next", standin._number_, (wanted,))[::-1]
        if not waiting:
            raise StopIteration
        item = waiting.pop()
        self._ahead[standin._number_] = (taken + 1, waiting)
        return item

    # --- exceptions --------------------------------------------------------------------------------------

    def describe_error(self, error: BaseException, depth: int = 0) -> dict[str, Any]:
        """Return an exception in its form between processes: its number, its class and its arguments."""
        description = describe_exception(error)
        try:
            text = str(error)[:_MAX_TEXT_LENGTH]
            tree = plain.to_json_tree(tuple(error.args), self.to_ref)
            known = plain_exception_attributes(error)
        except BaseException:
            text, tree, known = description["message"], ["t"], {}
        description.update(args=tree, text=text)
        if known:
            description["attributes"] = self.encode_value(known)
        description["number"], description["class"] = self.to_ref(error)[1], self.to_ref(type(error))[1]
        cause = error.__cause__
        if cause is not None and depth < _MAX_CAUSES:
            description["cause"] = self.describe_error(cause, depth + 1)
        return description

    def decode_exception(self, description: Any) -> BaseException:
        """Return the exception that was described; an exception of this side comes back as itself."""
        with self._errors_as_bad_message():
            error = self._find_or_make_exception(description)
            cause = description.get("cause")
            if cause is not None and error.__cause__ is None:
                error.__cause__ = self.decode_exception(cause)
            return error

    def _find_or_make_exception(self, description: dict[str, Any]) -> BaseException:
        number = description["number"]
        if self.held.is_own_number(number):
            error = self.held.object_of(number)
        else:
            error = self._standins.get(number)
            if error is None:
                error = self._new_error(description)
                self.register_standin(number, error)
        if not isinstance(error, BaseException):
            raise BadMessage("no exception")
        if is_control_flow_exception(type(error)):
            kind = ReplacedStopIteration if isinstance(error, StopIteration) else RuntimeError
            return kind(f"{type(error).__name__} left a function")
        return error

    def _new_error(self, description: dict[str, Any]) -> BaseException:
        kind = self.from_ref(["o", description["class"]])
        args = tuple(self.decode_value(description["args"]))
        text = str(description["text"])
        if not issubclass(kind, BaseException):
            raise BadMessage("no exception class")
        try:
            error: BaseException = kind(*args) if "_text_" not in vars(kind) else kind.__new__(kind, *args)
        except Exception:  # a class that wants other arguments
            error = kind.__new__(kind)
        error.args = args
        if "_text_" in vars(kind):
            error.__dict__.update(_origin_=(self, description["number"]), _text_=text)
        elif "attributes" in description:
            set_exception_attributes(error, self.decode_value(description["attributes"]))
        return error
