"""Functions that read a program's output as one of a few messages.

Every function takes a line as it arrived. It returns one kind of value or raises ``NotPlain``, which is the program's
fault whatever the line was. Nothing else parses what a program wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from lit_rl.execution.wire import plain
from lit_rl.execution.wire.bounded_json import MAX_CALL_LENGTH, NotPlain, parse_bounded_json
from lit_rl.execution.wire.printable import make_printable, printable_name

Description = dict[str, Any]
"""An exception: ``stage`` (``compile`` or ``run``), ``types`` (names of its class and base classes), ``message``,
``line`` and ``module_line`` (in the program, or ``None``). It is the program's own word: shown, never believed."""

_MAX_DESCRIPTION_LENGTH = 65_536
_CALL_UNITS = 100_000
MAX_MESSAGE_LENGTH = 500
_MAX_TYPES = 20
_LAST_LINE = 10**9
_RESULT: dict[str, Any] = {
    "kind": "", "secret": "", "message": "", "error": None, "line": None, "number": 1, "actual": "", "passes": False,
}  # fmt: skip


class HostedCall(NamedTuple):
    """Message of a program that calls a function which lives in the supervisor."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class HostedProgramEnd(NamedTuple):
    """Message that a program which made such calls has ended; ``error`` is the exception that ended it, if any."""

    error: Description | None


def parse_exception_description(line: bytes) -> Description:
    """Return the description of an exception of the program."""
    return parse_exception_tree(parse_bounded_json(line, _MAX_DESCRIPTION_LENGTH))


def parse_hosted_message(line: bytes) -> HostedCall | HostedProgramEnd:
    """Return a program's message to the object whose functions the program calls."""
    match parse_bounded_json(line, MAX_CALL_LENGTH, _CALL_UNITS):
        case ["end", error]:
            return HostedProgramEnd(None if error is None else parse_exception_tree(error))
        case ["call", str(name), args_tree, kwargs_tree]:
            args, kwargs = plain.from_json_tree(args_tree), plain.from_json_tree(kwargs_tree)
            if type(args) is tuple and type(kwargs) is dict and all(type(key) is str for key in kwargs):
                return HostedCall(name, args, kwargs)
    raise NotPlain("neither a call nor an end")


def parse_grader_result(line: bytes) -> dict[str, Any]:
    """Return a grader's result with all of its parts, each of the right type.

    Returns:
        ``kind``, ``secret``, ``message`` (of a test that failed), ``error`` (of the program, or ``None``),
        ``line`` (of the tests, or ``None``), ``number`` (of the assert that failed), ``actual`` (the program's last
        answer, for a reader), and for a rehearsal ``passes`` (whether it failed over a shortage of the machine, which
        may pass).
    """
    tree = parse_bounded_json(line, _MAX_DESCRIPTION_LENGTH)
    parts = tree if type(tree) is dict else {"kind": None}
    result: dict[str, Any] = {name: parts.get(name, default) for name, default in _RESULT.items()}
    if any(type(result[name]) is not type(default) for name, default in _RESULT.items() if default is not None):
        raise NotPlain("not a grader's result")
    for text in ("message", "actual"):
        result[text] = make_printable(result[text][:MAX_MESSAGE_LENGTH])
    result["error"] = None if result["error"] is None else parse_exception_tree(result["error"])
    result["line"] = _line_number_or_none(result["line"])
    return result


def exception_description_or_none(tree: Any) -> Description | None:
    """Return the description in a parsed message, or ``None`` if the message holds none."""
    try:
        return parse_exception_tree(tree)
    except NotPlain:
        return None


def parse_exception_tree(tree: Any) -> Description:
    """Return the description of an exception from a message that is already parsed."""
    names = tree.get("types") if type(tree) is dict else None
    if type(names) is not list or not all(type(name) is str for name in names):
        raise NotPlain("not a description of an exception")
    message = tree.get("message")
    return {
        "stage": "compile" if tree.get("stage") == "compile" else "run",
        "types": [printable_name(name) for name in names[:_MAX_TYPES]],
        "message": make_printable(message[:MAX_MESSAGE_LENGTH]) if type(message) is str else "",
        "line": _line_number_or_none(tree.get("line")),
        "module_line": _line_number_or_none(tree.get("module_line")),
    }


def _line_number_or_none(number: Any) -> int | None:
    return number if type(number) is int and 0 < number < _LAST_LINE else None


def whole_lines(content: bytes, most: int) -> Mapping[int, bytes]:
    """Return the whole lines that a program wrote, by position; lines after the first ``most`` are not read."""
    return dict(enumerate(content.split(b"\n", most)[:-1]))
