"""Test cases of the embedded task's problems: drawn, checked against the bug, divided into public and hidden.

Families draw constants for their slots and inputs for their cases from here. Inputs are edges first, then random ones.
The edges are where a nearly right program goes wrong: one below, at and one above each constant, empty and single.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from random import Random
from typing import Any

Arguments = tuple[Any, ...]
Slots = Mapping[str, Any]
Case = tuple[Arguments, Any]

NUM_CASES = 8
# Half of the cases stay hidden: fewer would let wrong programs pass.
MAX_PUBLIC_CASES = NUM_CASES // 2


def divided_cases(
    draw_inputs: Callable[[], list[Arguments]],
    reference: str,
    buggy: str,
    num_public: int,
    told: str | None = None,
) -> tuple[tuple[Case, ...], tuple[Case, ...]] | None:
    """Public and hidden cases of a problem.

    Args:
        draw_inputs: draws arguments of calls; called again if they do not tell the two programs apart.
        reference: the right program, our own source.
        buggy: the same with the bug.
        num_public: how many cases are public, at most :data:`MAX_PUBLIC_CASES`.
        told: ``repr`` of an answer that the first public case must have; ``None`` if any will do.

    Returns:
        ``None`` if no inputs of 100 draws tell the bug from the reference.
    """
    right, wrong = function_of(reference), function_of(buggy)
    for _ in range(100):
        inputs = draw_inputs()[:NUM_CASES]
        cases = tuple((arguments, right(*arguments)) for arguments in inputs)
        shows_bug = [_differs(wrong, *case) for case in cases]
        if parts := _divide(cases, shows_bug, num_public, told):
            return parts
    return None


def _divide(
    cases: tuple[Case, ...], shows_bug: Sequence[bool], num_public: int, told: str | None
) -> tuple[tuple[Case, ...], tuple[Case, ...]] | None:
    """Public and hidden cases, none in both; the bug shows in the public ones too, where that is possible.

    Returns:
        ``None`` if no division leaves hidden cases on which the bug shows and no constant answer passes.
    """
    arguments, answers = [repr(given) for given, _ in cases], [repr(expected) for _, expected in cases]
    distinct = [index for index in range(len(cases)) if arguments.index(arguments[index]) == index]
    found = None
    if told is not None:
        # The shortest call first: feedback has to fit together with prompt and program.
        distinct.sort(key=lambda index: (answers[index] != told, len(arguments[index]) * (answers[index] == told)))
    for public in combinations(distinct, num_public):
        if told is not None and answers[public[0]] != told:
            break
        shown = {arguments[index] for index in public}
        hidden = [index for index in range(len(cases)) if arguments[index] not in shown]
        if len({answers[index] for index in hidden}) > 1 and any(shows_bug[index] for index in hidden):
            found = found or (public, hidden)
            if any(shows_bug[index] for index in public):
                found = public, hidden
                break
    if found is None:
        return None
    return tuple(cases[index] for index in found[0]), tuple(cases[index] for index in found[1])


def examples_text(function: str, cases: Sequence[Case]) -> str:
    """The rest of a docstring that shows calls with their values."""
    calls = (f"    >>> {function}({', '.join(map(repr, given))})\n    {expected!r}\n" for given, expected in cases)
    return f"\n{''.join(calls)}    " if cases else ""


def function_of(source: str) -> Callable[..., Any]:
    """The function ``f`` of one of our own programs."""
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    return namespace["f"]  # type: ignore[no-any-return]


def answer_of(function: Callable[..., Any], arguments: Arguments) -> tuple[Any, str]:
    """Return a function's result, and the name of its exception if it raises one."""
    try:
        return function(*arguments), ""
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return None, type(error).__name__


def _differs(function: Callable[..., Any], arguments: Arguments, expected: Any) -> bool:
    answer, raised = answer_of(function, arguments)
    return bool(raised) or repr(answer) != repr(expected)


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
