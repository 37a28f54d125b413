"""Similarity of a program's text to a reference."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from lit_rl.arguments import ArgumentError
from lit_rl.rewards.reference import NO_REFERENCE, check_reference, has_reference, program_and_reference
from lit_rl.rewards.term import RewardTerm, TermScore, load_extra
from lit_rl.types import Completions, Judgement, Problem

TOKENIZERS = ("13a", "char", "intl", "none")


class BleuReward(RewardTerm):
    """BLEU of the program against the problem's reference, 0 to 1; 0 without a program.

    The problem's ``program_prefix`` is left out on both sides; in instruct form an answer may repeat it.

    sacrebleu computes it, because its tokenization and smoothing are fixed and named: sentence BLEU of up to
    four words, exponential smoothing, orders longer than the program left out.

    Args:
        weight: factor in the reward.
        name: name in logs.
        tokenize: sacrebleu's tokenizer: ``13a`` splits off punctuation, ``char`` compares characters, ``none`` words
            between spaces.

    Raises:
        ValueError: an unknown tokenizer.

    Source:
        Papineni et al. 2002, https://aclanthology.org/P02-1040; Post 2018, https://arxiv.org/abs/1804.08771
    """

    default_name = "bleu"

    def __init__(self, weight: float = 1.0, name: str | None = None, tokenize: str = "13a") -> None:
        super().__init__(weight, name)
        if tokenize not in TOKENIZERS:
            raise ArgumentError("BleuReward.tokenize", f"one of {', '.join(TOKENIZERS)}", f"{tokenize!r}")
        self.tokenize = tokenize
        self._bleu: Any = None

    def setup(self) -> None:
        """Load sacrebleu.

        Raises:
            ModuleNotFoundError: it is not installed.
        """
        if self._bleu is None:
            metrics = load_extra("sacrebleu.metrics", "BleuReward")
            self._bleu = metrics.BLEU(tokenize=self.tokenize, effective_order=True)

    def check_problem(self, problem: Problem) -> None:
        """Raise ValueError if the problem has no reference."""
        check_reference("BleuReward", problem)

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        """Scores of all N completions, without places."""
        self.setup()
        likeness = cache(self._likeness)  # equal programs are common in a group, and each takes milliseconds
        return [
            TermScore(likeness(*_compared(judgement))) if has_reference(judgement) else NO_REFERENCE
            for judgement in judgements
        ]

    def _likeness(self, program: str, references: tuple[str, ...]) -> float:
        if not program.strip():
            return 0.0
        # sacrebleu's rounding can leave 100.00000000000004 for equal texts
        return min(1.0, float(self._bleu.sentence_score(program, list(references)).score) / 100)


def _compared(judgement: Judgement) -> tuple[str, tuple[str, ...]]:
    """The program and what it is compared with, both without what was given."""
    program, reference = program_and_reference(judgement, "BleuReward")
    # The given prefix is on both sides: counting it would make any completion look like the reference.
    given = judgement.problem.program_prefix
    left = reference.removeprefix(given)
    repeats = left != reference and not judgement.problem.continues_program  # an answer may repeat its imports
    return program.removeprefix(given), (left, reference) if repeats else (left,)
