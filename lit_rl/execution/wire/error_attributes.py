"""What exceptions of the standard library hold besides their arguments, such as the position of a JSON error."""

from __future__ import annotations

import contextlib
from typing import Any

_OF_CLASSES = ("filename", "filename2", "name", "path")  # of OSError, ImportError, NameError, AttributeError
_LONGEST = 4096
_MOST = 16


def attributes_of(error: BaseException) -> dict[str, Any]:
    """The plain attributes of an exception, by name."""
    named = {**vars(error), **{name: getattr(error, name) for name in _OF_CLASSES if hasattr(type(error), name)}}
    kept = {name: value for name, value in named.items() if _crosses(name, value) and value is not None}
    return dict(list(kept.items())[:_MOST])


def set_attributes(error: BaseException, told: Any) -> None:
    """Give an exception the attributes that the other side sent; what its class defines stays as it is.

    Raises:
        TypeError: if ``told`` is not a dictionary.
    """
    if type(told) is not dict:
        raise TypeError("no attributes")
    for name, value in list(told.items())[:_MOST]:
        if not _crosses(name, value):
            continue
        if name in _OF_CLASSES:
            with contextlib.suppress(AttributeError, TypeError):
                setattr(error, name, value)
        elif not hasattr(type(error), name):
            error.__dict__[name] = value


def _crosses(name: Any, value: Any) -> bool:
    simple = type(value) in (bool, int, float) or (type(value) in (str, bytes) and len(value) <= _LONGEST)
    return type(name) is str and name.isidentifier() and not name.startswith("_") and simple
