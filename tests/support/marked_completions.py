"""Completions written by hand, with marks where credit must go, as Qwen2.5 would have sampled them.

===========  ===========================================================================================
``⟦ ... ⟧``  what a value without a place is spread over: the program, or all of a completion without one
``⟪ ... ⟫``  the place that is blamed
``␄``        EOS; a completion without it was cut by the token limit
``␡``        at the very end: one token is taken away, so that the cut is inside a character
===========  ===========================================================================================

A token that overlaps a mark's inside must be flagged. Which these are is read from the offsets in characters that
the tokenizer gives when it encodes, not from the code under test, which has nothing but the sampled ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from lit_rl.execution.interface import ProgramRunner
from lit_rl.models.codecs.token_bytes import text_and_byte_spans
from lit_rl.rewards import Composite, RewardTerm
from lit_rl.rollout import Judge
from lit_rl.rollout.records import find_program
from lit_rl.types import Completions, Judgement, Problem, StopReason
from support.completions import batch, with_stop_reasons

EOS, TAKEN = "␄", "␡"
_OPENS, _CLOSES = {"⟦": "even", "⟪": "blamed"}, {"⟧": "even", "⟫": "blamed"}


@dataclass(frozen=True)
class Marked:
    """One completion and where its marks stand.

    Args:
        completions: a batch of this one row.
        even: tokens that overlap the inside of ``⟦ ⟧``.
        blamed: tokens that overlap the inside of ``⟪ ⟫``.
    """

    completions: Completions
    even: list[int]
    blamed: list[int]

    @property
    def num_tokens(self) -> int:
        return self.completions.completion_ids.shape[1]


def read_marked(tokenizer: Any, source: str) -> Marked:
    """A marked source as a sampled completion.

    Args:
        tokenizer: Qwen2.5's, or another that gives offsets.
        source: the completion with its marks.
    """
    plain, inside = _without_marks(source.rstrip(TAKEN))
    ended = plain.endswith(EOS)
    encoded = tokenizer(plain.removesuffix(EOS), add_special_tokens=False, return_offsets_mapping=True)
    ids, offsets = list(encoded["input_ids"]), list(encoded["offset_mapping"])
    assert tokenizer.decode(ids) == plain.removesuffix(EOS), "write characters in the tokenizer's normal form (NFC)"
    if ended:
        ids, offsets = [*ids, tokenizer.eos_token_id], [*offsets, (len(plain) - 1, len(plain))]
    ids = ids[: len(ids) - source.count(TAKEN)]
    decoded = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    text, spans = text_and_byte_spans(tokenizer, ids)
    assert text == decoded
    completions = with_stop_reasons(batch([text], [spans]), StopReason.EOS if ended else StopReason.LENGTH)
    tokens = {name: [t for t in range(len(ids)) if places & set(range(*offsets[t]))] for name, places in inside.items()}
    return Marked(completions, tokens["even"], tokens["blamed"])


def _without_marks(source: str) -> tuple[str, dict[str, set[int]]]:
    """The source without its marks, and the places of the characters inside each kind."""
    plain, inside, opened = "", {"even": set[int](), "blamed": set[int]()}, set[str]()
    for sign in source:
        if sign in _OPENS:
            opened.add(_OPENS[sign])
        elif sign in _CLOSES:
            opened.remove(_CLOSES[sign])
        else:
            for name in opened:
                inside[name].add(len(plain))
            plain += sign
    return plain, inside


def judge_marked(marked: Marked, problem: Problem, runner: ProgramRunner | None = None) -> Judgement:
    """The completion judged as in training: its program found and, where the problem runs programs, run."""
    program = find_program(problem, marked.completions.texts[0])
    return Judgement(problem, program, Judge(runner).start_program(problem, program, problem.check).result(60))


def check_credit(term: RewardTerm, marked: Marked, judgement: Judgement, value: float, blamed: float = 0.0) -> None:
    """Assert that each token's credit is what the marks say.

    Args:
        term: the term, of weight 1.
        marked: the completion.
        judgement: of it.
        value: the expected value of the term.
        blamed: the part of it on the marked place, split evenly over its tokens; the rest is spread evenly.
    """
    assert bool(blamed) is bool(marked.blamed), "a place is marked if and only if a value is expected there"
    expected = [0.0] * marked.num_tokens
    for t in marked.blamed:
        expected[t] += blamed / len(marked.blamed)
    for t in marked.even:
        expected[t] += (value - blamed) / len(marked.even)
    output = Composite([term])(marked.completions, [judgement])
    assert output.valid.all(), output.reasons
    assert output.rewards.item() == pytest.approx(value)
    assert output.credit[0].tolist() == pytest.approx(expected, abs=1e-6)
    assert output.credit.sum().item() == pytest.approx(value, abs=1e-5)
