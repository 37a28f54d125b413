"""The program's side of a graded test: its functions, called by name from the grader's process."""

from __future__ import annotations

import json
import os
from types import ModuleType
from typing import Any

from lit_rl.execution.program_side import child
from lit_rl.execution.wire import plain
from lit_rl.execution.wire.channel import Channel, ChannelClosed


class _Server:
    """Answers requests of the grader: names, calls, attributes of objects it was given handles of."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._objects: list[Any] = []

    def hold(self, value: Any) -> list[Any]:
        self._objects.append(value)
        return ["o", len(self._objects) - 1, type(value).__name__]

    def revive(self, tree: list[Any]) -> Any:
        return self._objects[tree[1]]

    def names(self, wanted: list[str]) -> dict[str, Any]:
        """What the tests use: functions and classes by kind, modules by name, plain values."""
        kinds: dict[str, Any] = {}
        for name in wanted:
            if name not in self._namespace:
                continue
            value = self._namespace[name]
            if isinstance(value, ModuleType):
                kinds[name] = ["module", value.__name__]
            elif callable(value):
                kinds[name] = ["function"]
            else:
                kinds[name] = ["value", plain.to_tree(value, self.hold)]
        return kinds

    def answer(self, request: list[Any]) -> list[Any]:
        kind, target, args, kwargs = request
        if kind == "call":
            function = child.find(self._namespace, target)
        else:  # an operation on an object
            function = self._operation(kind, self._objects[target])
        values = plain.from_tree(args, self.revive)
        result = function(*values, **plain.from_tree(kwargs, self.revive))
        # Arguments travel back so that a test of an in-place function sees what became of them.
        return ["value", plain.to_tree(result, self.hold), plain.to_tree(values, self.hold)]

    def _operation(self, kind: str, target: Any) -> Any:
        operations: dict[str, Any] = {
            "getattr": lambda name: getattr(target, name),
            "setattr": lambda name, value: setattr(target, name, value),
            "invoke": target,
            "len": lambda: len(target),
            "iter": lambda: iter(target),
            "item": lambda key: target[key],
            "text": lambda: str(target),
            # Asked for only where tests let the program's classes decide (``allow_objects``).
            "equal": lambda other: bool(target == other),
            "less": lambda other: bool(target < other),
            "hash": lambda: hash(target),
            "true": lambda: bool(target),
        }
        return operations[kind]


def serve(job: dict[str, Any], channel: Channel) -> int:
    """Run the program, then answer the grader until it hangs up."""
    try:
        namespace = child.execute(job, "program")
    except BaseException as error:
        channel.send(json.dumps(["error", child.describe(error)]))
        child._leave_traceback(error)
        return 1
    server = _Server(namespace)
    channel.send(json.dumps(["names", server.names(json.loads(channel.receive()))]))
    while True:
        try:
            request = json.loads(channel.receive())
        except ChannelClosed:
            return 0
        try:
            answer = server.answer(request)
        except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
            channel.send(json.dumps(["end", child.describe(error)]))
            os._exit(1)
        except BaseException as error:
            answer = ["error", child.describe(error)]
        channel.send(json.dumps(answer, separators=(",", ":")))
