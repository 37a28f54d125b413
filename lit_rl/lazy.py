"""Public names of a package that are loaded where they are defined, when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module


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
