"""The embedded task as a conversation: a chat model is asked for the whole function in a fenced block."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lit_rl.data.prompts import chat, fenced, finish_request
from lit_rl.types import Problem

SOLVED = (
    ('def mean(xs):\n    """Mean of xs, or 5 if xs is empty."""\n', "    return sum(xs) / len(xs) if xs else 5"),
    ('def shout(word):\n    """word in upper case, with 3 "?" at its end."""\n', '    return word.upper() + "?" * 3'),
    ('def odd(n):\n    """Is n odd and not 7?"""\n', "    return n % 2 == 1 and n != 7"),
)
"""Examples for few-shot prompts, (beginning, body) of a function; no family has them."""

ANSWER_STOPS = ("\n```\n\n",)
"""What comes after the block is not needed; an opening fence is not followed by an empty line."""


def as_chat(problem: Problem, few_shot: int) -> Problem:
    """A problem in completion form as one in instruct form: same cases, same task id.

    Demonstration and bug become what a chat model should answer: the function without its docstring, in a block.

    Args:
        problem: of the embedded task, of one turn.
        few_shot: how many of :data:`SOLVED` come first, as earlier turns.
    """
    beginning = str(problem.prompt)
    turns: list[str] = []
    for solved, body in SOLVED[:few_shot]:
        turns += [finish_request(solved), _answer(solved, body)]
    answers: dict[str, Any] = {name: _answer(beginning, problem.fields[name]) for name in ("demonstration", "bug")}
    return replace(
        problem,
        prompt=chat(*turns, finish_request(beginning)),
        program_prefix="",
        stop_strings=ANSWER_STOPS,
        fields={**problem.fields, **answers},
    )


def _answer(beginning: str, body: str) -> str:
    signature = beginning.partition("\n")[0]
    return fenced(f"{signature}\n{body}")
