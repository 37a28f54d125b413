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
    """An exception as plain data: type, its ancestors' names, message, lines in the program."""
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
    """The innermost line of a file that an exception passed through."""
    line, trace = None, error.__traceback__
    while isinstance(trace, TracebackType):
        if trace.tb_frame.f_code.co_filename == file_name:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _module_line(error: BaseException) -> int | None:
    """The line at the program's top level that raised an exception; ``None`` where a call from outside did."""
    trace = error.__traceback__
    while isinstance(trace, TracebackType):
        if trace.tb_frame.f_code.co_filename == FILE_NAME:
            return trace.tb_lineno if trace.tb_frame.f_code.co_name == "<module>" else None
        trace = trace.tb_next
    return None


def exception_from(description: dict[str, Any]) -> Exception:
    """An exception like the one described: the nearest builtin type, under the name it had."""
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


def plain_attributes_of(error: BaseException) -> dict[str, Any]:
    """The plain attributes of an exception, by name."""
    named = {**vars(error), **{name: getattr(error, name) for name in _OF_CLASSES if hasattr(type(error), name)}}
    kept = {name: value for name, value in named.items() if _can_cross(name, value) and value is not None}
    return dict(list(kept.items())[:_MAX_ITEMS])


def set_attributes(error: BaseException, attributes: Any) -> None:
    """Set the attributes sent for an exception; of those that its class defines, only ``_OF_CLASSES``."""
    if type(attributes) is not dict:
        raise TypeError("no attributes")
    for name, value in list(attributes.items())[:_MAX_ITEMS]:
        if not _can_cross(name, value):
            continue
        if name in _OF_CLASSES:
            with contextlib.suppress(AttributeError, TypeError):
                setattr(error, name, value)
        elif not hasattr(type(error), name):
            error.__dict__[name] = value


def _can_cross(name: Any, value: Any) -> bool:
    simple = type(value) in (bool, int, float) or (type(value) in (str, bytes) and len(value) <= _MAX_LENGTH)
    return type(name) is str and name.isidentifier() and not name.startswith("_") and simple
