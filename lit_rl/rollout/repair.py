"""The repair environment: after a failed program the policy reads its result and tries again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from lit_rl.errors import UsageError
from lit_rl.execution.checks import AssertTests, Check
from lit_rl.execution.interface import FailedCase, FaultyCheck, Outcome, Verdict
from lit_rl.execution.judging.asserts.prepared_tests import prepare_tests
from lit_rl.execution.languages import LANGUAGES
from lit_rl.execution.wire.value_text import shorten_text
from lit_rl.rollout.environment import Attempt, Environment
from lit_rl.signature_check import ValueLimit
from lit_rl.types import Problem, Program, StopReason

_MAX_LINE_LENGTH = 200
# Line ends as Python counts lines; ``str.splitlines`` splits at more.
_END_OF_LINE = re.compile(r"\r\n|\r|\n")
# Addresses differ from run to run, and feedback must not.
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,16}\b")
# The line is counted from the start of the whole program, which the policy may not have seen.
_PLACE_OF_SYNTAX = re.compile(r" \(<program>, line \d+\)$")
_NOTHING = "(nothing)"
_SENTENCES = {
    Verdict.PASSED: "Your program passed the public tests.",
    Verdict.NO_PROGRAM: "Your answer held no program.",
    Verdict.TIMED_OUT: "Your program took too long and was stopped.",
    Verdict.OUT_OF_MEMORY: "Your program used too much memory and was stopped.",
    Verdict.OUTPUT_LIMIT: "Your program wrote too much output and was stopped.",
    Verdict.INFRASTRUCTURE_FAILURE: "Your program could not be tested.",
}


def describe_attempt(attempt: Attempt, language: str) -> str:
    """Describe the result of an attempt, in plain sentences.

    Source:
        what is reported (the verdict, the first failing public test with its input, the expected and the actual value,
        or the exception): Gehring et al. 2024, section 2 and appendix, https://arxiv.org/abs/2410.02089
    """
    outcome = attempt.outcome
    if outcome is None:
        assert attempt.program is None, "an attempt needs its outcome"
        outcome = Outcome(Verdict.NO_PROGRAM)
    parts = [_SENTENCES.get(outcome.verdict) or _describe_failure(attempt.program, outcome, language)]
    if outcome.failed_case is not None:
        parts.append(_describe_case(outcome.failed_case, outcome.verdict))
    if attempt.stop_reason is StopReason.LENGTH and not outcome.passed:
        parts.append("Your answer was cut off at the token limit.")
    return _ADDRESS.sub("0x...", "\n".join(filter(None, parts)))


def _describe_failure(program: Program | None, outcome: Outcome, language: str) -> str:
    name, message = outcome.exception_type, outcome.exception_message
    if outcome.verdict is Verdict.WRONG_ANSWER:
        return "Your program gave a wrong answer." + (f" The test says: {name}: {message}" if message else "")
    title = LANGUAGES[language].title if language in LANGUAGES else language
    if outcome.verdict is Verdict.SYNTAX_ERROR and language != "python":
        return f"Your {title} program does not compile:\n{shorten_text(outcome.stderr.strip())}"
    raised = f"{name}: {message}".removesuffix(": ")
    if outcome.verdict is Verdict.SYNTAX_ERROR:
        sentence = f"Your program is not valid {title}: {_PLACE_OF_SYNTAX.sub('', raised)}"
    elif name is None or (name == "SystemExit" and not message):
        sentence = "Your program ended before it was done"
    elif name.startswith("SIG"):
        sentence = f"Your program was ended by the signal {name}"
    else:
        sentence = f"Your program raised {raised}"
    lines = _END_OF_LINE.split(program.source) if program is not None else []
    if program is None or outcome.line is None or not 0 < outcome.line <= len(lines):
        return sentence
    # The policy may never have seen the lines before its own: imports, helpers.
    own = outcome.line - program.prefix_lines
    place = f"Line {own} of your code" if own > 0 else "A line before your code"
    return f"{sentence}\n{place}: {shorten_text(lines[outcome.line - 1].strip(), _MAX_LINE_LENGTH)}"


def _describe_case(case: FailedCase, verdict: Verdict) -> str:
    if case.kind == "input":
        parts = [("Input", case.call or _NOTHING), ("Expected output", case.expected or _NOTHING)]
        wrong = verdict is Verdict.WRONG_ANSWER
        parts.append(("Actual output", case.actual or (_NOTHING if wrong else "")))
    else:
        parts = [("Test" if case.kind == "assert" else "Call", case.call), ("Expected", case.expected)]
        parts.append(("Actual", case.actual))
    texts = ((label, text.rstrip("\n")) for label, text in parts if text)
    return "\n".join(f"{label}:{chr(10) if chr(10) in text else ' '}{text}" for label, text in texts)


IN_A_CHAT = "{feedback}\n\nWrite the whole program again, corrected."
AFTER_A_PROGRAM = "\n\n{comment}\n\n{program_prefix}"
_PLACEHOLDERS = ("feedback", "comment", "case", "program_prefix", "turn", "max_turns")


class Repair(Environment):
    """Environment that reports a program's result under the public check, until it passes or turns are used up.

    The reward is that of the last program under ``Problem.check``, which this environment never reads. A conversation
    also ends if the sandbox failed.

    Args:
        max_turns: largest number of programs per problem, at least 2.
        template: template of a message. Placeholders: ``{feedback}`` (the result, in sentences), ``{comment}`` (the
            feedback as comment lines of the program's language), ``{case}`` (the failing case in one line, ``f(3): 5,
            not 6``, or the first sentence if none is known), ``{program_prefix}`` (the beginning of the program if the
            policy continues it, else empty), ``{turn}`` (number of the coming turn) and ``{max_turns}``. ``None`` takes
            ``IN_A_CHAT``, or ``AFTER_A_PROGRAM`` for problems whose completion continues the prompt.
        max_message_tokens: most tokens of a message, which is shortened in its middle; ``None``: no limit.
        max_row_tokens: tokens of a row after which there is no further turn; ``None``: the model's own limit.

    Source:
        Gehring et al. 2024 (RLEF), https://arxiv.org/abs/2410.02089: feedback from public tests, the reward from
        hidden ones, up to three turns
    """

    def __init__(
        self,
        max_turns: Annotated[
            int, ValueLimit("at least 2", lambda turns: turns >= 2, "use SingleTurn for one turn")
        ] = 2,
        template: str | None = None,
        max_message_tokens: int | None = 256,
        max_row_tokens: int | None = None,
    ) -> None:
        super().__init__(max_turns, max_message_tokens, max_row_tokens)
        if template is not None:
            template.format(**dict.fromkeys(_PLACEHOLDERS, ""))  # raises for another placeholder, before a rollout does
        self.template = template

    def check(self, problem: Problem) -> Check | None:
        """Return the public check."""
        return problem.public_check

    def check_problem(self, problem: Problem) -> None:
        """Refuse a problem whose public check gives no feedback, or whose next turn would not begin like its prompt."""
        public, fault = problem.public_check, ""
        remedy = "make some of the task's cases public, or use the environment SingleTurn"
        if public is None:
            fault = "has no public_check to repair a program by"
        elif not public.runs_program:
            fault = f"has a public_check without cases ({type(public).__name__} runs no program)"
        elif isinstance(public, AssertTests):
            try:
                prepare_tests(public.test, public.entry_point)
            except FaultyCheck as error:
                fault = f"has a public_check without cases ({error})"
        if not fault and problem.continues_program and not self._template_for(problem).endswith("{program_prefix}"):
            fault = "has a completion that continues its prompt"
            remedy = "Repair's template must end with {program_prefix}, or be null"
        if fault:
            raise UsageError(f"problem {problem.task_id} {fault}: {remedy}")

    def answer(self, problem: Problem, attempts: Sequence[Attempt]) -> str | None:
        """Return the template filled with the result of the last program."""
        last = attempts[-1]
        verdict = Verdict.NO_PROGRAM if last.outcome is None else last.outcome.verdict
        over = verdict in (Verdict.PASSED, Verdict.INFRASTRUCTURE_FAILURE)
        if over or len(attempts) >= self.max_turns or problem.public_check is None:
            return None
        values = placeholder_values(problem, last)
        return self._template_for(problem).format(**values, turn=len(attempts) + 1, max_turns=self.max_turns)

    def _template_for(self, problem: Problem) -> str:
        if self.template is not None:
            return self.template
        return AFTER_A_PROGRAM if problem.continues_program else IN_A_CHAT


def placeholder_values(problem: Problem, attempt: Attempt) -> dict[str, str]:
    """Return a template's values of ``feedback``, ``comment``, ``case`` and ``program_prefix``."""
    assert problem.public_check is not None
    language = problem.public_check.language
    feedback = describe_attempt(attempt, language)
    line, outcome = feedback.partition("\n")[0], attempt.outcome
    if outcome is not None and outcome.failed_case is not None and outcome.failed_case.call:  # f(3): 5, not 6
        line = _ADDRESS.sub("0x...", outcome.failed_case.line(outcome.exception_type or outcome.verdict))
    mark = f"{LANGUAGES[language].comment} " if language in LANGUAGES else "# "
    return {
        "feedback": feedback,
        "comment": "\n".join((mark + line).rstrip() for line in feedback.split("\n")),
        "case": line,
        "program_prefix": problem.program_prefix if problem.continues_program else "",
    }
