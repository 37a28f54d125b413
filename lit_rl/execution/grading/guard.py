"""Guard that keeps code written by a program from running in the grader, whichever function would run the code.

``eval(f(1)) == 24`` and ``pickle.loads(f(x)) == x`` would run a program's code next to the tests, where it could write
a pass. Python announces each code object before it runs (``sys.addaudithook``), so one hook covers ``eval``, ``exec``,
``timeit``, ``doctest`` and whatever else takes source code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any

# Modules that write and run source code of their own.
_GENERATING = frozenset(
    (
        *("collections", "dataclasses", "types"),
        *("_frozen_importlib", "_frozen_importlib_external", "importlib._bootstrap", "importlib._bootstrap_external"),
    )
)
# Classes that hold nothing but data: pickles may make instances of these.
_DATA_CLASSES = frozenset(
    (module, name)
    for module, names in {
        "builtins": "bytearray complex frozenset range set slice",
        "collections": "Counter OrderedDict deque",
        "datetime": "date datetime time timedelta timezone",
        "decimal": "Decimal",
        "fractions": "Fraction",
        "_codecs": "encode",
    }.items()
    for name in names.split()
)


class ProgramCodeError(RuntimeError):
    """The tests would run code that the program may have written."""


def install_code_guard(
    tests: CodeType, texts: Iterable[str], may_come_from_program: Callable[[], bool], note: Callable[[], None]
) -> None:
    """Refuse, for the rest of this process, to run code that is neither the tests' own nor plain arithmetic.

    Args:
        tests: the compiled tests.
        texts: source code within the tests, for the tests to run.
        may_come_from_program: returns whether anything of the program has reached the tests.
        note: called before something is refused, because the tests may catch the error.
    """
    folder = os.path.join(os.getcwd(), "")
    own: list[CodeType] = []

    def is_own(code: CodeType) -> bool:
        if code is tests:
            return True
        if not own:
            own.extend(found for text in texts for found in _possible_code_objects(text))
        return code in own

    def is_refused(event: str, arguments: tuple[Any, ...]) -> bool:
        caller = sys._getframe(2).f_globals.get("__name__")
        if event == "pickle.find_class":
            return arguments[:2] not in _DATA_CLASSES
        if event == "import":
            return _is_in_folder(folder, arguments[1])
        if caller in _GENERATING:
            return isinstance(arguments[0], CodeType) and _is_in_folder(folder, arguments[0].co_filename)
        if not isinstance(arguments[0], CodeType):
            return True
        return not (is_own(arguments[0]) or _is_call_free_code(arguments[0])) and (
            caller == "__main__" or may_come_from_program()
        )

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _WATCHED and is_refused(event, arguments):
            note()
            raise ProgramCodeError(
                f"refused {event} of something that the program may have written: only compare the program's values"
            )

    sys.addaudithook(hook)


_WATCHED = frozenset(("code.__new__", "exec", "function.__new__", "import", "marshal.loads", "pickle.find_class"))


def _is_in_folder(folder: str, path: str | None) -> bool:
    """Return whether a file lies in the work folder, where a program may have put it; ``<string>`` is no file."""
    return path is not None and not path.startswith("<") and os.path.abspath(path).startswith(folder)


def _is_call_free_code(code: CodeType) -> bool:
    """Return whether code uses constants and operators alone, and so can call nothing."""
    return not (code.co_names or code.co_freevars or any(isinstance(value, CodeType) for value in code.co_consts))


def _possible_code_objects(text: str) -> Iterable[CodeType]:
    for mode, source in (("eval", text.lstrip(" \t")), ("exec", text)):
        try:
            yield compile(source, "<string>", mode, dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
