"""Names that tests find: stand-ins for the program's names, placeholders without a program, and our modules."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any, NoReturn

from lit_rl.execution.grading.tests_side import TestsRpcLink
from lit_rl.execution.wire.link import BadMessage
from lit_rl.execution.wire.object_table import OPERATIONS, ReplacedStopIteration

PASSED = "__lit_rl_passed__"  # the tests call it after every assert that held
HELD, FAILED = "__lit_rl_held__", "__lit_rl_failed__"  # the tests call these where a single test ended
PROBED = "__lit_rl_probed__"  # the tests call it in handlers that name NameError
STOPPED = "__lit_rl_stopped__"  # the tests also expect it where they expect StopIteration
# Modules whose import has side effects.
_ACTING = ("antigravity", "this", "idlelib", "turtledemo", "__main__", "test")


def tests_namespace(job: dict[str, Any], kinds: dict[str, Any], program: TestsRpcLink) -> dict[str, Any]:
    """Return the globals of test code."""
    namespace: dict[str, Any] = {"__name__": "__main__", STOPPED: ReplacedStopIteration}
    for name in job["names"]:
        if name in kinds:
            _bind_program_name(namespace, name, kinds, program)
    for name, (module, attributes) in job["modules"].items():
        found = module_meant_by_name(name, module, attributes)
        if found is not None:
            namespace[name] = found
        elif name in kinds:
            _bind_program_name(namespace, name, kinds, program)
    entry_point = job["entry_point"]
    if entry_point is not None:
        found = namespace.get(entry_point)
        if found is None or not callable(found):
            namespace[entry_point] = found = program.make_function_standin(entry_point, entry_point)
        namespace["candidate"] = found
    absent = {*job["names"], *job["modules"]} - namespace.keys()
    # Only capitalised names: tests that call what they take for a function have not named a class.
    program.named.update(value for key, value in namespace.items() if key[:1].isupper() and isinstance(value, type))
    return _TestGlobals(namespace, absent, program) if absent else namespace


class _TestGlobals(dict[str, Any]):
    """Globals of tests, which record the last name that tests look up and the program does not define."""

    def __init__(self, content: dict[str, Any], absent: set[str], program: TestsRpcLink) -> None:
        super().__init__(content)
        self._absent, self._program = absent, program

    def __missing__(self, name: str) -> NoReturn:
        if name in self._absent:
            self._program.missed = name
        raise KeyError(name)


def _bind_program_name(namespace: dict[str, Any], name: str, kinds: dict[str, Any], program: TestsRpcLink) -> None:
    kind = kinds[name]
    try:
        if kind[0] == "function":
            _, number, is_async, doc = kind
            namespace[name] = program.make_function_standin(number, name, is_async=is_async is True, doc=doc)
        elif kind[0] == "module":
            namespace[name] = _standard_module_or_none(str(kind[1]))
            if namespace[name] is None:  # a module of the program's that is not ours: the tests cannot mean it
                del kinds[name], namespace[name]
        else:
            namespace[name] = program.decode_value(kind[1])
    except (BadMessage, ValueError, TypeError, LookupError):
        program.end_tests([])


def module_meant_by_name(name: str, module: str, attributes: tuple[str, ...]) -> Any:
    """Return the module or function that tests mean by a name; ``None`` if it lacks an attribute that they use."""
    if not attributes:
        module, _, function = module.rpartition(".")
        attributes = (function,)
    try:
        found = import_module(module)
    except ImportError as error:
        raise ImportError(
            f"the tests use {name} without importing it, and {module} cannot be imported here ({error}): name the "
            "package in the sandbox's packages, or add the import to the tests"
        ) from None
    if not all(hasattr(found, attribute) for attribute in attributes):
        return None
    return getattr(found, attributes[0]) if module != name and name == attributes[0] else found


def _standard_module_or_none(module: str) -> Any:
    """Return the real module behind a name of the program, such as ``dt`` after ``import datetime as dt``."""
    top, _, rest = module.partition(".")
    if top in sys.stdlib_module_names and top not in _ACTING and "__" not in rest:
        with contextlib.suppress(Exception):  # the module may be for another system
            return import_module(module)
    return None


def _raise_again(is_test: bool) -> NoReturn:
    raise  # it is called where an exception was caught


REHEARSED = 48
"""Exit status of a rehearsal that reached the first use of a program: up to that point, the tests work."""


def _exit_rehearsal(*_: Any, **__: Any) -> NoReturn:
    os._exit(REHEARSED)


# Besides the operators, the methods that Python calls for a class, a context or an attribute.
_FURTHER = "getattribute setattr delattr mro_entries instancecheck subclasscheck await aiter anext aenter aexit bytes"
_USES = sorted(OPERATIONS | {f"__{name}__" for name in (*_FURTHER.split(), "complex", "divmod", "rdivmod", "hash")})

Unprovided = type("Unprovided", (), dict.fromkeys(_USES, _exit_rehearsal))
"""Class of placeholders for the program's names: whatever the tests do with an instance ends the rehearsal."""


def require_import(module: str, names: Iterable[str]) -> None:
    """Import a module that the tests need, and look for the names that they take from it."""
    found = import_module(module)
    for name in names:
        if not hasattr(found, name):
            import_module(f"{module}.{name}")


def rehearsal_namespace(job: dict[str, Any]) -> dict[str, Any]:
    """Return the tests' globals, with placeholders for the names of the program."""
    namespace: dict[str, Any] = {"__name__": "__main__", PASSED: lambda number: None, STOPPED: ReplacedStopIteration}
    namespace |= {HELD: lambda: None, PROBED: lambda: None, FAILED: _raise_again}
    provided = [*job["names"], *([] if job["entry_point"] is None else [job["entry_point"], "candidate"])]
    for name, (module, attributes) in job["modules"].items():
        found = module_meant_by_name(name, module, attributes)
        namespace[name] = Unprovided() if found is None else found
    return {name: Unprovided() for name in provided if name not in namespace} | namespace
