"""Exceptions as plain data: described for another process, and made from such a description."""

from __future__ import annotations

import builtins
import contextlib
from types import TracebackType
from typing import Any

FILE_NAME = "<program>"

# What exceptions of the standard library hold besides their arguments, such as the position of a JSON error.
_OF_CLASSES = ("filename", "filename2", "name", "path")  # of OSError, ImportError, NameError, AttributeError
_MAX_LENGTH = 4096
_MAX_ITEMS = 16


class NotCompiled(Exception):
    """The program is not Python; ``cause`` says why."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


def describe_exception(error: BaseException) -> dict[str, Any]:
    """Describe an exception as plain data: type, names of base classes, message, lines in the program."""
    stage = "run"
    if isinstance(error, NotCompiled):
        stage, error = "compile", error.cause
    try:
        message = str(error)[:500]
    except BaseException:
        message = ""
    line = (
        error.lineno if stage == "compile" and isinstance(error, SyntaxError) else innermost_line_in(error, FILE_NAME)
    )
    names = [base.__name__ for base in type(error).__mro__ if base is not object]
    found = {"stage": stage, "types": names[:20], "message": message, "line": line}
    return found | {"module_line": _module_line(error) if stage == "run" else None}


def innermost_line_in(error: BaseException, file_name: str) -> int | None:
    """Return the innermost line of a file through which an exception passed."""
    line, trace = None, error.__traceback__
    while isinstance(trace, TracebackType):
        if trace.tb_frame.f_code.co_filename == file_name:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _module_line(error: BaseException) -> int | None:
    """Return the top-level line of the program that raised an exception; ``None`` if a call from outside raised it."""
    trace = error.__traceback__
    while isinstance(trace, TracebackType):
        if trace.tb_frame.f_code.co_filename == FILE_NAME:
            return trace.tb_lineno if trace.tb_frame.f_code.co_name == "<module>" else None
        trace = trace.tb_next
    return None


def exception_from_description(description: dict[str, Any]) -> Exception:
    """Make an exception like the one described: of the nearest builtin type, under its original name."""
    names = [str(name) for name in description["types"]]
    message = str(description["message"])
    for position, name in enumerate(names):
        found = getattr(builtins, name, None)
        if isinstance(found, type) and issubclass(found, Exception):
            kind: type[Exception] = found if position == 0 else type(names[0], (found,), {})
            with contextlib.suppress(Exception):  # UnicodeDecodeError and others that want more arguments
                return kind(message)
    nameless: type[Exception] = type(names[0] if names else "Exception", (Exception,), {})
    return nameless(message)


def plain_exception_attributes(error: BaseException) -> dict[str, Any]:
    """Return the plain attributes of an exception, by name."""
    named = {**vars(error), **{name: getattr(error, name) for name in _OF_CLASSES if hasattr(type(error), name)}}
    kept = {name: value for name, value in named.items() if _is_plain_attribute(name, value) and value is not None}
    return dict(list(kept.items())[:_MAX_ITEMS])


def set_exception_attributes(error: BaseException, attributes: Any) -> None:
    """Set the attributes that came with an exception; of those that its class defines, set only ``_OF_CLASSES``."""
    if type(attributes) is not dict:
        raise TypeError("no attributes")
    for name, value in list(attributes.items())[:_MAX_ITEMS]:
        if not _is_plain_attribute(name, value):
            continue
        if name in _OF_CLASSES:
            with contextlib.suppress(AttributeError, TypeError):
                setattr(error, name, value)
        elif not hasattr(type(error), name):
            error.__dict__[name] = value


def _is_plain_attribute(name: Any, value: Any) -> bool:
    simple = type(value) in (bool, int, float) or (type(value) in (str, bytes) and len(value) <= _MAX_LENGTH)
    return type(name) is str and name.isidentifier() and not name.startswith("_") and simple
