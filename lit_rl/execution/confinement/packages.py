"""Finding the installed packages that programs may import."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence


def find_packages(names: Sequence[str]) -> dict[str, list[str]]:
    """Folders and files of each named package, with the shared libraries that wheels put beside it.

    Only named packages become visible: those that they depend on must be named too.

    Raises:
        ValueError: if a package is not installed here.
    """
    found = {}
    for name in names:
        spec = importlib.util.find_spec(name) if "." not in name else None
        if spec is None or (spec.origin is None and not spec.submodule_search_locations):
            raise ValueError(f"packages names {name!r}, which is not installed: pip install it or leave it out")
        paths = list(spec.submodule_search_locations or [str(spec.origin)])
        beside = [os.path.join(os.path.dirname(path), f"{name}.libs") for path in paths]
        found[name] = [os.path.realpath(path) for path in (*paths, *beside) if os.path.exists(path)]
    return found
