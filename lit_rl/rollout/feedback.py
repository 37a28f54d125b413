"""What happened to a program, in sentences that a policy reads.

A description depends on one attempt and its outcome alone. If the outcome is that of a public check, the policy may
see the description: it cannot contain anything from another check.
"""

from __future__ import annotations

import re

from lit_rl.arguments import UsageError
from lit_rl.execution.outcome import FailedCase, Outcome, Verdict
from lit_rl.execution.wire.value_text import shortened
from lit_rl.rollout.environment import Attempt
from lit_rl.types import Program, StopReason

_LONGEST_LINE = 200
_LANGUAGE_NAMES = {"python": "Python", "c": "C", "cpp": "C++"}
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


def describe(attempt: Attempt, language: str) -> str:
    """What happened to an attempt, in plain sentences.

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
    """The failing case as ``f(3): 5, not 6``, or the first line of :func:`describe` if no case is known.

    Args:
        attempt: with its outcome.
        language: what the program is written in, as ``Check.language`` says.
    """
    case = None if attempt.outcome is None else attempt.outcome.failed_case
    if attempt.outcome is None or case is None or not case.call:
        return describe(attempt, language).partition("\n")[0]
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
    name = _LANGUAGE_NAMES.get(language, language)
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
