"""Find the commonest failure among the rows of a rollout, and the stop strings that cut rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from lit_rl.execution.interface import Verdict
from lit_rl.reports.diagnosis.history import Decode, LastRollout, RunSettings
from lit_rl.rollout import Rollout
from lit_rl.types import Judgement, StopReason

_BROKEN = (Verdict.NO_PROGRAM, Verdict.SYNTAX_ERROR, Verdict.EXCEPTION)
_OPEN = re.compile("was never closed|unterminated|expected an indented block|expected 'except' or 'finally'")
"""Python's errors for a program that only lacks its end."""
_OPEN_END = re.compile(r"(?:[-+*/%=<>,.({\[:&|^~\\]|\b(?:if|in|not|and|or|else|elif|is|for|while|lambda|import|from))$")
"""Ends of a program's text after which something must follow."""


def commonest_failure_and_advice(last: LastRollout, settings: RunSettings) -> tuple[str, str]:
    """Return how most rows of a rollout ended, and what to look at or to change."""
    rollout = last.rollout
    rows, stopped = max(1, len(rollout.judgements)), rows_ended_by_stop_string(rollout)
    # Rows without a program, or with a program that fails before any test can fail.
    early = sum(rollout.judgements[row].outcome.verdict in _BROKEN for row in stopped)
    if len(stopped) > rows / 2 and early > len(stopped) / 2:
        length = float(rollout.completions.lengths[stopped].double().mean())
        string = commonest_stop_string(rollout, stopped, last.decode)
        return (
            f"a stop string ends {len(stopped) / rows:.0%} of the completions, after {length:.1f} tokens",
            f"likely {string} occurs inside good answers; {settings.stop_strings} (`{settings.check_data}`)",
        )
    cut = rollout.completions.stop_reasons.count(StopReason.LENGTH)
    if cut > rows / 2:
        return f"{cut / rows:.0%} of the completions are cut by the token limit", causes_of_truncation(last, settings)
    verdicts = Counter(judgement.outcome.verdict for judgement in rollout.judgements)
    verdict, count = verdicts.most_common(1)[0] if verdicts else (Verdict.NO_PROGRAM, 0)
    alike = [judgement for judgement in rollout.judgements if judgement.outcome.verdict is verdict]
    return f"{count / rows:.0%} end as {verdict}", _advice_for_verdict(verdict, alike, rollout, settings)


def causes_of_truncation(last: LastRollout, settings: RunSettings) -> str:
    """Return the likely causes of completions that the token limit cuts, the likeliest first."""
    rows = last.rollout.completions
    limit = f"too small a limit (`{settings.fit} --model.sampling.max_tokens 1024`)"
    endless = f"a policy that never ends, for lack of EOS or a stop string (`{settings.show}`)"
    cut = [row for row, why in enumerate(rows.stop_reasons) if why is StopReason.LENGTH]
    written = [set(rows.completion_ids[row][rows.completion_mask[row]].tolist()) for row in cut]
    counts = Counter(token for ids in written for token in ids & settings.special_tokens.keys())
    for token, count in counts.most_common(1):
        if count > len(cut) / 2:
            cause = f"{settings.special_tokens[token]}, which is in {count / len(cut):.0%} of them and is no EOS"
            todo = "look at eos_token_id in the model's generation_config.json and at the tokenizer's eos_token"
            return f"likely {cause}, ends the policy's answers: {todo} (`{settings.show}`), or {limit}"
    return f"likely {limit}, or {endless}"


def _advice_for_verdict(verdict: Verdict, alike: Sequence[Judgement], rollout: Rollout, settings: RunSettings) -> str:
    show, check_data = f"`{settings.show}`", f"`{settings.check_data}`"
    if verdict is Verdict.NO_PROGRAM:
        return (
            "the completions contain no program; likely the prompt asks for one form and the task extracts another "
            f"({show}), or the model is no instruct model (`lit-rl docs troubleshooting`)"
        )
    if verdict is Verdict.WRONG_ANSWER:
        lines = Counter(one.outcome.failed_case.line() for one in alike if one.outcome.failed_case)
        example = f" ({lines.most_common(1)[0][0]})" if lines else ""
        return (
            f"programs run but give wrong answers{example}; likely the problems are too hard "
            f"({show}), or the tests are wrong ({check_data})"
        )
    if verdict is Verdict.EXCEPTION:
        kind, _ = Counter(one.outcome.exception_type or "an exception" for one in alike).most_common(1)[0]
        texts = [one.outcome.exception_message for one in alike if one.outcome.exception_type == kind]
        message = next((f" ({text.strip().splitlines()[0][:80]})" for text in texts if text.strip()), "")
        return (
            f"most often {kind}{message}; likely the programs share a fault, such as a missing import ({show}), or the "
            f"tests do not fit the prompt ({check_data})"
        )
    if verdict is Verdict.SYNTAX_ERROR:
        ended = rollout.completions.stop_reasons.count(StopReason.EOS) / len(rollout.judgements)
        whole = f", although {ended:.0%} ended by themselves: no limit or stop string cut them" if ended > 0.5 else ""
        return (
            f"the extracted text is no valid program{whole}; likely other text is taken for the program, the prompt is "
            f"cut ({show}), or the extraction does not fit the form ({check_data})"
        )
    return f"likely most have the same reason ({show}), or the tests are wrong ({check_data})"


# -- stop strings --------------------------------------------------------------------------------------------


def rows_ended_by_stop_string(rollout: Rollout) -> list[int]:
    """Return the rows whose last turn a stop string ended."""
    return [row for row, why in enumerate(rollout.completions.stop_reasons) if why is StopReason.STOP_STRING]


def rows_cut_by_stop_string(rollout: Rollout) -> list[int]:
    """Return the rows that a stop string ended and whose program breaks off there or, if needed, is missing."""
    return [row for row in rows_ended_by_stop_string(rollout) if _is_program_cut_off(rollout.judgements[row])]


def _is_program_cut_off(judgement: Judgement) -> bool:
    outcome, program = judgement.outcome, judgement.program
    if outcome.verdict is not Verdict.SYNTAX_ERROR or program is None:
        return outcome.verdict is Verdict.NO_PROGRAM and judgement.problem.check.runs_program
    whole = program.source.rstrip()
    at_end = outcome.line is not None and outcome.line > whole.count("\n")
    if at_end and (_OPEN_END.search(whole) or "expected ':'" in outcome.exception_message):
        return True
    return bool(_OPEN.search(outcome.exception_message))


def ending_stop_string(rollout: Rollout, row: int, number: int, decode: Decode | None) -> str:
    """Return the stop string that ended a turn; empty if none did, or if the string is unknown."""
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


def commonest_stop_string(rollout: Rollout, rows: Sequence[int], decode: Decode | None) -> str:
    """Return the stop string that ended most of the rows, quoted; if unknown, all stop strings of the problems."""
    counted = Counter(ending_stop_string(rollout, row, len(rollout.completions.turns[row]) - 1, decode) for row in rows)
    string = counted.most_common(1)[0][0] if counted else ""
    if string:
        return repr(string)
    return f"one of {sorted({one for problem in rollout.completions.problems for one in problem.stop_strings})}"
