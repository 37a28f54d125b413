"""What tests find in their globals when they are rehearsed: their modules, and names that no program provides."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib import import_module
from typing import Any, NoReturn

from lit_rl.execution.grading.names import PASSED, STOPPED, module_meant
from lit_rl.execution.wire.held import OPERATIONS, StopOfProgram

REHEARSED = 48
"""Exit status of a rehearsal that came to the first use of a program: up to there, the tests work."""


def _end(*_: Any, **__: Any) -> NoReturn:
    os._exit(REHEARSED)


# Beside the operators, what Python asks of a class, a context, an attribute.
_FURTHER = "getattribute setattr delattr mro_entries instancecheck subclasscheck await aiter anext aenter aexit bytes"
_USES = sorted(OPERATIONS | {f"__{name}__" for name in (*_FURTHER.split(), "complex", "divmod", "rdivmod", "hash")})

Unprovided = type("Unprovided", (), dict.fromkeys(_USES, _end))
"""Class of what stands for a name of the program: whatever the tests do with an instance ends the rehearsal."""


def require_import(module: str, names: Iterable[str]) -> None:
    """Import a module that the tests need, and look for the names that they take from it.

    Raises:
        ImportError: it is missing, or lacks a name.
    """
    found = import_module(module)
    for name in names:
        if not hasattr(found, name):
            import_module(f"{module}.{name}")


def unprovided_namespace(job: dict[str, Any]) -> dict[str, Any]:
    """The tests' globals, with stand-ins for the names of the program.

    Raises:
        ImportError: a module that the tests use without importing it is missing.
    """
    namespace: dict[str, Any] = {"__name__": "__main__", PASSED: lambda number: None, STOPPED: StopOfProgram}
    provided = [*job["names"], *([] if job["entry_point"] is None else [job["entry_point"], "candidate"])]
    for name, (module, attributes) in job["modules"].items():
        found = module_meant(name, module, attributes)
        namespace[name] = Unprovided() if found is None else found
    return {name: Unprovided() for name in provided if name not in namespace} | namespace
