"""Loading at the first use: of public names of a package, and of packages that an extra brings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType


def load_when_used(
    package: str, places: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the functions ``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: its ``__name__``; its ``__all__`` lists all its public names, loaded or not.
        places: modules, each with the names that are loaded from there.
    """
    place_of = {name: place for place, names in places.items() for name in names}

    def load(name: str) -> object:
        if name not in place_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(place_of[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    def names() -> list[str]:
        return sorted(sys.modules[package].__all__)

    return load, names


def load_extra(module: str, needed_by: str, extra: str) -> ModuleType:
    """Import a package that only some parts of the library need.

    Raises:
        ModuleNotFoundError: it is not installed; the message names the extra.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{needed_by} needs the package {error.name}: pip install 'lit-rl[{extra}]'", name=error.name
        ) from error
