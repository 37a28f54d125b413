"""Commonest failure among the rows of a rollout without reward, and what to look at."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from lit_rl.execution.interface import Verdict
from lit_rl.execution.program import SourceReader
from lit_rl.reports.diagnosis.run_history import RunHistory, Where
from lit_rl.reports.diagnosis.stop_strings import commonest_string, stopped_rows
from lit_rl.rollout import Rollout
from lit_rl.types import Judgement, StopReason

_MOST_OF_MESSAGE = 80
_NUM_PARSED = 8
_BROKEN = (Verdict.NO_PROGRAM, Verdict.SYNTAX_ERROR, Verdict.EXCEPTION)
_MISSING = re.compile(r"the program defines no (\w+)|name '(\w+)' is not defined")
_DEFINED = re.compile(r"^(?:def|class) (\w+)", re.MULTILINE)


class FailureMode(NamedTuple):
    """Commonest ending of the rows.

    Args:
        what: in a few words.
        todo: what to look at, or to change.
    """

    what: str
    todo: str

    def __str__(self) -> str:
        return f"{self.what}: {self.todo}"


def failure_mode(run: RunHistory) -> FailureMode:
    """Return the commonest ending of the last rollout's rows."""
    rollout = run.rollout
    rows, stopped = max(1, len(rollout.judgements)), stopped_rows(rollout)
    # Those that hold no program, or one that fails before any test does.
    early = sum(rollout.judgements[row].outcome.verdict in _BROKEN for row in stopped)
    if len(stopped) > rows / 2 and early > len(stopped) / 2:
        lengths = rollout.completions.lengths.tolist()
        mean = sum(lengths[row] for row in stopped) / len(stopped)
        return FailureMode(
            f"a stop string ends {len(stopped) / rows:.0%} of the completions, after {mean:.1f} tokens",
            f"likely {commonest_string(rollout, stopped, run.decode)} comes inside of good answers; "
            f"{run.where.stop_strings} (`{run.where.check_data}`)",
        )
    cut = sum(why is StopReason.LENGTH for why in rollout.completions.stop_reasons)
    named = sum(other_name(judgement) is not None for judgement in rollout.judgements)
    if cut > rows / 2 >= named:
        return FailureMode(
            f"{cut / rows:.0%} of the completions are cut by the token limit",
            causes_of_cut(run),
        )
    verdicts = Counter(judgement.outcome.verdict for judgement in rollout.judgements)
    verdict, count = verdicts.most_common(1)[0] if verdicts else (Verdict.NO_PROGRAM, 0)
    if verdict is Verdict.SYNTAX_ERROR and lacks_prompt(rollout):
        return FailureMode(
            f"{count / rows:.0%} end as {verdict}",
            "the completion alone is run and is no program, and after the prompt it is one; set Problem.program_prefix "
            f"to the prompt (`{run.where.show}`)",
        )
    alike = [judgement for judgement in rollout.judgements if judgement.outcome.verdict is verdict]
    return FailureMode(
        f"{count / rows:.0%} end as {verdict}", _advice(verdict, alike, run.where, (rows - cut - len(stopped)) / rows)
    )


def lacks_prompt(rollout: Rollout) -> bool:
    """Return whether most rows that are no Python are Python after their prompt, which is not in what is run."""
    wrong = [row for row, one in enumerate(rollout.judgements) if one.outcome.verdict is Verdict.SYNTAX_ERROR]
    continued, reader = [], SourceReader()
    for row in wrong[:_NUM_PARSED]:
        program, problem = rollout.judgements[row].program, rollout.judgements[row].problem
        alone = isinstance(problem.prompt, str) and program is not None and problem.prompt not in program.source
        continued.append(alone and reader.tree(f"{problem.prompt}{rollout.completions.texts[row]}") is not None)
    return sum(continued) > len(continued) / 2


def causes_of_cut(run: RunHistory) -> str:
    """Likely causes of completions that the token limit cuts, in the order that the last rollout's rows suggest."""
    rows, codec = run.rollout.completions, run.module.policy.codec
    causes = [
        f"too small a limit (`{run.where.fit} --model.sampling.max_tokens 1024`)",
        f"a policy that never ends, for lack of EOS or a stop string (`{run.where.show}`)",
    ]
    added = getattr(getattr(codec, "tokenizer", None), "added_tokens_decoder", {})
    special = {number: str(token) for number, token in added.items() if token.special and number not in codec.eos_ids}
    cut = [row for row, why in enumerate(rows.stop_reasons) if why is StopReason.LENGTH]
    written = [set(rows.completion_ids[row][rows.completion_mask[row]].tolist()) & special.keys() for row in cut]
    (token, count), *_ = Counter(one for ids in written for one in ids).most_common(1) or [(0, 0)]
    if count > len(cut) / 2:
        said = f"{special[token]}, which {count / len(cut):.0%} of these hold and which is no EOS here"
        todo = "look at eos_token_id in the model's generation_config.json and at the tokenizer's eos_token"
        causes = [f"{said}, ends what the policy writes: {todo} (`{run.where.show}`)", causes[0]]
    return f"likely {causes[0]}, or {causes[1]}"


def _advice(verdict: Verdict, judgements: Sequence[Judgement], where: Where, ended: float) -> str:
    """Likely causes of a verdict, each with a command; ``ended`` is the share of rows that ended by themselves."""
    if verdict is Verdict.NO_PROGRAM:
        return (
            "no program is found in what is written; likely the prompt asks for another form than the task extracts "
            f"(`{where.show}`), or the model is no instruct model (`lit-rl docs troubleshooting`)"
        )
    if verdict is Verdict.WRONG_ANSWER:
        lines = Counter(one.outcome.failed_case.line() for one in judgements if one.outcome.failed_case)
        said = f" ({lines.most_common(1)[0][0]})" if lines else ""
        return (
            f"programs run and give other answers than the tests expect{said}; likely the problems are too hard "
            f"(`{where.show}`), or the tests are wrong (`{where.check_data}`)"
        )
    if verdict is Verdict.EXCEPTION:
        return _of_exceptions(judgements, where)
    if verdict is Verdict.SYNTAX_ERROR:
        whole = f", although {ended:.0%} ended by themselves: no limit or stop string cut them" if ended > 0.5 else ""
        return (
            f"what is run is no program{whole}; likely text is taken for program or the prompt is not whole "
            f"(`{where.show}`), or the extraction does not fit the form (`{where.check_data}`)"
        )
    return f"the reason is the same for most (`{where.show}`), or in the tests (`{where.check_data}`)"


def _of_exceptions(judgements: Sequence[Judgement], where: Where) -> str:
    named = [(one.problem, names) for one in judgements if (names := other_name(one))]
    if len(named) > len(judgements) / 2:
        (called, defined), _ = Counter(names for _, names in named).most_common(1)[0]
        where_defined = f" where the program defines {defined}" if defined else ""
        said = f"the tests call other names than the prompt asks for ({called}{where_defined})"
        in_reference = [re.search(rf"\b{names[0]}\b", problem.reference or "") is not None for problem, names in named]
        if sum(in_reference) > len(named) / 2:
            return f"{said}, and so do the references: the tests fit them, and the prompt is not whole (`{where.show}`)"
        return f"{said}, so they may be those of other problems: `{where.check_data}` runs the references under them"
    kinds = Counter(one.outcome.exception_type or "an exception" for one in judgements)
    kind = kinds.most_common(1)[0][0]
    texts = (one.outcome.exception_message for one in judgements if one.outcome.exception_type == kind)
    lines = (text.strip().partition("\n")[0][:_MOST_OF_MESSAGE] for text in texts)
    message = next((f" ({line})" for line in lines if line), "")
    return (
        f"most often {kind}{message}; likely the programs share a fault, such as a missing import (`{where.show}`), or "
        f"the tests do not fit the prompt (`{where.check_data}`)"
    )


def other_name(judgement: Judgement) -> tuple[str, str] | None:
    """A name that the tests call and neither prompt nor program has, and what the program defines; else ``None``."""
    outcome, program, problem = judgement.outcome, judgement.program, judgement.problem
    found = _MISSING.search(outcome.exception_message) if outcome.exception_type == "NameError" else None
    if found is None or program is None:
        return None
    name = found[1] or found[2]
    if re.search(rf"\b{name}\b", f"{problem.prompt_text}\n{program.source}"):
        return None
    return name, (_DEFINED.findall(program.source) or [""])[-1]
