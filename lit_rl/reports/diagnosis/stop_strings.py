"""Rows that a stop string cut, and the string that cut each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from lit_rl.execution.interface import Verdict
from lit_rl.rollout import Rollout
from lit_rl.types import Judgement, StopReason

Decode = Callable[[Sequence[int], StopReason, Sequence[str]], tuple[str, object]]
"""As :meth:`lit_rl.models.codecs.codec.Codec.decode`."""

CUT, STOPPED, STOPPED_PASSED = (f"stop_string/{name}_fraction" for name in ("cut", "ended", "ended_passed"))
"""Shares of this rank's rows whose check runs programs: those that break off where a stop string ended them, those that
one ended, and of these the ones that passed."""

_OPEN = re.compile("was never closed|unterminated|expected an indented block|expected 'except' or 'finally'")
"""Python's errors for a program that only lacks its end."""
_OPEN_END = re.compile(r"(?:[-+*/%=<>,.({\[:&|^~\\]|\b(?:if|in|not|and|or|else|elif|is|for|while|lambda|import|from))$")
"""After these something must follow."""


def stopped_rows(rollout: Rollout) -> list[int]:
    """Rows whose last turn a stop string ended."""
    return [row for row, why in enumerate(rollout.completions.stop_reasons) if why is StopReason.STOP_STRING]


def cut_rows(rollout: Rollout) -> list[int]:
    """Of these, the rows whose program breaks off there, and those without a program."""
    return [row for row in stopped_rows(rollout) if breaks_off(rollout.judgements[row])]


def stop_shares(rollout: Rollout) -> dict[str, float]:
    """Return shares of rows that stop strings ended or cut; empty if they ended none whose check runs programs."""
    tested = {row for row, judgement in enumerate(rollout.judgements) if judgement.problem.check.runs_program}
    stopped = tested.intersection(stopped_rows(rollout))
    if not stopped:
        return {}
    counts = {
        CUT: len(tested.intersection(cut_rows(rollout))),
        STOPPED: len(stopped),
        STOPPED_PASSED: sum(rollout.judgements[row].outcome.passed for row in stopped),
    }
    return {name: count / len(tested) for name, count in counts.items()}


def breaks_off(judgement: Judgement) -> bool:
    """Return whether a program lacks its end, or a text its program."""
    outcome, program = judgement.outcome, judgement.program
    if outcome.verdict is not Verdict.SYNTAX_ERROR or program is None:
        return outcome.verdict is Verdict.NO_PROGRAM
    whole = program.source.rstrip()
    at_end = outcome.line is not None and outcome.line > whole.count("\n")
    if at_end and (_OPEN_END.search(whole) or "expected ':'" in outcome.exception_message):
        return True
    return bool(_OPEN.search(outcome.exception_message))


def string_that_ended(rollout: Rollout, row: int, number: int, decode: Decode | None) -> str:
    """The stop string that ended a turn; empty if none did, or if it cannot be told.

    Args:
        rollout: N rows.
        row: of the turn.
        number: of the turn in the row, from 0.
        decode: of the policy's codec.
    """
    completions = rollout.completions
    turn, strings = completions.turns[row][number], completions.problems[row].stop_strings
    if turn.stop_reason is not StopReason.STOP_STRING:
        return ""
    if len(strings) == 1:
        return strings[0]
    if decode is None:
        return ""
    whole, _ = decode(completions.completion_ids[row, turn.start : turn.end].tolist(), StopReason.LENGTH, ())
    found = [(whole.find(string), len(string), string) for string in strings if string in whole]
    return min(found)[2] if found else ""


def commonest_string(rollout: Rollout, rows: Sequence[int], decode: Decode | None) -> str:
    """The stop string that ended most of some rows, quoted; all of their problems' strings if it cannot be told."""
    counted = Counter(string_that_ended(rollout, row, len(rollout.completions.turns[row]) - 1, decode) for row in rows)
    string = counted.most_common(1)[0][0] if counted else ""
    if string:
        return repr(string)
    return f"one of {sorted({one for problem in rollout.completions.problems for one in problem.stop_strings})}"
