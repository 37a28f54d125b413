"""The program's side of a graded test, where the tests' process uses the program's functions, classes and objects."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE
from types import FunctionType, ModuleType
from typing import Any

from lit_rl.execution.program_side import child
from lit_rl.execution.wire import object_table, plain
from lit_rl.execution.wire.bounded_json import describe_not_carried
from lit_rl.execution.wire.channel import Channel, ChannelClosed
from lit_rl.execution.wire.errors import describe_exception
from lit_rl.execution.wire.link import RpcLink, encode


class ProgramRpcLink(RpcLink):
    """The program's end of the link: answers the tests' requests, and sends requests to objects of the tests."""

    def __init__(self, channel: Channel, namespace: dict[str, Any], in_place: bool) -> None:
        super().__init__(channel, object_table.PROGRAM)
        self._namespace = namespace
        self._in_place = in_place

    def encode_value(self, value: Any) -> Any:
        """Return ``value`` encoded for the link, or a tree with the reason why ``value`` cannot be carried."""
        try:
            return super().encode_value(value)
        except plain.NotCarried as error:
            return plain.not_carried_tree(error)

    def send(self, message: list[Any]) -> None:
        """Send one message; if it is too large, send the reason as the last message."""
        try:
            super().send(message)
        except plain.NotCarried as error:
            super().send(["end", describe_not_carried(error)])
            raise ChannelClosed("the program has sent its last message") from None

    def describe_names(self, wanted: list[str]) -> dict[str, Any]:
        """Describe the names that the tests use: modules by name, functions by kind, everything else as a value."""
        return {name: self._describe_value(self._namespace[name]) for name in wanted if name in self._namespace}

    def _describe_value(self, value: Any) -> list[Any]:
        if isinstance(value, ModuleType):
            return ["module", value.__name__]
        if type(value) is FunctionType and not value.__dict__ and not value.__code__.co_flags & CO_ASYNC_GENERATOR:
            is_async = bool(value.__code__.co_flags & CO_COROUTINE)
            return ["function", self.held.number_of(value, is_described=True), is_async, value.__doc__]
        return ["value", self.encode_value(value)]

    def perform(self, operation: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do anything that the tests request: only the program runs here anyway."""
        if operation == "call":
            return child.find_function(self._namespace, target)(*args, **kwargs)
        if operation == "derive":
            return self._derive_class(*args)
        return object_table.operate_on(target, operation, args, kwargs)

    def make_value_response(self, result: Any, values: tuple[Any, ...]) -> list[Any]:
        """Return the answer with the arguments, so that a test of an in-place function sees how they changed."""
        answer = super().make_value_response(result, values)
        return [*answer, [self.encode_value(value) for value in values]] if self._in_place else answer

    def is_fatal_error(self, error: BaseException) -> bool:
        """Return whether an exception ends the program, as an interrupt or a lack of memory does."""
        return isinstance(error, KeyboardInterrupt | MemoryError) or super().is_fatal_error(error)

    def _derive_class(self, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> type:
        """Make a class that the tests derive from a class of the program; its methods are the tests' own."""
        own = {key: _as_method(value) if callable(value) else value for key, value in members.items()}
        return type(bases[0])(name, bases, own)


def _as_method(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    return method


def serve_program_to_tests(job: dict[str, Any]) -> int:
    """Run the program, then answer the tests until they hang up."""
    channel = Channel(child.CHANNEL)
    try:
        namespace = child.execute_as_module(job, "program")
    except BaseException as error:
        channel.send(encode(["failed", describe_exception(error), []]))
        child.print_traceback(error)
        return child.exit_status_of_error(error)
    server = ProgramRpcLink(channel, namespace, job["in_place"])
    try:
        server.send(["names", server.describe_names(json.loads(channel.receive()))])
        while True:
            server.answer_request(server.receive())
    except ChannelClosed:
        return 0
    except (KeyboardInterrupt, MemoryError) as error:
        channel.send(encode(["end", describe_exception(error), []]))
        os._exit(child.exit_status_of_error(error))
