"""From a family of small functions to problems: draw, render, split by reference program, make test cases.

A stable hash of the reference program alone decides everything about a problem: wording, test cases, split, and
whether the demonstration carries the bug. So two seeds choose different problems, but never put one program on both
sides of the split.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random
from typing import Any

from lit_rl.data.basics.families import NUM_CASES, Arguments, DrawnFunction, FunctionFamily, draw_function
from lit_rl.data.task import Split
from lit_rl.errors import UsageError
from lit_rl.execution.checks import CallTests
from lit_rl.execution.interface import FailedCase
from lit_rl.execution.wire.value_text import call_text, value_text
from lit_rl.types import Problem

Case = tuple[Arguments, Any]

# Half of the cases stay hidden: fewer would let wrong programs pass.
MAX_PUBLIC_CASES = NUM_CASES // 2
VALIDATION_SHARE = 0.2
CASE_SECONDS = 2.0
# After this many draws in a row without a new program, the family counts as exhausted.
MAX_MISSES = 2000

# The prompt of a problem's second turn is a whole first turn: signature and docstring, a wrong body, one line with the
# public case that the body fails, signature and docstring again. ``Repair(template=REPAIR_TEMPLATE)`` makes the same
# prompt if a policy wrote the wrong body, so imitation shows a policy what a second turn looks like.
REPAIR_TEMPLATE = "\n# {case}\n{program_prefix}"
END_OF_TURN = "<|endoftext|>"
"""EOS token of the task's own tokenizer."""


def dump_normalised_tree(source: str) -> str:
    """Return the syntax tree of a one-function program as text, without anything that wording can change.

    Names of the function and of its parameters are replaced by their positions; docstring, comments and
    layout are gone. Two programs with the same text compute the same thing in the same way.
    """
    tree = ast.parse(source)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    renamed = {argument.arg: f"_{index}" for index, argument in enumerate(function.args.args)}
    function.name = "f"
    if ast.get_docstring(function) is not None:
        del function.body[0]
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            node.arg = renamed.get(node.arg, node.arg)
        elif isinstance(node, ast.Name):
            node.id = renamed.get(node.id, node.id)
    return ast.dump(function)


def hash_to_unit_interval(*words: str) -> float:
    """Return a number in [0, 1) that depends on the words only: the same in every process and Python version."""
    digest = hashlib.sha256("\x00".join(words).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


@dataclass(frozen=True)
class DrawnProblemSettings:
    """Settings by which draws become problems, see :class:`lit_rl.data.Basics`."""

    bug_share: float
    num_public_cases: int = 0
    untold_constants: bool = False
    second_turn_share: float = 0.0


def draw_distinct_problems(
    family: FunctionFamily, count: int, *, seed: int, split: Split | None, rendering: DrawnProblemSettings
) -> Iterator[Problem]:
    """Yield distinct problems of a family whose reference programs belong to a split; ``None`` takes both splits."""
    rng = Random(f"{seed}/{split}/{family.name}")
    seen: set[str] = set()
    misses = 0
    while len(seen) < count and misses < MAX_MISSES:
        drawn = draw_function(family, rng)
        reference = drawn.program_from_body(drawn.correct_and_buggy_bodies()[0])
        # A program belongs to one of the splits, by the hash of its normalised syntax tree.
        is_held_out = hash_to_unit_interval("split", dump_normalised_tree(reference)) < VALIDATION_SHARE
        if reference in seen or (split is not None and is_held_out != (split == "validation")):
            misses += 1
            continue
        misses = 0
        seen.add(reference)
        yield build_drawn_problem(drawn, rendering)
    if len(seen) < count:
        raise UsageError(
            f"family {family.name} has only {len(seen)} distinct {split or 'reference'} programs, "
            f"got a request for {count}: ask for fewer problems"
        )


def build_drawn_problem(drawn: DrawnFunction, rendering: DrawnProblemSettings) -> Problem:
    """Build the problem of a draw: prompt, test cases, reference and demonstration.

    ``fields`` holds ``family``, ``demonstration`` (a body for imitation), ``bug`` (the body with the bug),
    ``demonstration_has_bug`` and, if a constant was left out, that constant as ``untold``.
    """
    family = drawn.family
    body, bug = drawn.correct_and_buggy_bodies()
    reference = drawn.program_from_body(body)
    identity = hashlib.sha256(f"{family.name}\x00{reference}".encode()).hexdigest()[:12]
    rng = Random(identity)
    function, wording = rng.choice(family.functions), rng.choice(family.wordings)
    has_bug = hash_to_unit_interval("demonstration", identity) < rendering.bug_share
    untold = family.tellable if rendering.untold_constants else ""
    cases = draw_public_and_hidden_cases(
        lambda: drawn.draw_inputs(rng),
        reference,
        drawn.program_from_body(bug),
        rendering.num_public_cases,
        wanted=repr(drawn.slots[untold]) if untold else None,
    )
    assert cases is not None, f"family {family.name}: no inputs tell the bug from the reference"
    public, hidden = cases
    told = replace(drawn, slots={**drawn.slots, untold: "?"}) if untold else drawn
    prompt = f'def {function}({", ".join(drawn.names)}):\n    """{told.fill_template(wording)}"""\n'
    problem = Problem(
        task_id=f"basics/{family.name}/{identity}",
        prompt=prompt,
        check=CallTests(hidden, function, CASE_SECONDS),
        public_check=CallTests(public, function, CASE_SECONDS) if public else None,
        program_prefix=prompt,
        reference=f"{prompt}{body}\n",
        fields={
            "family": family.name,
            "demonstration": bug if has_bug else body,
            "demonstration_has_bug": has_bug,
            "bug": bug,
            **({"untold": drawn.slots[untold]} if untold else {}),
        },
    )
    if hash_to_unit_interval("second turn", identity) >= rendering.second_turn_share:
        return problem
    return (
        second_turn_problem(
            problem, _wrong_first_turn_body(drawn, untold, rng, rendering), drawn.program_from_body, repeats=has_bug
        )
        or problem
    )


def _wrong_first_turn_body(drawn: DrawnFunction, untold: str, rng: Random, rendering: DrawnProblemSettings) -> str:
    """Return a wrong first turn: the buggy body or, if a constant was left out, either body with a guess for it."""
    if not untold:
        return drawn.correct_and_buggy_bodies()[1]
    true = drawn.slots[untold]
    guess = rng.choice([value for value in drawn.family.slots[untold] if value != true])
    has_bug = rng.random() < rendering.bug_share
    return replace(drawn, slots={**drawn.slots, untold: guess}).correct_and_buggy_bodies()[has_bug]


def second_turn_problem(
    problem: Problem, attempt: str, program: Callable[[str], str], *, repeats: bool
) -> Problem | None:
    """Return the problem after the failed first turn ``attempt``; ``None`` if that body passes the public cases.

    ``program`` makes the whole function ``f`` from a body. With ``repeats`` the demonstration writes the same body
    again, in spite of the feedback.
    """
    public = problem.public_check
    assert isinstance(public, CallTests)
    body = str(problem.reference)[len(problem.program_prefix) : -1]
    function = function_from_source(program(attempt))
    for number, (arguments, expected) in enumerate(public.cases, 1):
        value, raised = call_and_catch(function, arguments)
        if raised or repr(value) != repr(expected):
            actual = raised or value_text(value)
            case = FailedCase(number, call_text(public.entry_point, arguments, {}), value_text(expected), actual)
            feedback = REPAIR_TEMPLATE.format(case=case.line(), program_prefix=problem.program_prefix)
            return replace(
                problem,
                task_id=f"{problem.task_id}/turn_2",
                prompt=f"{problem.prompt}{attempt}{END_OF_TURN}{feedback}",
                fields={**problem.fields, "demonstration": attempt if repeats else body},
            )
    return None


def draw_public_and_hidden_cases(
    draw_inputs: Callable[[], list[Arguments]],
    reference: str,
    buggy: str,
    num_public: int,
    wanted: str | None = None,
) -> tuple[tuple[Case, ...], tuple[Case, ...]] | None:
    """Return public and hidden cases of a problem; ``None`` if none of 100 draws tells the bug from the reference.

    ``wanted`` is the ``repr`` of an answer that the first public case must have; ``None`` if any answer will do.
    """
    right, wrong = function_from_source(reference), function_from_source(buggy)
    for _ in range(100):
        inputs = draw_inputs()[:NUM_CASES]
        cases = tuple((arguments, right(*arguments)) for arguments in inputs)
        answers = [(*call_and_catch(wrong, arguments), expected) for arguments, expected in cases]
        shows_bug = [bool(raised) or repr(answer) != repr(expected) for answer, raised, expected in answers]
        if parts := _split_public_hidden_cases(cases, shows_bug, num_public, wanted):
            return parts
    return None


def _split_public_hidden_cases(
    cases: tuple[Case, ...], shows_bug: Sequence[bool], num_public: int, wanted: str | None
) -> tuple[tuple[Case, ...], tuple[Case, ...]] | None:
    """Return public and hidden cases, none in both; if possible, the bug shows in the public cases too.

    Return ``None`` if no division leaves hidden cases on which the bug shows and that no constant answer passes.
    """
    arguments, answers = [repr(given) for given, _ in cases], [repr(expected) for _, expected in cases]
    distinct = [index for index in range(len(cases)) if arguments.index(arguments[index]) == index]
    found = None
    if wanted is not None:
        # The shortest call first: feedback has to fit together with prompt and program.
        distinct.sort(key=lambda index: (answers[index] != wanted, len(arguments[index]) * (answers[index] == wanted)))
    for public in combinations(distinct, num_public):
        if wanted is not None and answers[public[0]] != wanted:
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


def function_from_source(source: str) -> Callable[..., Any]:
    """Return the function ``f`` of one of our own programs."""
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    return namespace["f"]  # type: ignore[no-any-return]


def call_and_catch(function: Callable[..., Any], arguments: Arguments) -> tuple[Any, str]:
    """Return a function's result, and the name of its exception if it raises one."""
    try:
        return function(*arguments), ""
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return None, type(error).__name__
