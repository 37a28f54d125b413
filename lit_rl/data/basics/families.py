"""Families of small functions, as ``families.toml`` lists them: their texts, and inputs to test them.

In the table, slots, conditions and inputs are Python expressions. Slots name a set of values below. Inputs call this
module's functions that draw arguments, but without the first argument, the random generator.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from textwrap import indent
from types import CodeType
from typing import Any

Arguments = tuple[Any, ...]
Slots = Mapping[str, Any]

NUM_CASES = 8

WORDS = ("red", "blue", "pear", "lime", "cat", "dog", "ink", "tea")
SIGNS = ("-", "+", "*", "/", "=", "#", "~", "!", "&", "@")
# Right code, code with the bound wrong, words.
BOUNDS = ((">", ">=", "more than"), (">=", ">", "at least"), ("<", "<=", "less than"), ("<=", "<", "at most"))
ANY = range(2, 100)

# Names that no body uses for its own variables, so a parameter is never shadowed.
PARAMETER_NAMES: dict[str, tuple[str, ...]] = {
    "number": ("n", "x", "y", "a", "b", "m", "p", "z"),
    "list": ("xs", "ys", "nums", "items", "values", "row"),
    "text": ("s", "t", "text", "word", "line", "title"),
    "table": ("d", "table", "stock", "prices", "ages", "bag"),
}


@dataclass(frozen=True)
class FunctionFamily:
    """Functions that differ in constants, operators and parameter names only.

    Templates are ``str.format`` strings over the parameters (``x``, then ``y``) and the slots.

    Args:
        name: name of the family.
        functions: names that functions of the family may have.
        parameters: kind of each parameter, keys of ``PARAMETER_NAMES``.
        slots: values from which each slot is drawn. Whole numbers drawn for one problem are distinct.
        wordings: docstrings that all say the same.
        bodies: the correct body, and the body with the family's systematic bug: valid syntax, wrong on some input. Each
            goes from the first indented line to the last character.
        inputs: expression for about eight argument tuples that tell right from nearly right programs; the edges first.
        valid: expression over the slots that is true if the drawn values make a problem.
        tellable: slot whose value is the answer to one of the inputs; empty if there is no such slot.
        held_out: whether training never sees the family.
    """

    name: str
    functions: tuple[str, ...]
    parameters: tuple[str, ...]
    slots: Mapping[str, Sequence[Any]]
    wordings: tuple[str, ...]
    bodies: tuple[str, str]
    inputs: CodeType
    valid: CodeType
    tellable: str
    held_out: bool


@dataclass(frozen=True)
class DrawnFunction:
    """One function of a family: the names of its parameters and the values of its slots."""

    family: FunctionFamily
    names: tuple[str, ...]
    slots: Slots

    def fill_template(self, template: str) -> str:
        """Return a template of the family filled with this draw's names and slots."""
        return template.format(**dict(zip("xy", self.names, strict=False)), **self.slots)

    def correct_and_buggy_bodies(self) -> tuple[str, str]:
        """Return the correct body and the body with the bug."""
        body, bug = map(self.fill_template, self.family.bodies)
        return body, bug

    def program_from_body(self, body: str) -> str:
        """Return a whole function, without docstring, around a rendered body."""
        return f"def f({', '.join(self.names)}):\n{body}\n"

    def draw_inputs(self, rng: Random) -> list[Arguments]:
        drawing = {draws.__name__: partial(draws, rng) for draws in _DRAWING}
        inputs: list[Arguments] = eval(self.family.inputs, {**drawing, **self.slots, "rng": rng})
        return inputs


def draw_function(family: FunctionFamily, rng: Random) -> DrawnFunction:
    """Draw a random function of the family."""
    names: list[str] = []
    for kind in family.parameters:
        names.append(rng.choice([name for name in PARAMETER_NAMES[kind] if name not in names]))
    while True:
        slots = {slot: rng.choice(choices) for slot, choices in family.slots.items()}
        whole = [value for value in slots.values() if isinstance(value, int)]
        if len(set(whole)) == len(whole) and eval(family.valid, dict(slots)):
            return DrawnFunction(family, tuple(names), slots)


def draw_numbers(rng: Random, *edges: int) -> list[Arguments]:
    """Draw one whole number per case: the edges, then random numbers."""
    return [(edge,) for edge in edges] + [(rng.randint(-40, 140),) for _ in range(NUM_CASES - len(edges))]


def draw_numbers_around_interval(rng: Random, low: int, high: int) -> list[Arguments]:
    """Draw numbers around both ends of an interval."""
    return draw_numbers(rng, low - 1, low, low + 1, high - 1, high, high + 1)


def draw_number_pairs(rng: Random, *edges: Arguments) -> list[Arguments]:
    """Draw two whole numbers per case: the edges, then random pairs."""
    return [*edges, *((rng.randint(-30, 90), rng.randint(1, 30)) for _ in range(NUM_CASES - len(edges)))]


def draw_list_containing(rng: Random, length: int, *members: int, low: int = -20, high: int = 120) -> list[int]:
    """Draw a list that holds the members, in random order."""
    drawn = [*members, *(rng.randint(low, high) for _ in range(length - len(members)))]
    rng.shuffle(drawn)
    return drawn


def draw_lists(rng: Random, *edges: list[int]) -> list[Arguments]:
    """Draw one list per case: the edges, then random lists."""
    others = ((draw_list_containing(rng, rng.randint(3, 9)),) for _ in range(NUM_CASES - len(edges)))
    return [*((edge,) for edge in edges), *others]


def draw_lists_around_limit(rng: Random, k: int) -> list[Arguments]:
    """Draw lists around a limit: only the limit, only smaller numbers, only larger ones, none, mixed."""
    return draw_lists(
        rng, [k], [k - 1, k - 1], [k + 1, k + 1], [], *(draw_list_containing(rng, 7, k - 1, k, k + 1) for _ in range(2))
    )


def draw_texts(rng: Random, lengths: Iterable[int], letters: str = "abcdefghijklmnopqrstuvwxyz") -> list[Arguments]:
    """Draw one text per length from the given letters."""
    return [("".join(rng.choice(letters) for _ in range(length)),) for length in lengths]


def draw_text_containing(rng: Random, letter: str, count: int) -> str:
    """Draw a text that holds the letter ``count`` times, among other letters."""
    ((others,),) = draw_texts(rng, [rng.randint(2, 6)], "aeiou".replace(letter, ""))
    letters = [letter] * count + list(others)
    rng.shuffle(letters)
    return "".join(letters)


def draw_dict_containing(rng: Random, *values: int) -> dict[str, int]:
    """Draw a dictionary that holds the values and one more value, with random words as keys."""
    drawn = [*values, rng.randint(0, 120)]
    return dict(zip(rng.sample(WORDS, len(drawn)), drawn, strict=True))


def draw_dicts_around_word(rng: Random, k: int, word: str) -> list[Arguments]:
    """Draw dictionaries with and without a word."""
    without = [{other: rng.randint(0, 120) for other in rng.sample(WORDS, n) if other != word} for n in (1, 3)]
    return [
        ({},),
        *((table,) for table in without),
        *(({**draw_dict_containing(rng), word: value},) for value in (0, 1, k, rng.randint(2, 99))),
        ({word: rng.randint(2, 99)},),
    ]


_DRAWING: tuple[Callable[..., Any], ...] = (
    *(draw_numbers, draw_numbers_around_interval, draw_number_pairs, draw_list_containing, draw_lists),
    *(draw_lists_around_limit, draw_texts, draw_text_containing, draw_dict_containing, draw_dicts_around_word),
)


_SETS = {"ANY": ANY, "BOUNDS": BOUNDS, "SIGNS": SIGNS, "WORDS": WORDS}


def _parse_family(name: str, row: Mapping[str, Any]) -> FunctionFamily:
    return FunctionFamily(
        name,
        tuple(row["functions"]),
        tuple(row["parameters"]),
        {slot: _parse_slot_choices(given) for slot, given in row["slots"].items()},
        tuple(row["wordings"]),
        _indented_bodies(row["bodies"]),
        compile(row["inputs"], name, "eval"),
        compile(row.get("valid", "True"), name, "eval"),
        row.get("tellable", ""),
        row.get("held_out", False),
    )


def _parse_slot_choices(given: Any) -> Sequence[Any]:
    return eval(given, _SETS) if isinstance(given, str) else [tuple(v) if isinstance(v, list) else v for v in given]


def _indented_bodies(templates: Sequence[str]) -> tuple[str, str]:
    body, bug = (indent(template, "    ") for template in templates)
    return body, bug


_TABLE = tomllib.loads(Path(__file__).with_name("families.toml").read_text(encoding="utf-8"))
FAMILIES = tuple(_parse_family(name, row) for name, row in _TABLE.items())
