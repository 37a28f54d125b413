"""What the embedded task's families draw from: constants for their slots, inputs for their test cases.

Inputs are edges first, then random ones. The edges are where a nearly right program goes wrong: one below, at
and one above each constant, empty and single.
"""

from __future__ import annotations

from random import Random

from lit_rl.data.basics.cases import Arguments
from lit_rl.data.basics.problems import Slots

WORDS = ("red", "blue", "pear", "lime", "cat", "dog", "ink", "tea")
SIGNS = ("-", "+", "*", "/", "=", "#", "~", "!", "&", "@")
# Code, the same with the bound wrong, words.
BOUNDS = ((">", ">=", "more than"), (">=", ">", "at least"), ("<", "<=", "less than"), ("<=", "<", "at most"))
SMALL, MEDIUM, ANY = range(2, 10), range(2, 31), range(2, 100)


def numbers(rng: Random, *edges: int, low: int = -40, high: int = 140) -> list[Arguments]:
    """One whole number per case: the edges, then random ones."""
    return [(edge,) for edge in edges] + [(rng.randint(low, high),) for _ in range(8 - len(edges))]


def pairs(rng: Random, *edges: Arguments) -> list[Arguments]:
    """Two whole numbers per case: the edges, then random ones."""
    return [*edges, *((rng.randint(-30, 90), rng.randint(1, 30)) for _ in range(8 - len(edges)))]


def one_list(rng: Random, length: int, *members: int, low: int = -20, high: int = 120) -> list[int]:
    """A list in random order that holds the members."""
    drawn = [*members, *(rng.randint(low, high) for _ in range(length - len(members)))]
    rng.shuffle(drawn)
    return drawn


def lists(rng: Random, *edges: list[int]) -> list[Arguments]:
    """One list per case: the edges, then random ones."""
    return [*((edge,) for edge in edges), *((one_list(rng, rng.randint(3, 9)),) for _ in range(8 - len(edges)))]


def one_text(rng: Random, length: int, letters: str = "abcdefghijklmnopqrstuvwxyz") -> str:
    """A text of this many of these letters."""
    return "".join(rng.choice(letters) for _ in range(length))


def bound_lists(rng: Random, slots: Slots) -> list[Arguments]:
    """Lists around the limit ``k``: only it, only below, only above, none, mixed."""
    k: int = slots["k"]
    return lists(rng, [k], [k - 1, k - 1], [k + 1, k + 1], [], *(one_list(rng, 7, k - 1, k, k + 1) for _ in range(2)))


def interval(rng: Random, slots: Slots) -> list[Arguments]:
    """Numbers around both ends, ``k`` and ``c``, of an interval."""
    k, c = slots["k"], slots["c"]
    return numbers(rng, k - 1, k, k + 1, c - 1, c, c + 1)


def text_with(rng: Random, letter: str, count: int) -> str:
    """A text that holds the letter this many times, among others."""
    letters = [letter] * count + list(one_text(rng, rng.randint(2, 6), "aeiou".replace(letter, "")))
    rng.shuffle(letters)
    return "".join(letters)


def one_table(rng: Random, *values: int) -> dict[str, int]:
    """A dictionary with the values, and one more, under random words."""
    drawn = [*values, rng.randint(0, 120)]
    return dict(zip(rng.sample(WORDS, len(drawn)), drawn, strict=True))


def tables(rng: Random, slots: Slots) -> list[Arguments]:
    """Dictionaries with and without the key of the problem."""
    without = [{word: rng.randint(0, 120) for word in rng.sample(WORDS, n) if word != slots["w"]} for n in (1, 3)]
    return [
        ({},),
        *((table,) for table in without),
        *(({**one_table(rng), slots["w"]: value},) for value in (0, 1, slots["k"], rng.randint(2, 99))),
        ({slots["w"]: rng.randint(2, 99)},),
    ]
