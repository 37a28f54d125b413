"""A mistake that ``benchmarks/mutants.py`` makes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One mistake.

    Args:
        name: what is wrong, in a few words.
        file: path from the root of the tree.
        old: a text that occurs there exactly once.
        new: what takes its place.
        tests: what must fail, as pytest takes it: files, or ``file::test``; separated by spaces.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str
