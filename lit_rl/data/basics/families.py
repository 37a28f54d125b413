"""The families of the embedded task: small functions, each family with one systematic bug.

The hard part for a small policy is to copy the right constants and names from signature and docstring, and to
unlearn the bug that its demonstrations carry; none asks for reasoning or for arithmetic on constants.
"""

from __future__ import annotations

from lit_rl.data.basics.collection_families import DICTIONARIES, LISTS, STRINGS
from lit_rl.data.basics.inputs import (
    ANY,
    BOUNDS,
    one_text,
)
from lit_rl.data.basics.number_families import ARITHMETIC, COMPARISONS, CONDITIONS, LOOPS
from lit_rl.data.basics.problems import Family

TRAINED = (*ARITHMETIC, *COMPARISONS, *STRINGS, *LISTS, *DICTIONARIES, *LOOPS, *CONDITIONS)

TELLABLE = tuple(family for family in TRAINED if family.tellable)

HELD_OUT = (
    Family(
        name="spread",
        functions=("spread", "wide"),
        parameters=("list",),
        slots={"k": ANY, "op": BOUNDS},
        wordings=(
            "True if largest minus smallest of {x} is {op[2]} {k}.",
            "Is the spread of {x} {op[2]} {k}?",
        ),
        body="    return max({x}) - min({x}) {op[0]} {k}",
        bug="    return max({x}) {op[0]} {k}",
        inputs=lambda rng, slots: [
            ([low, low + slots["k"] + extra, low + 1],)
            for low, extra in zip((-50, 5, 9, -70, 40, 3, 7, 0), (0, -1, 1, 1, -1, 0, 30, -2), strict=True)
        ],
    ),
    Family(
        name="suffix_repeated",
        functions=("tail", "echo"),
        parameters=("text",),
        slots={"k": range(2, 21), "c": range(2, 21)},
        wordings=("The last {k} letters of {x}, {c} times.", "Repeat the last {k} letters of {x} {c} times."),
        body="    return {x}[-{k}:] * {c}",
        bug="    return {x}[:-{k}] * {c}",
        inputs=lambda rng, slots: [(one_text(rng, slots["k"] + extra),) for extra in (-1, 0, 1, 2, 3, 5, 8, 13)],
    ),
)
