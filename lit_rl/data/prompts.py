"""The text of a problem as a prompt, in two forms.

In completion form, for base models, the prompt is the beginning of a document, which the model continues up to a stop
string. In instruct form, for chat models, it is messages for the chat template; the answer is in a fenced block.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Literal

from lit_rl.types import Message

Form = Literal["completion", "instruct"]

FUNCTION_STOPS = ("\nclass", "\ndef", "\n#", "\nif", "\nprint")
"""End of a function's body: the first line at column 0 that begins something else (HumanEval)."""

PROGRAM_STOPS = ("\nassert", "\nprint", "\nif", '\n"""')
"""End of a program of several functions: lines that begin to use or describe it (MBPP after a docstring)."""

BLOCK_STOPS = ("[DONE]",)
"""End of a program between ``[BEGIN]`` and ``[DONE]`` (MBPP with examples)."""


def chat_messages(*turns: str, system: str | None = None) -> tuple[Message, ...]:
    """Return messages for a chat template: turns of user and assistant in alternation, the user first.

    Example:
        >>> chat_messages("2 + 2?")
        ({'role': 'user', 'content': '2 + 2?'},)
    """
    messages = [] if system is None else [{"role": "system", "content": system}]
    for index, turn in enumerate(turns):
        messages.append({"role": "assistant" if index % 2 else "user", "content": turn})
    return tuple(messages)


def fenced_block(source: str, language: str = "python") -> str:
    """Return source as one fenced block, as an answer should look."""
    return f"```{language}\n{source.strip(chr(10))}\n```"


def called_function_name(program: str, asserts: str) -> str | None:
    """Return the program's function that asserts call; ``None`` if no function is called, or a text is not Python."""
    try:
        defined = {n.name for n in ast.walk(ast.parse(program)) if isinstance(n, ast.FunctionDef)}
        calls = [n.func for n in ast.walk(ast.parse(asserts)) if isinstance(n, ast.Call)]
    except SyntaxError:
        return None
    return next((f.id for f in calls if isinstance(f, ast.Name) and f.id in defined), None)


def mbpp_style_prompt(
    task: str, tests: Sequence[str], form: Form, solved: Sequence[tuple[str, Sequence[str], str]] = ()
) -> str | tuple[Message, ...]:
    """Return the prompt of a task in a sentence or two with tests to pass, as in MBPP.

    Completion form without examples is a docstring that holds task and tests; with examples each program
    is between ``[BEGIN]`` and ``[DONE]``, as in the paper. Instruct form asks for one fenced block.

    Source:
        Austin et al. 2021, https://arxiv.org/abs/2108.07732 (three examples, three tests each)
    """
    if form == "instruct":
        turns: list[str] = []
        for example, example_tests, program in solved:
            turns += [_task_text_for_chat_model(example, example_tests), fenced_block(program)]
        return chat_messages(*turns, _task_text_for_chat_model(task, tests))
    if not solved:
        lines = [task.strip(), *(test.strip() for test in tests)]
        # A task text with a quote at its end or a backslash must not end or change the docstring.
        return '"""\n' + "\n".join(lines).replace('"""', "'''") + '\n"""\n'
    blocks = [
        f"{_task_text_for_base_model(t, shown)}\n[BEGIN]\n{program.strip()}\n[DONE]\n\n" for t, shown, program in solved
    ]
    return "".join(blocks) + f"{_task_text_for_base_model(task, tests)}\n[BEGIN]\n"


def contest_prompt(question: str, starter_code: str = "", function: str | None = None) -> tuple[Message, ...]:
    """Return a contest prompt in LiveCodeBench's parts: system message, question, format, place of the answer.

    Source:
        the parts: Jain et al. 2024, https://arxiv.org/abs/2403.07974; the wording is this project's own.
    """
    system = (
        "You are a skilled Python programmer. You are given a programming problem and write a correct Python "
        "program for it that passes all of its tests."
    )
    if starter_code.strip():
        how = "Build your program on this starter code and keep its names; put it between the backticks."
        block = starter_code.strip("\n")
    elif function:
        how = f"Define a function named {function}; the tests call it. Put it between the backticks."
        block = "# YOUR CODE HERE"
    else:
        how = (
            "Read the input from stdin, solve the problem and write the answer to stdout; do not test on the "
            "sample inputs themselves. Put the program between the backticks."
        )
        block = "# YOUR CODE HERE"
    parts = (
        f"### Question:\n{question.strip()}",
        f"### Format: {how}\n{fenced_block(block)}",
        "### Answer: (in the format above, with the backticks)\n",
    )
    return chat_messages("\n\n".join(parts), system=system)


def request_to_finish_function(beginning: str) -> str:
    """Return a request to a chat model to finish a function, in one fenced block."""
    return (
        "Finish this Python function. Answer with the whole function, imports included, in one fenced block.\n\n"
        f"{fenced_block(beginning)}"
    )


def _task_text_for_base_model(task: str, tests: Sequence[str]) -> str:
    shown = "\n".join(test.strip() for test in tests)
    return f"Task for a Python programmer: {task.strip()}" + (f"\nTests it has to pass:\n{shown}" if tests else "")


def _task_text_for_chat_model(task: str, tests: Sequence[str]) -> str:
    shown = "\n".join(test.strip() for test in tests)
    asked = f"{task.strip()}\n\nAnswer with one fenced block of Python."
    return asked + (f" It has to pass these tests:\n\n{fenced_block(shown)}" if tests else "")
