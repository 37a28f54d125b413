"""The repair environment: after a failed program the policy reads its result and tries again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import Formatter

from lit_rl.arguments import ArgumentError, UsageError
from lit_rl.execution.checks import AssertTests, Check
from lit_rl.execution.interface import FailedCase, FaultyCheck, Outcome, Verdict
from lit_rl.execution.judging.asserts.prepared_tests import prepare_tests
from lit_rl.execution.languages import LANGUAGES
from lit_rl.execution.wire.value_text import shortened
from lit_rl.rollout.environment import Attempt, Environment
from lit_rl.types import Problem, Program, StopReason

_LONGEST_LINE = 200
_TITLES: dict[str, str] = {name: spec.title for name, spec in LANGUAGES.items()}
_COMMENTS: dict[str, str] = {name: f"{spec.comment} " for name, spec in LANGUAGES.items()}
# Line ends as Python counts lines; ``str.splitlines`` splits at more.
_END_OF_LINE = re.compile(r"\r\n|\r|\n")
# Addresses differ from run to run, and feedback must not.
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,16}\b")
# Counted from the start of the whole program, which the policy may not have seen.
_PLACE_OF_SYNTAX = re.compile(r" \(<program>, line \d+\)$")
_NOTHING = "(nothing)"
_STOPPED = {
    Verdict.TIMED_OUT: "Your program took too long and was stopped.",
    Verdict.OUT_OF_MEMORY: "Your program used too much memory and was stopped.",
    Verdict.OUTPUT_LIMIT: "Your program wrote too much output and was stopped.",
}


def describe_attempt(attempt: Attempt, language: str) -> str:
    """Describe the result of an attempt, in plain sentences.

    Args:
        attempt: with its outcome.
        language: what the program is written in, as ``Check.language`` says.

    Raises:
        ValueError: the attempt has a program that was not judged.

    Source:
        what is reported (the verdict, the first failing public test with its input, the expected and the actual value,
        or the exception): Gehring et al. 2024, section 2 and appendix, https://arxiv.org/abs/2410.02089
    """
    outcome = attempt.outcome
    if outcome is None:
        if attempt.program is not None:
            raise UsageError("an attempt can be described once its program was judged, and this one was not")
        outcome = Outcome(Verdict.NO_PROGRAM)
    parts = [_what_happened(attempt, outcome, language)]
    if outcome.failed_case is not None:
        parts.append(_case(outcome.failed_case, outcome.verdict))
    if attempt.stop_reason is StopReason.LENGTH and not outcome.passed:
        parts.append("Your answer was cut off at the token limit.")
    return _ADDRESS.sub("0x...", "\n".join(filter(None, parts)))


def in_one_line(attempt: Attempt, language: str) -> str:
    """The failing case as ``f(3): 5, not 6``, or the first line of :func:`describe_attempt` if no case is known.

    Args:
        attempt: with its outcome.
        language: what the program is written in, as ``Check.language`` says.
    """
    case = None if attempt.outcome is None else attempt.outcome.failed_case
    if attempt.outcome is None or case is None or not case.call:
        return describe_attempt(attempt, language).partition("\n")[0]
    ended = attempt.outcome.exception_type or attempt.outcome.verdict
    return _ADDRESS.sub("0x...", case.line(ended))


def _what_happened(attempt: Attempt, outcome: Outcome, language: str) -> str:
    verdict = outcome.verdict
    if verdict in _STOPPED:
        return _STOPPED[verdict]
    match verdict:
        case Verdict.PASSED:
            return "Your program passed the public tests."
        case Verdict.WRONG_ANSWER:
            return "Your program gave a wrong answer." + _said_by_the_test(outcome)
        case Verdict.EXCEPTION:
            return f"Your program {_how_it_failed(outcome)}{_where(attempt.program, outcome.line)}"
        case Verdict.SYNTAX_ERROR:
            return _syntax(attempt.program, outcome, language)
        case Verdict.NO_PROGRAM:
            return "Your answer held no program."
        case Verdict.INFRASTRUCTURE_FAILURE:
            return "Your program could not be tested."
    raise AssertionError(verdict)


def _said_by_the_test(outcome: Outcome) -> str:
    """The message of the assert that failed, if it has one."""
    if not outcome.exception_message:
        return ""
    return f" The test says: {outcome.exception_type}: {outcome.exception_message}"


def _how_it_failed(outcome: Outcome) -> str:
    name = outcome.exception_type
    if name is None or (name == "SystemExit" and not outcome.exception_message):
        return "ended before it was done"
    if name.startswith("SIG"):
        return f"was ended by the signal {name}"
    return f"raised {_named(outcome)}"


def _named(outcome: Outcome) -> str:
    return f"{outcome.exception_type}: {outcome.exception_message}".removesuffix(": ")


def _syntax(program: Program | None, outcome: Outcome, language: str) -> str:
    name = _TITLES.get(language, language)
    if language == "python":
        error = _PLACE_OF_SYNTAX.sub("", _named(outcome))
        return f"Your program is not valid {name}: {error}{_where(program, outcome.line)}"
    return f"Your {name} program does not compile:\n{shortened(outcome.stderr.strip())}"


def _where(program: Program | None, line: int | None) -> str:
    """The line of the program that was the last to run, with its text."""
    lines = _END_OF_LINE.split(program.source) if program is not None else []
    if program is None or line is None or not 0 < line <= len(lines):
        return ""
    # The policy may never have seen the lines before its own: imports, helpers.
    own = line - program.prefix_lines
    place = f"Line {own} of your code" if own > 0 else "A line before your code"
    return f"\n{place}: {shortened(lines[line - 1].strip(), _LONGEST_LINE)}"


def _case(case: FailedCase, verdict: Verdict) -> str:
    if case.kind == "input":
        parts = [("Input", case.call or _NOTHING), ("Expected output", case.expected or _NOTHING)]
        wrong = verdict is Verdict.WRONG_ANSWER
        parts.append(("Actual output", case.actual or (_NOTHING if wrong else "")))
    else:
        parts = [("Test" if case.kind == "assert" else "Call", case.call), ("Expected", case.expected)]
        parts.append(("Actual", case.actual))
    return "\n".join(_labelled(label, text.rstrip("\n")) for label, text in parts if text)


def _labelled(label: str, text: str) -> str:
    """Label and text, on one line if the text has only one."""
    return f"{label}:\n{text}" if "\n" in text else f"{label}: {text}"


IN_A_CHAT = "{feedback}\n\nWrite the whole program again, corrected."
AFTER_A_PROGRAM = "\n\n{comment}\n\n{program_prefix}"
_PLACEHOLDERS = ("feedback", "comment", "case", "program_prefix", "turn", "max_turns")


class Repair(Environment):
    """Reports a program's result under the problem's public check, until it passes or turns are used up.

    The last program is judged under ``Problem.check``, which nothing here reads. A conversation ends early if the
    public check passed, or if the sandbox failed: there would be nothing true to say.

    Args:
        max_turns: most programs that the policy writes for a problem, at least 2.
        template: of a message. Placeholders: ``{feedback}`` (what happened, in sentences), ``{comment}`` (the same as
            comment lines of the program's language), ``{case}`` (the failing case in one line, ``f(3): 5, not 6``,
            or the first sentence if none is known), ``{program_prefix}`` (the beginning of the program if the
            policy continues it, else empty), ``{turn}`` (number of the coming turn) and ``{max_turns}``. ``None``
            takes ``IN_A_CHAT``, or ``AFTER_A_PROGRAM`` for problems whose completion continues the prompt.
        max_message_tokens: most tokens of a message, which is shortened in its middle; ``None``: no limit.
        max_row_tokens: tokens of a row after which there is no further turn; ``None``: the model's own limit.

    Raises:
        ValueError: a limit that allows nothing, or a placeholder that is not known.

    Source:
        Gehring et al. 2024 (RLEF), https://arxiv.org/abs/2410.02089: feedback from public tests, the reward from
        hidden ones, up to three turns
    """

    def __init__(
        self,
        max_turns: int = 2,
        template: str | None = None,
        max_message_tokens: int | None = 256,
        max_row_tokens: int | None = None,
    ) -> None:
        if max_turns < 2:
            raise ArgumentError("Repair.max_turns", "at least 2", str(max_turns), "use SingleTurn for one turn")
        super().__init__(max_turns, max_message_tokens, max_row_tokens)
        if template is not None:
            require_placeholders("Repair's template", template, _PLACEHOLDERS)
        self.template = template

    def check(self, problem: Problem) -> Check | None:
        """The public check."""
        return problem.public_check

    def check_problem(self, problem: Problem) -> None:
        """Refuse a problem whose public check gives no feedback, or whose next turn would not begin like its prompt.

        Raises:
            ValueError: one line that says what to do.
        """
        public = problem.public_check
        if public is None:
            raise UsageError(
                f"problem {problem.task_id} has no public_check to repair a program by: have the task make some of its "
                "cases public, or use the environment SingleTurn"
            )
        fault = _fault_of(public)
        if fault:
            raise UsageError(
                f"the public_check of problem {problem.task_id} has no cases ({fault}): give it one that a program can "
                "fail, or leave public_check out and use the environment SingleTurn"
            )
        if problem.continues_program and not self._template(problem).endswith("{program_prefix}"):
            raise UsageError(
                f"the completion of problem {problem.task_id} continues its prompt, so Repair's template must end "
                "with {program_prefix}, or be null"
            )

    def answer(self, problem: Problem, attempts: Sequence[Attempt]) -> str | None:
        """The template filled with the result of the last program."""
        last = attempts[-1]
        verdict = Verdict.NO_PROGRAM if last.outcome is None else last.outcome.verdict
        over = verdict in (Verdict.PASSED, Verdict.INFRASTRUCTURE_FAILURE)
        if over or len(attempts) >= self.max_turns or problem.public_check is None:
            return None
        values = feedback_values(problem, last)
        return self._template(problem).format(**values, turn=len(attempts) + 1, max_turns=self.max_turns)

    def _template(self, problem: Problem) -> str:
        if self.template is not None:
            return self.template
        return AFTER_A_PROGRAM if problem.continues_program else IN_A_CHAT


def feedback_values(problem: Problem, attempt: Attempt) -> dict[str, str]:
    """Values of the placeholders ``feedback``, ``comment``, ``case`` and ``program_prefix`` of a template.

    Args:
        problem: one with a public check.
        attempt: with its outcome under that check.
    """
    assert problem.public_check is not None
    language = problem.public_check.language
    feedback = describe_attempt(attempt, language)
    return {
        "feedback": feedback,
        "comment": as_comment(feedback, language),
        "case": in_one_line(attempt, language),
        "program_prefix": problem.program_prefix if problem.continues_program else "",
    }


def as_comment(text: str, language: str) -> str:
    """Lines of text as comment lines of a language."""
    mark = _COMMENTS.get(language, "# ")
    return "\n".join((mark + line).rstrip() for line in text.split("\n"))


def require_placeholders(owner: str, template: str, placeholders: Sequence[str]) -> None:
    """Check the placeholders of a template.

    Raises:
        ValueError: it has another one, one with a format, or a brace that stands alone.
    """
    known = ", ".join(f"{{{name}}}" for name in placeholders)
    try:
        found = [(name, form, conversion) for _, name, form, conversion in Formatter().parse(template)]
    except ValueError as error:
        raise UsageError(f"{owner} cannot be read ({error}): write {{{{ and }}}} for braces") from None
    for name, form, conversion in found:
        if name is not None and (name not in placeholders or form or conversion):
            shown = f"{{{name}{f'!{conversion}' if conversion else ''}{f':{form}' if form else ''}}}"
            raise UsageError(f"{owner} has the unknown placeholder {shown}: it may use {known}")


def _fault_of(check: Check) -> str:
    """Return why no program can fail a check; empty if one can."""
    if not check.runs_program:
        return f"{type(check).__name__} runs no program"
    if isinstance(check, AssertTests):
        try:
            prepare_tests(check.test, check.entry_point)
        except FaultyCheck as fault:
            return str(fault)
    return ""
