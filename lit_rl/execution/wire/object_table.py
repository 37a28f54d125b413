"""Objects that stay in the process that made them, and their descriptions for the other process.

An object that is not plain data crosses as a number. The number of its class goes along once; with a class go the
class's name, its bases and the operations that its objects know, so that the other side can make a stand-in that
behaves alike. The program's numbers are even, the tests' numbers are odd: a number says whose object it is.
"""

from __future__ import annotations

import copy
import operator
import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

PROGRAM, TESTS = 0, 1
_MAX_NAME_LENGTH = 200

_BINARY = "add sub mul truediv floordiv mod divmod pow matmul lshift rshift and or xor"
ARITHMETIC = frozenset(f"__{prefix}{name}__" for name in _BINARY.split() for prefix in ("", "r", "i"))
ORDER = frozenset(("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__"))
_OTHERS = """len iter next reversed contains getitem setitem delitem call bool str repr format abs neg pos invert
int float complex index round trunc floor ceil enter exit await"""
OPERATIONS = ARITHMETIC | ORDER | frozenset(f"__{name}__" for name in _OTHERS.split())
"""Operators and builtin functions that one side may apply to an object of the other."""

# Exceptions of these modules mean more than a failure to whoever catches them: they never cross as the same type.
_CONTROL_FLOW_MODULES = ("unittest", "_pytest", "pytest", "concurrent.futures.process")
_OUR_MODULES = ("__main__", "program", "tests")


class ReplacedStopIteration(RuntimeError):
    """Replaces a ``StopIteration`` that left the program: the real one would silently end a loop of the tests."""


class ObjectTable:
    """Numbers of this process's objects, and descriptions of them that are still to be sent to the other process."""

    def __init__(self, side: int) -> None:
        self._side = side
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._descriptions: list[list[Any]] = []
        self._sent: set[int] = set()

    def is_own_number(self, number: int) -> bool:
        return number & 1 == self._side

    def to_ref(self, value: Any) -> list[Any]:
        """Return the form in which an object crosses."""
        number = self.number_of(value)
        self._sent.add(number)
        return ["o", number, _shortened_name(type(value).__name__)]

    def was_sent(self, value: Any) -> bool:
        """Return whether an object itself was sent; a class may be known only as the class of an object."""
        return self._numbers.get(id(value)) in self._sent

    def number_of(self, value: Any, *, is_described: bool = False) -> int:
        """Return the number of an object, which is always the same number."""
        number = self._numbers.get(id(value))
        if number is None:
            number = 2 * len(self._objects) + self._side
            self._numbers[id(value)] = number
            self._objects.append(value)  # kept alive, so that ``id(value)`` stays its own
            if not is_described:
                self._descriptions.append(self._describe_object(number, value))
        return number

    def object_of(self, number: int) -> Any:
        return self._objects[number >> 1]

    def take_descriptions(self) -> list[list[Any]]:
        """Return and clear the news for the other side; classes come before their objects."""
        news, self._descriptions = self._descriptions, []
        return news

    def _describe_object(self, number: int, value: Any) -> list[Any]:
        if not isinstance(value, type):
            return ["object", number, self.number_of(type(value))]
        bases = [self.number_of(base) for base in value.__bases__ if base is not object]
        known = OPERATIONS.intersection(dir(value))
        operations = sorted(one for one in known if getattr(value, one, None) is not getattr(object, one, None))
        # Plain methods that the class itself defines; a derived class may call them as methods of its parent.
        methods = [one for one, item in vars(value).items() if type(item) is FunctionType and is_standin_method(one)]
        name, importable = _shortened_name(value.__name__), _importable_exception_name(value)
        return ["class", number, name, bases, operations, methods, importable]


def is_standin_method(name: str) -> bool:
    """Return whether a stand-in's class gets this method; operators come only from ``OPERATIONS``."""
    return name == "__init__" or not name.startswith("__")


def _importable_exception_name(kind: type) -> str:
    """Return an exception's ``module:name`` if both sides can import it, else empty; ``-`` if it is no exception."""
    if not issubclass(kind, BaseException):
        return "-"
    module = str(getattr(kind, "__module__", ""))
    return f"{module}:{kind.__qualname__}" if _is_stdlib_module(module) else ""


def _is_stdlib_module(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names and module not in _OUR_MODULES


def is_control_flow_exception(kind: type) -> bool:
    """Return whether an exception ends a loop, a generator, a task or a test silently instead of failing it."""
    tasks: Any = sys.modules.get("asyncio.exceptions")
    ending = (StopIteration, StopAsyncIteration, GeneratorExit, *((tasks.CancelledError,) if tasks else ()))
    return issubclass(kind, ending) or str(kind.__module__).startswith(_CONTROL_FLOW_MODULES)


def standard_exception_class(name: str) -> type[BaseException] | None:
    """Return the exception class ``module:name`` of the standard library, if this process has loaded its module.

    If the class steers a loop, a generator or a test runner which catches it, return a ``RuntimeError`` instead.
    """
    module, _, qualified = name.partition(":")
    found: Any = sys.modules.get(module) if _is_stdlib_module(module) else None
    for part in qualified.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, BaseException) and _is_stdlib_module(found.__module__)):
        return None
    if is_control_flow_exception(found):
        return ReplacedStopIteration if found is StopIteration else RuntimeError
    return found


def _shortened_name(name: Any) -> str:
    return str(name)[:_MAX_NAME_LENGTH]


def operate_on(target: Any, operation: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return the result of an operation, or ``NotImplemented`` if the class says so."""
    special = _SPECIAL.get(operation)
    if special is not None:
        return special(target, *args, **kwargs)
    return getattr(type(target), operation)(target, *args)


def _call_method(target: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(target, name)(*args, **kwargs)


def _run_awaitable(target: Any) -> Any:
    """Run a coroutine to its end; in a thread of its own where an event loop runs in this one."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    async def run() -> Any:
        return await target

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, run()).result()


_SPECIAL: Mapping[str, Callable[..., Any]] = {
    "getattr": getattr,
    "setattr": setattr,
    "delattr": delattr,
    "dir": dir,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "method": _call_method,
    "method of": _call_method,
    "await": _run_awaitable,
    "__call__": lambda target, *args, **kwargs: target(*args, **kwargs),
    "__getitem__": operator.getitem,
    "__setitem__": operator.setitem,
}
