"""The families of the embedded task: right by an independent oracle, and tested hard enough."""

from __future__ import annotations

import ast
import copy
import itertools
import operator
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Literal

import pytest

from lit_rl.data.basics.families import FAMILIES, NUM_CASES, Draw, Family, draw
from lit_rl.data.basics.problems import Rendering, Trees, build_problem, normalised
from lit_rl.execution.interface import Verdict
from lit_rl.execution.languages import how_to_install, toolchain
from lit_rl.execution.sandbox import Sandbox
from lit_rl.types import Problem

EXCEPTIONS = (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, NameError)
COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


def bound(slots: Any, value: int, limit: int) -> bool:
    return COMPARE[slots["op"][0]](value, limit)


def keep(slots: Any, values: list[int]) -> list[int]:
    return [value for value in values if bound(slots, value, slots["k"])]


def safe_divide(slots: Any, x: int, y: int) -> int:
    if y == 0:
        return slots["k"]
    quotient, remainder = divmod(x, y)
    return quotient if slots["op"][0] == "//" else remainder


def take_steps(values: list[int], start: int, step: int) -> list[int]:
    return [value for place, value in enumerate(values) if place >= start and (place - start) % step == 0]


def repeat_step(slots: Any, x: int) -> int:
    # k times x -> 2x + c is x * 2^k + c * (2^k - 1).
    return x * 2 ** slots["k"] + slots["c"] * (2 ** slots["k"] - 1)


def pad(slots: Any, text: str) -> str:
    filling = slots["c"] * max(0, slots["k"] - len(text))
    return filling + text if slots["op"][2] == "left" else text + filling


def added(slots: Any, table: dict[str, int]) -> dict[str, int]:
    changed = {slots["w"]: 0} if slots["w"] not in table else {}
    changed = {**table, **changed}
    changed[slots["w"]] += slots["k"]
    return changed


# What each docstring asks for, written another way than the reference, from the slots.
ORACLES: dict[str, Callable[..., Any]] = {
    "scale_and_add": lambda s, x: sum([x] * s["k"], s["c"]),
    "subtract": lambda s, x: s["c"] * x - s["c"] * s["k"],
    "remainder": lambda s, x: divmod(x, s["k"])[1] == s["c"],
    "safe_divide": safe_divide,
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
    "every_kth": lambda s, x: take_steps(x, s["c"], s["k"]),
    "every_or_some": lambda s, x: len(keep(s, x)) >= (len(x) if s["all"][2] == "every" else 1),
    "item_or_default": lambda s, x: dict(enumerate(x)).get(s["k"], s["c"]),
    "get_or_default": lambda s, x: x[s["w"]] if s["w"] in x else s["k"],
    "keys_by_value": lambda s, x: [key for key in x if bound(s, x[key], s["k"])],
    "add_to_key": added,
    "sum_range": lambda s, x: sum(i for i in range(s["k"], 400) if i <= x and (i - s["k"]) % s["c"] == 0),
    "total_above": lambda s, x: s["c"] + sum(keep(s, x)),
    "repeat_step": repeat_step,
    "replace_if": lambda s, x: s["c"] if bound(s, x, s["k"]) else x,
    "label": lambda s, x: [s["w"], s["c"]][bound(s, x, s["k"])],
    "spread": lambda s, x: bound(s, sorted(x)[-1] - sorted(x)[0], s["k"]),
    "suffix_repeated": lambda s, x: "".join(x[max(0, len(x) - s["k"]) :] for _ in range(s["c"])),
}


def drawn(
    family: Family, count: int, language: Literal["python", "javascript"] = "python"
) -> list[tuple[Draw, Problem]]:
    draws = [draw(family, Random(f"test {family.name} {i}")) for i in range(count)]
    return [(d, build_problem(d, Rendering(bug_share=0.6, language=language))) for d in draws]


def function_of(source: str, name: str) -> Callable[..., Any]:
    namespace: dict[str, Any] = {}
    exec(source, namespace)  # the families' own source, and mutants of it
    return namespace[name]


def passes(source: str, problem: Problem) -> bool:
    """Return whether a program of this test passes all cases, run here."""
    function = function_of(source, problem.check.entry_point)
    try:
        return all(
            repr(function(*copy.deepcopy(arguments))) == repr(expected) for arguments, expected in problem.check.cases
        )
    except EXCEPTIONS:
        return False


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_cases_are_what_an_oracle_says_and_tell_the_reference_from_the_bug_and_constants(
    family: Family,
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
        # No case can be read in the prompt, which ends with a line.
        assert ">>>" not in problem.prompt
        assert problem.prompt.endswith('"""\n')
        assert problem.program_prefix == problem.prompt
        assert problem.fields["demonstration"].startswith("    ")
        assert not problem.fields["demonstration"].endswith("\n")


COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)


def variants(node: ast.AST) -> Iterator[ast.AST]:
    """Replacements of a node: a constant off by one, another operator, another order, a part of it."""

    def other(**fields: Any) -> ast.AST:
        return type(node)(**{**dict(ast.iter_fields(node)), **fields})

    match node:
        case ast.Constant(value=int(value)):
            yield from map(ast.Constant, (value + 1, value - 1, 0))
        case ast.Constant(value=str(value)):
            yield from map(ast.Constant, (value[1:], value[:-1]))
        case ast.Compare(left=left, ops=ops, comparators=[*between, right]):
            for i in range(len(ops)):
                yield from (other(ops=[*ops[:i], kind(), *ops[i + 1 :]]) for kind in COMPARISONS)
            yield other(left=right, comparators=[*between, left])
        case ast.BinOp(left=left, right=right):
            yield from (other(op=kind()) for kind in OPERATORS)
            yield from (other(left=right, right=left), left)
        case ast.BoolOp(values=values):
            yield from values
        case ast.IfExp(body=body, orelse=orelse):
            yield from (other(body=orelse, orelse=body), body, orelse)
        case ast.Call(args=[one]):
            yield one
        case ast.Call(args=[*args, last]) if args:
            yield from (other(args=[last, *reversed(args)]), other(args=args))
        case ast.Slice(lower=lower, upper=upper):
            yield from (other(lower=upper, upper=lower), other(step=None))


class Mutant(ast.NodeTransformer):
    """Puts one of all variants in its place."""

    def __init__(self, number: int) -> None:
        self.left = number

    def visit(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        for variant in variants(node):
            self.left -= 1
            if self.left == -1:
                return variant
        return node


def mutants(source: str) -> Iterator[str]:
    for number in itertools.count():
        mutant = Mutant(number)
        changed = ast.unparse(ast.fix_missing_locations(mutant.visit(ast.parse(source))))
        if mutant.left >= 0:
            return
        if normalised(changed) != normalised(source):
            yield changed


def answer(function: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    try:
        return repr(function(*copy.deepcopy(arguments)))
    except EXCEPTIONS as error:
        return type(error).__name__


def other_inputs(d: Draw, rng: Random) -> list[tuple[Any, ...]]:
    """Hundreds of inputs beyond the family's own: numbers, lists, tables and texts around the constants."""
    constants = [value for value in d.slots.values() if isinstance(value, int)]
    letters = "".join(value for value in d.slots.values() if isinstance(value, str) and len(value) == 1) + "aBc"

    def number() -> int:
        return rng.choice([rng.randint(-99, 199), rng.choice(constants or [0]) + rng.randint(-1, 1)])

    def other(kind: str) -> Any:
        if kind == "number":
            return number()
        length = rng.choice([rng.randint(0, 40), max(0, rng.choice(constants or [0]) + rng.randint(-1, 1))])
        if kind == "list":
            return [number() for _ in range(length)]
        if kind == "text":
            return "".join(rng.choice(letters) for _ in range(length))
        return {rng.choice((d.slots.get("w", "hen"), "fox", "owl", "red")): number() for _ in range(length % 4)}

    own = [arguments for _ in range(10) for arguments in d.draw_inputs(rng)]
    return own + [tuple(other(kind) for kind in d.family.parameters) for _ in range(200)]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_mutant_passes_only_if_it_computes_the_same(family: Family) -> None:
    """A mutant that survives the cases must agree with the reference on hundreds of other inputs too."""
    num_mutants = 0
    for d, problem in drawn(family, 4):
        name = problem.check.entry_point
        pool = other_inputs(d, Random(f"pool {problem.task_id}"))
        reference = function_of(problem.reference, name)
        for mutant in mutants(problem.reference):
            num_mutants += 1
            if passes(mutant, problem):
                changed = function_of(mutant, name)
                differing = [a for a in pool if answer(changed, a) != answer(reference, a)]
                assert not differing, (mutant, problem.reference, differing[:2])
    assert num_mutants >= 4 * 4


def test_trees_that_are_put_together_are_those_of_the_programs() -> None:
    """Numbers are filled into the tree of another program of the same shape."""
    for family in FAMILIES:
        trees, rng = Trees(), Random(7)
        for _ in range(20):
            drawn = draw(family, rng)
            assert trees.of(drawn) == normalised(drawn.program(drawn.bodies()[0])), family.name


def test_the_sandbox_agrees_in_javascript_that_references_pass_and_bugs_do_not(sandbox: Sandbox) -> None:
    if toolchain("javascript") is None:
        pytest.skip(how_to_install("javascript"))
    problems = [problem for family in FAMILIES for _, problem in drawn(family, 1, "javascript")]
    right = [(str(problem.reference), problem.check) for problem in problems]
    wrong = [(f"{problem.prompt}{problem.fields['bug']}", problem.check) for problem in problems]
    verdicts = [outcome.verdict for outcome in sandbox.judge_many([*right, *wrong])]
    assert set(verdicts[: len(right)]) == {Verdict.PASSED}
    assert set(verdicts[len(right) :]) <= {Verdict.WRONG_ANSWER, Verdict.EXCEPTION}
