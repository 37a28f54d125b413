"""Programs with one edit, in any language: most of them are wrong then."""

from __future__ import annotations

import random
import re

EDITS = (("<=", ">"), ("<", ">="), ("==", "!="), ("+ 1", "+ 2"), ("true", "false"), ("+", "-"), ("0", "1"), ("1", "2"))


def mutated(program: str, seed: int) -> str | None:
    """A program with one edit, the same for the same seed; ``None`` if none of the edits fits."""
    places = [(found.start(), old, new) for old, new in EDITS for found in re.finditer(re.escape(old), program)]
    if not places:
        return None
    start, old, new = random.Random(seed).choice(places)
    return program[:start] + new + program[start + len(old) :]
