"""Load at their first use the public names of a package, and packages that an extra brings."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType


def lazy_exports(package: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, read from the imports in its source.

    Imports under ``if TYPE_CHECKING:`` happen when their name is first used, all other imports where they stand.

    Args:
        package: ``__name__`` of the package.
        file: ``__file__`` of the package.
    """
    statements = ast.parse(Path(file).read_text("utf-8")).body
    later = [one for block in statements if isinstance(block, ast.If) for one in block.body]
    imports = [one for one in (*statements, *later) if isinstance(one, ast.ImportFrom)]
    place_of = {alias.name: str(one.module) for one in imports for alias in one.names if alias.asname}

    def load(name: str) -> object:
        if name not in place_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(place_of[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return load, lambda: sorted(place_of), sorted(place_of)


def import_extra(module: str, needed_by: str, extra: str) -> ModuleType:
    """Import a package that only some parts of the library need."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{needed_by} needs the package {error.name}: run pip install 'lit-rl[{extra}]'", name=error.name
        ) from error
