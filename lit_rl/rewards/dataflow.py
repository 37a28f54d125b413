"""Whether the program moves its data as the reference does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from lit_rl.rewards.flow_graph import Flow, data_flow
from lit_rl.rewards.grammars import TooCostly, grammar
from lit_rl.rewards.places import check_language, unread
from lit_rl.rewards.reference import NO_REFERENCE, check_reference, has_reference, program_and_reference
from lit_rl.rewards.term import RewardTerm, TermScore
from lit_rl.types import Completions, Judgement, Problem


class DataflowReward(RewardTerm):
    """Share of the reference's data-flow edges that the program has too, 0 to 1.

    The graph is defined in :mod:`lit_rl.rewards.flow_graph`; an edge that occurs n times must occur n times.
    Only the reference's edges are counted, so a program is not charged for doing more. Variables are compared by
    the order of their first appearance: renaming all changes nothing, one more in front renumbers those after it.
    Any program matches a reference without edges. A completion without program gets 0, and so does a text on which
    the parser would work far longer than on a program of its length.

    Args:
        weight: factor in the reward.
        name: name in logs.

    Source:
        the third part of CodeBLEU, Ren et al. 2020, https://arxiv.org/abs/2009.10297; the graph is our own.
    """

    default_name = "dataflow"

    def check_problem(self, problem: Problem) -> None:
        """Raise ValueError if the problem has no reference, or its language no grammar here."""
        check_language("DataflowReward", problem)
        check_reference("DataflowReward", problem)
        grammar(problem.check.language, "DataflowReward")

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        """Scores of all N completions, without places."""
        return [unread(judgement) or _score(judgement) for judgement in judgements]


def _score(judgement: Judgement) -> TermScore:
    return _match(judgement) if has_reference(judgement) else NO_REFERENCE


def _match(judgement: Judgement) -> TermScore:
    program, reference = program_and_reference(judgement, "DataflowReward")
    if not program.strip():
        return TermScore(0.0)
    language = judgement.problem.check.language
    wanted = _flow(reference, language)
    if wanted is None:
        return TermScore(None, reason="the reference is too long or too broken to follow its data flow")
    if not wanted:
        return TermScore(1.0)
    found = _flow(program, language) or Flow()
    return TermScore((found & wanted).total() / wanted.total())


@lru_cache(maxsize=4096)
def _flow(source: str, language: str) -> Flow | None:
    """The graph of a source; ``None`` if parser or walk would take too long."""
    try:
        return data_flow(source, language, "DataflowReward")
    except TooCostly:
        return None
