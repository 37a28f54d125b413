"""Reward terms: one value per completion and, where known, the places that earned it.

Letters: N completions, T completion tokens (padded on the right).
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from torch import Tensor

from lit_rl.errors import UsageError
from lit_rl.signature_check import ArgumentChecks, FiniteFloat
from lit_rl.types import Completions, Judgement, Problem

ALL_TEXT: Final = sys.maxsize
"""``Span.until`` of a place that the whole completion decides, including the token that ends the completion."""


@dataclass(frozen=True)
class Span:
    """A place in a completion and the part of the reward that it earned.

    Args:
        start: first byte in the UTF-8 of the completion's text.
        end: byte after the last byte of the place. Equal to ``start`` for a position between two characters: then the
            token that starts or continues there is meant.
        value: reward of this place, in the units of the term.
        until: byte after the text that decides this part of the reward, if that is beyond ``end``; later text cannot
            change this part. ``ALL_TEXT`` if any later token can change it, as a bracket can be closed later.
    """

    start: int
    end: int
    value: float
    until: int = 0


@dataclass(frozen=True)
class TermScore:
    """Score of one completion by one term.

    Args:
        value: the term's reward; ``None`` when the term itself failed (a grader that did not answer): such a
            row leaves baseline and loss, because our own failure is not the program's fault.
        spans: places in the last turn that earned a part of ``value``. What neither spans nor ``turn_values`` cover is
            spread evenly over the last turn.
        turn_values: parts of ``value`` that whole turns earned, in the order of the turns; turns left out at the end
            earned none.
        reason: why there is no value.
    """

    value: float | None
    spans: tuple[Span, ...] = ()
    reason: str = ""
    turn_values: tuple[float, ...] = ()


def reference_program_or_text(problem: Problem) -> str | None:
    """Return the problem's reference program, or the text that its check compares with."""
    return problem.check.reference_text if problem.reference is None else problem.reference


class RewardTerm(ArgumentChecks, ABC):
    """One term of the reward. Values are unweighted; :class:`Composite` multiplies by ``weight``.

    Args:
        weight: factor of this term in the reward. 0 logs the term without rewarding it.
        name: name in logs; by default that of the class. Two terms of one class need two names.
    """

    default_name = ""
    needs_every_case: bool = True
    """If no term needs every case, cases of standard input after the first that fails are not run. The flag is not
    inherited, since a class may read cases that its base does not."""
    reads_python = needs_reference = False
    """``reads_python`` is True if training problems must be in Python, ``needs_reference`` if they need a reference."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.needs_every_case = vars(cls).get("needs_every_case", True)

    def __init__(self, weight: FiniteFloat = 1.0, name: str | None = None) -> None:
        self.weight = weight
        self.name = name or getattr(type(self), "name", self.default_name) or type(self).__name__

    @abstractmethod
    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        """Return the scores of all N completions, in their order; called once per batch."""

    def check_problem(self, problem: Problem) -> None:
        """Check whether the task has the inputs of this term; called before the first rollout."""
        who, language = type(self).__name__, problem.check.language
        if self.reads_python and language != "python":
            raise UsageError(f"{who} reads python, but the task's programs are written in {language!r}")
        if self.needs_reference and reference_program_or_text(problem) is None:
            raise UsageError(f"{who} compares with a reference, and this problem has none")

    def setup(self) -> None:
        """Check whether the packages and programs this term needs are installed; called before the first rollout."""
        return


@dataclass(frozen=True)
class RewardOutput:
    """Rewards of N completions and where they were earned.

    Args:
        rewards: [N] float32, weighted sum of the terms, before any KL. 0 where not ``valid``.
        valid: [N] bool; False where a term with a weight failed: the row leaves baseline and loss.
        term_values: per term [N] float32, unweighted; NaN where the term failed.
        reasons: for each invalid row, why it is invalid.
        put_on_tokens: makes ``credit`` and ``credit_at_decision`` once either is read, which few algorithms do.
    """

    rewards: Tensor
    valid: Tensor
    term_values: Mapping[str, Tensor]
    reasons: Mapping[int, str]
    put_on_tokens: Callable[[], tuple[Tensor, Tensor]]

    @property
    def credit(self) -> Tensor:
        """Credit [N, T], float32: its sum over a row's completion tokens is the row's reward; 0 outside the mask."""
        return self._credit_and_decided[0].to(self.rewards.device)

    @property
    def credit_at_decision(self) -> Tensor:
        """Rewards [N, T], float32, that have places, each on the token that decided it.

        No later token took part in the decision. A turn's reward is on its last token, evenly spread reward on none.
        """
        return self._credit_and_decided[1].to(self.rewards.device)

    @cached_property
    def _credit_and_decided(self) -> tuple[Tensor, Tensor]:
        return self.put_on_tokens()

    def rewards_or_nan(self) -> Tensor:
        """Return the rewards [N], float32, NaN where not ``valid``."""
        return self.rewards.masked_fill(~self.valid, math.nan)
