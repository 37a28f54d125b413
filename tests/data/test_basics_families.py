"""The families of the embedded task: right by an independent oracle, and tested hard enough."""

import ast
import copy
import operator
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from lit_rl.data.basics.families import FAMILIES, NUM_CASES, DrawnFunction, FunctionFamily, draw_function
from lit_rl.data.basics.problems import DrawnProblemSettings, build_drawn_problem
from lit_rl.types import Problem

EXCEPTIONS = (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, NameError)
COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


def bound(slots: Any, value: int, limit: int) -> bool:
    return COMPARE[slots["op"][0]](value, limit)


def keep(slots: Any, values: list[int]) -> list[int]:
    return [value for value in values if bound(slots, value, slots["k"])]


def pad(slots: Any, text: str) -> str:
    filling = slots["c"] * max(0, slots["k"] - len(text))
    return filling + text if slots["op"][2] == "left" else text + filling


# What each docstring asks for, written another way than the reference, from the slots.
ORACLES: dict[str, Callable[..., Any]] = {
    "scale_and_add": lambda s, x: sum([x] * s["k"], s["c"]),
    "subtract": lambda s, x: s["c"] * x - s["c"] * s["k"],
    "remainder": lambda s, x: divmod(x, s["k"])[1] == s["c"],
    "safe_divide": lambda s, x, y: s["k"] if y == 0 else divmod(x, y)[s["op"][0] != "//"],
    "clamp": lambda s, x: sorted([s["k"], x, s["c"]])[1],
    "between": lambda s, x: x in range(s["k"], s["c"] + 1),
    "near": lambda s, x: bound(s, max(x - s["k"], s["k"] - x), s["c"]),
    "multiple_and_bound": lambda s, x: divmod(x, s["k"])[1] == 0 and bound(s, x, s["c"]),
    "prefix": lambda s, x: getattr("".join(x[i] for i in range(min(s["k"], len(x)))), s["op"])(),
    "repeat_joined": lambda s, x: (x + s["c"]) * (s["k"] - 1) + x,
    "count_sign": lambda s, x: bound(s, sum(letter == s["c"] for letter in x), s["k"]),
    "replace_sign": lambda s, x: "".join(s["w"] if letter == s["c"] else letter for letter in x),
    "pad": pad,
    "keep": keep,
    "add_then_scale": lambda s, x: [s["k"] * value + s["k"] * s["c"] for value in x],
    "every_kth": lambda s, x: [x[place] for place in range(s["c"], len(x), s["k"])],
    "every_or_some": lambda s, x: len(keep(s, x)) >= (len(x) if s["all"][2] == "every" else 1),
    "item_or_default": lambda s, x: dict(enumerate(x)).get(s["k"], s["c"]),
    "get_or_default": lambda s, x: x[s["w"]] if s["w"] in x else s["k"],
    "keys_by_value": lambda s, x: [key for key in x if bound(s, x[key], s["k"])],
    "add_to_key": lambda s, x: {**x, s["w"]: sum(x[key] for key in x if key == s["w"]) + s["k"]},
    "sum_range": lambda s, x: sum(i for i in range(s["k"], 400) if i <= x and (i - s["k"]) % s["c"] == 0),
    "total_above": lambda s, x: s["c"] + sum(keep(s, x)),
    # k times x -> 2x + c
    "repeat_step": lambda s, x: x * 2 ** s["k"] + s["c"] * (2 ** s["k"] - 1),
    "replace_if": lambda s, x: s["c"] if bound(s, x, s["k"]) else x,
    "label": lambda s, x: [s["w"], s["c"]][bound(s, x, s["k"])],
    "spread": lambda s, x: bound(s, sorted(x)[-1] - sorted(x)[0], s["k"]),
    "suffix_repeated": lambda s, x: "".join(x[max(0, len(x) - s["k"]) :] for _ in range(s["c"])),
}


def drawn(family: FunctionFamily, count: int) -> list[tuple[DrawnFunction, Problem]]:
    draws = [draw_function(family, Random(f"test {family.name} {i}")) for i in range(count)]
    return [(d, build_drawn_problem(d, DrawnProblemSettings(bug_share=0.6))) for d in draws]


def passes(source: str, problem: Problem) -> bool:
    """Return whether a program passes all cases: a family's own source or a mutant of it, run here."""
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    function, cases = namespace[problem.check.entry_point], problem.check.cases
    try:
        return all(repr(function(*copy.deepcopy(given))) == repr(expected) for given, expected in cases)
    except EXCEPTIONS:
        return False


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_cases_are_what_an_oracle_says_and_tell_the_reference_from_the_bug_and_constants(
    family: FunctionFamily,
) -> None:
    assert len(FAMILIES) == len(ORACLES) == 28
    for d, problem in drawn(family, 30):
        for arguments, expected in problem.check.cases:
            assert ORACLES[family.name](d.slots, *arguments) == expected, (problem.reference, arguments)
        assert 6 <= len(problem.check.cases) <= NUM_CASES
        assert passes(problem.reference, problem)
        assert not passes(problem.prompt + problem.fields["bug"] + "\n", problem)
        for constant in {repr(expected) for _, expected in problem.check.cases}:
            assert not passes(f"{problem.prompt}    return {constant}\n", problem)
        for parameter in ast.parse(problem.reference).body[0].args.args:  # type: ignore[attr-defined]
            assert not passes(f"{problem.prompt}    return {parameter.arg}\n", problem)
        assert ">>>" not in problem.prompt, "no case can be read in it"
        assert problem.prompt.endswith('"""\n') and problem.program_prefix == problem.prompt
        assert problem.fields["demonstration"].startswith("    ")
        assert not problem.fields["demonstration"].endswith("\n")
