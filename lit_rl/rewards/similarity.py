"""Rewards for similarity to the problem's reference program: in text (BLEU) and in data flow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from lit_rl.lazy import import_extra
from lit_rl.rewards.flow_graph import Flow, count_dataflow_edges
from lit_rl.rewards.term import RewardTerm, TermScore, reference_program_or_text
from lit_rl.rewards.token_credit import valueless_score_unless_python
from lit_rl.types import Completions, Judgement

NO_REFERENCE = TermScore(None, reason="the problem has no reference")


class BleuReward(RewardTerm):
    """BLEU of the program against the problem's reference, 0 to 1; 0 without a program.

    The problem's ``program_prefix`` is left out on both sides; in instruct form an answer may repeat it.

    sacrebleu computes the score, because its tokenization and smoothing are fixed and named: sentence BLEU of up to
    four words, exponential smoothing, orders longer than the program left out.

    Source:
        Papineni et al. 2002, https://aclanthology.org/P02-1040; Post 2018, https://arxiv.org/abs/1804.08771
    """

    default_name = "bleu"
    needs_every_case = False
    needs_reference = True

    _bleu: Any = None

    def setup(self) -> None:
        if self._bleu is None:
            metrics = import_extra("sacrebleu.metrics", "BleuReward", "rewards")
            self._bleu = metrics.BLEU(effective_order=True)

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        self.setup()
        likeness = cache(self._sentence_bleu)  # equal programs are common in a group, and each takes milliseconds
        compared = map(_program_and_reference, judgements)
        return [NO_REFERENCE if texts is None else TermScore(likeness(*texts)) for texts in compared]

    def _sentence_bleu(self, program: str, references: tuple[str, ...]) -> float:
        if not program.strip():
            return 0.0
        # sacrebleu's rounding can leave 100.00000000000004 for equal texts
        return min(1.0, float(self._bleu.sentence_score(program, list(references)).score) / 100)


def _program_and_reference(judgement: Judgement) -> tuple[str, tuple[str, ...]] | None:
    """Return the program and its reference, both without the given prefix; ``None`` if there is no reference."""
    reference = reference_program_or_text(judgement.problem)
    if reference is None:
        return None
    program = "" if judgement.program is None else judgement.program.source
    # The given prefix is on both sides: counting it would make any completion look like the reference.
    given = judgement.problem.program_prefix
    left = reference.removeprefix(given)
    repeats = left != reference and not judgement.problem.continues_program  # an answer may repeat its imports
    return program.removeprefix(given), (left, reference) if repeats else (left,)


class DataflowReward(RewardTerm):
    """Share of the reference's data-flow edges that the program has too, 0 to 1.

    The graph is defined in :mod:`lit_rl.rewards.flow_graph`; an edge that occurs n times must occur n times.
    Only the reference's edges are counted, so a program is not charged for doing more. Variables are compared by
    the order of their first appearance: renaming all variables changes nothing; an added first variable renumbers the
    others. Any program matches a reference without edges. A completion without program gets 0, and so does a text for
    which the walk would take far longer than for a program of its length.

    Source:
        the third part of CodeBLEU, Ren et al. 2020, https://arxiv.org/abs/2009.10297; the graph is our own.
    """

    default_name = "dataflow"
    needs_every_case = False
    reads_python = needs_reference = True

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        return [valueless_score_unless_python(judgement) or _score_dataflow(judgement) for judgement in judgements]


def _score_dataflow(judgement: Judgement) -> TermScore:
    reference = reference_program_or_text(judgement.problem)
    if reference is None:
        return NO_REFERENCE
    if judgement.program is None or not judgement.program.source.strip():
        return TermScore(0.0)
    wanted = _flow(reference)
    if wanted is None:
        return TermScore(None, reason="the reference is too long or too broken to follow its data flow")
    if not wanted:
        return TermScore(1.0)
    found = _flow(judgement.program.source) or Flow()
    return TermScore((found & wanted).total() / wanted.total())


_flow = lru_cache(maxsize=4096)(count_dataflow_edges)
