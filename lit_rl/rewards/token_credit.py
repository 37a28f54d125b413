"""Credit: from places in a program to the completion's tokens, and the reward of each token.

Parsers and linters read the whole program, prefix included; credit belongs to what the policy wrote. A token that
overlaps a span is flagged; the span's value is split evenly over its flagged tokens. Reward without a place is spread
evenly over the tokens of the extracted program, and tokens outside the program get nothing. Without a program, this
reward is spread over all completion tokens, EOS included. The parts always sum to the value.

In a row of several turns all of this is about the last turn, whose text and program are judged. Tokens of an earlier
turn get only an even share of what a term gives to that turn. Tokens of the environment get nothing.

An algorithm may put rewards elsewhere before it learns from them, see :func:`assign_credit`. A token learns from its
own reward and all later ones. Without a discount that is the gradient of the expected reward, as long as each reward is
put where it was decided, or later: rewards before a token do not teach it. So a place promises that *no token after the
deciding one took part in the decision*. A place does not say that the line is to blame.

The outcome of a program is decided by its last token, EOS, which says that nothing more follows. That holds for nearly
every failure at run time, because whatever comes later at the top level can define a function anew before the tests
call it, and a later part of a function can handle an exception, hold a ``yield`` or make a name local. A Python program
has failed for good only if an exception ends it while its top level runs, once the statement there can no longer go on
(with ``except``, ``else`` or a further line): see :meth:`SourceMap.end_of_failure_decision`. In a fenced answer nothing
is decided before its end, since a later block may be the program. A text without a fence is assumed to go on so.

Letters: N completions, T completion tokens, S places.
"""

from __future__ import annotations

import ast
import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal, NamedTuple, assert_never

import torch
from torch import Tensor

from lit_rl.execution.interface import Verdict
from lit_rl.execution.program import BoundedParser, split_future_imports
from lit_rl.math.masking import last_token_mask
from lit_rl.rewards.term import ALL_TEXT, RewardOutput, Span, TermScore
from lit_rl.types import ByteSpan, ByteSpans, Judgement, Program, int64_tensor

_NEWLINE = re.compile(rb"\r\n|\r|\n")
_WORD = re.compile(rb"[\w\x80-\xff]*")


def utf8_bytes(text: str) -> bytes:
    """Return a text's bytes as token places count them; a lone surrogate counts as the three bytes it would take."""
    return text.encode("utf-8", "surrogatepass")


class SourceMap:
    """Map from offsets in a program's source to spans of the completion's text.

    ``known`` says whether places can be found at all.

    Args:
        text: the completion.
        program: the program found in it.
    """

    def __init__(self, text: str, program: Program) -> None:
        self.source = utf8_bytes(program.source)
        written = utf8_bytes(text)[program.start : program.end]
        lines = written.split(b"\n")
        removed = program.removed or (0,) * len(lines)
        kept = b"\n".join(line[count:] for line, count in zip(lines, removed, strict=False))
        if not self.source.endswith(kept):  # future imports may stand before the prefix
            kept = utf8_bytes(split_future_imports(kept.decode("utf-8", "surrogatepass"))[1])
        # A source that was changed otherwise when it was extracted has no places; terms spread values evenly.
        self.known = len(removed) == len(lines) and self.source.endswith(kept)
        self._prefix = len(self.source) - len(kept)
        self._start, self._fenced = program.start, program.fenced
        self._lines = [0, *(match.end() for match in _NEWLINE.finditer(self.source))]
        # Where each line of the extracted text begins in the source, and how much indentation was left out up to it.
        lengths = (len(line) - count + 1 for line, count in zip(lines, removed, strict=False))
        self._kept_lines = list(accumulate(lengths, initial=self._prefix))
        self._left_out = list(accumulate(removed))

    def text_span(self, start: int, end: int, value: float, until: int = ALL_TEXT) -> Span | None:
        """Return bytes ``start`` to ``end`` of the source as a span; ``None`` if no part of them is in the completion.

        The place earned ``value``; the source took part in the decision up to byte ``until``.
        """
        if not self.known or max(end, start + 1) <= self._prefix:
            return None
        start, end = max(start, self._prefix), max(end, self._prefix)
        first = self._text_offset_of_source(start)
        last = first if end <= start else self._text_offset_of_source(end - 1) + 1
        if self._fenced or until >= len(self.source):
            return Span(first, last, value, ALL_TEXT)
        return Span(first, last, value, self._text_offset_of_source(max(until, end, self._prefix + 1) - 1) + 1)

    def _text_offset_of_source(self, offset: int) -> int:
        """Return the byte of the completion that became this byte of the source."""
        line = min(bisect_right(self._kept_lines, offset), len(self._left_out)) - 1
        return offset - self._prefix + self._start + self._left_out[line]

    def byte_offset(self, line: int, column: int) -> int:
        """Return the byte offset of a 1-based line and 0-based column in characters; the end for later lines."""
        if line > len(self._lines):
            return len(self.source)
        begin = self._lines[line - 1]
        end = self._lines[line] if line < len(self._lines) else len(self.source)
        return begin + len(utf8_bytes(self.source[begin:end].decode("utf-8", "surrogatepass")[:column]))

    def end_of_failure_decision(self, line: int) -> int:
        """Return the byte up to which a Python source decides that the top-level statement at a 1-based line fails.

        That is the end of the first word of the next statement: ``else`` would have continued this statement.
        """
        tree = BoundedParser().parse_or_none(self.source.decode("utf-8", "surrogatepass"))
        for statement in tree.body if tree else ():
            heads: list[ast.stmt | ast.expr] = [statement, *getattr(statement, "decorator_list", [])]
            first = min(heads, key=lambda node: node.lineno)
            if first.lineno > line:
                begin = self._lines[first.lineno - 1] + first.col_offset
                word = _WORD.match(self.source, begin)
                return max(begin + 1, word.end() if word else 0)
            line = max(line, statement.end_lineno or 0)
        return ALL_TEXT

    def line_reward_span(self, line: int, value: float, until: int = ALL_TEXT) -> Span | None:
        """Return the written part of a 1-based source line, without indentation and newline; ``None`` if blank."""
        if not 1 <= line <= len(self._lines):
            return None
        begin = self._lines[line - 1]
        end = self._lines[line] if line < len(self._lines) else len(self.source)
        content = self.source[begin:end]
        if not content.strip():
            return None
        return self.text_span(begin + len(content) - len(content.lstrip()), begin + len(content.rstrip()), value, until)


def score_charging_failed_line(
    text: str, judgement: Judgement, value: float, full: float, *, at_once: bool = False
) -> TermScore:
    """Return the score of a failed program, with the loss charged to the line where the program failed.

    The line gets ``value - full``, so that the other tokens earn what they would earn in a program without fault: a
    program that fails at a line and a program that passes differ only in that line. No line is charged if the failing
    line is unknown, blank or not the policy's own, or if nothing was lost.

    Set ``at_once`` if all programs that end with an exception, or do not compile, have this value. Then the top-level
    statement that failed decides the loss. Without ``at_once``, the loss is decided at the end of the text.
    """
    outcome, program = judgement.outcome, judgement.program
    if value >= full or program is None or outcome.line is None:
        return TermScore(value)
    places, until = SourceMap(text, program), ALL_TEXT
    # ``definitions`` leaves out statements that a later entry point does not need.
    if at_once and outcome.module_line is not None and judgement.problem.extraction != "definitions":
        until = places.end_of_failure_decision(outcome.module_line)
    span = places.line_reward_span(outcome.line, value - full, until)
    return TermScore(value, () if span is None else (span,))


def valueless_score_if_unjudged(judgement: Judgement) -> TermScore | None:
    """Return a score without value for a program that could not be judged for our own reasons; ``None`` for others."""
    outcome = judgement.outcome
    failed = outcome.verdict is Verdict.INFRASTRUCTURE_FAILURE
    return TermScore(None, reason=outcome.stderr or "the sandbox failed") if failed else None


def valueless_score_unless_python(judgement: Judgement) -> TermScore | None:
    """Return a score without value for a program in another language than Python; ``None`` for Python."""
    language = judgement.problem.check.language
    return None if language == "python" else TermScore(None, reason=f"the term does not read {language}")


_ROUNDING = 1e-12


class _RewardedSpan(NamedTuple):
    """Place that earned a part of a reward: bytes ``start`` to ``end`` of the last turn, or the columns of a turn."""

    start: int
    end: int
    amount: float
    until: int = 0
    is_turn: bool = False


class CreditSpreader:
    """The tokens of one completion by their place in its text.

    Args:
        token_bytes: byte span of each token of the last turn, in order.
        mask: [T] bool on the CPU, tokens that the policy chose, EOS included.
        program: the program found in the turn, if any.
        start: column of the turn's first token.
        turns: columns of all turns, each from its first token to after its last; by default there is only one turn.
    """

    def __init__(
        self,
        token_bytes: Sequence[ByteSpan],
        mask: Tensor,
        program: Program | None,
        start: int = 0,
        turns: Sequence[tuple[int, int]] = (),
    ) -> None:
        # Only tokens in the mask with bytes of their own can be flagged. A trimmed batch keeps the spans of its
        # padding, so there can be more spans than flags.
        chosen = mask[start:]
        spans = ByteSpans.of(token_bytes)[: len(chosen)]
        own = _positions_of_flags(chosen[: len(spans)] & (spans.ends > spans.starts))
        self._tokens = own + start
        self._starts, self._ends = spans.starts.index_select(0, own), spans.ends.index_select(0, own)
        self._length = len(mask)
        self._columns = _positions_of_flags(chosen) + start
        self._turns = turns or [(start, int(self._columns[-1]) + 1 if len(self._columns) else start)]
        inside = (
            self.columns_overlapping(program.start, program.end) if program and program.end > program.start else own[:0]
        )
        self.evenly = inside if len(inside) else self._columns

    def columns_overlapping(self, start: int, end: int) -> Tensor:
        """Return columns of the tokens that overlap bytes ``start`` to ``end``; for an empty place, the token there."""
        first, after = self._overlapping_range(int64_tensor([start]), int64_tensor([end]))
        return self._tokens[int(first) : int(after)]

    def spread_scores(self, scores: Sequence[tuple[float, TermScore]]) -> tuple[Tensor, Tensor]:
        """Put a sum of weighted terms on tokens.

        Returns:
            credit: [T] float64, a place's reward evenly over the place's or turn's tokens, the rest over the program.
            decided: [T] float64, a place's reward on the token that decided that place; for a turn, its last token.
        """
        rest = [weight * (score.value or 0.0) for weight, score in scores]
        credit, decided = torch.zeros(2, self._length, dtype=torch.float64)
        places = []
        for weight, score in scores:
            for span in score.spans:
                places.append(_RewardedSpan(int(span.start), int(span.end), weight * span.value, span.until))
            for value, (first, after) in zip(score.turn_values, self._turns, strict=False):
                places.append(_RewardedSpan(first, after, weight * value, is_turn=True))
        if places:
            has_tokens = self._add_span_rewards(places, credit, decided)
            rest += [-place.amount for place, found in zip(places, has_tokens, strict=True) if found]
        left = math.fsum(rest)
        if abs(left) > _ROUNDING * math.fsum(map(abs, rest)):
            credit[self.evenly] += left / max(len(self.evenly), 1)
        return credit, decided

    def _add_span_rewards(self, places: Sequence[_RewardedSpan], credit: Tensor, decided: Tensor) -> list[bool]:
        """Add the amounts of places to their tokens; return False for a place without tokens."""
        starts, ends = int64_tensor(place.start for place in places), int64_tensor(place.end for place in places)
        is_turn = torch.tensor([place.is_turn for place in places])
        amounts = torch.tensor([place.amount for place in places], dtype=torch.float64)
        # Ranges of positions: first the tokens that bytes can flag, then all columns, which turns consist of.
        positions = torch.cat([self._tokens, torch.arange(self._length)])
        first, after = self._overlapping_range(starts, ends)
        first = torch.where(is_turn, len(self._tokens) + starts, first)
        counts = torch.where(is_turn, len(self._tokens) + ends, after) - first
        # index_add_ on the CPU is a loop: a token's parts are added in the order of the places.
        credit.index_add_(0, positions[_expand_ranges(first, counts)], (amounts / counts).repeat_interleave(counts))
        found = counts > 0
        deciding = positions[(first + counts - 1)[found]]  # right for turns
        spans = ~is_turn[found]
        needed = torch.maximum(ends, int64_tensor(place.until for place in places))
        deciding[spans] = self._deciding_columns(starts[found][spans], needed[found][spans])
        decided.index_add_(0, deciding, amounts[found])
        return found.tolist()

    def _overlapping_range(self, starts: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        """Return [S] the first of the tokens that overlap bytes, and [S] the token after the last of them."""
        ends = torch.maximum(ends, starts + 1)
        return torch.searchsorted(self._ends, starts, right=True), torch.searchsorted(self._starts, ends)

    def _deciding_columns(self, starts: Tensor, needed: Tensor) -> Tensor:
        """Return columns [S] of tokens after places, as a place's last token may go on; the last for ``ALL_TEXT``."""
        last = self._tokens[self._overlapping_range(starts, needed)[1] - 1]
        following = torch.searchsorted(self._columns, last, right=True).clamp(max=len(self._columns) - 1)
        return self._columns[torch.where(needed == ALL_TEXT, len(self._columns) - 1, following)]


def _positions_of_flags(flags: Tensor) -> Tensor:
    """Return the positions [K] of the flags; there is no slow search if all flags are at the beginning."""
    count = int(flags.sum())
    return torch.arange(count) if bool(flags[:count].all()) else flags.nonzero()[:, 0]


def _expand_ranges(first: Tensor, counts: Tensor) -> Tensor:
    """Return ``first, first + 1, ...`` of each range, one range after the other."""
    before = counts.cumsum(0) - counts
    return torch.arange(int(counts.sum())) + (first - before).repeat_interleave(counts)


Credit = Literal["spans", "tokens", "terminal"]
"""Placement of rewards; see :func:`assign_credit`."""


def assign_credit(rewards: RewardOutput, mask: Tensor, credit: Credit) -> Tensor:
    """Put each completion's reward on its tokens, before any KL.

        spans:     a place's reward goes on the token that decided the place, the rest on the last token
        tokens:    a place's reward is spread over the tokens of that place, the rest over the program
        terminal:  all reward goes on the last token

    Each row sums to its reward. ``tokens`` is the credit that is reported. Learning from it is biased: a late token
    sees less of the outcome than an early one, and EOS sees none, so that it pays to keep writing where programs pass.
    The end of a failing line sees less of the line's loss than the beginning.

    Args:
        rewards: rewards of N completions.
        mask: [N, T] bool, the tokens that the policy chose.
        credit: see above.

    Returns:
        [N, T] reward units, 0 outside the mask.
    """
    match credit:
        case "spans":
            decided = rewards.credit_at_decision * mask
            return decided + credit_last_token(rewards.rewards - decided.sum(-1), mask)
        case "tokens":
            return rewards.credit * mask
        case "terminal":
            return credit_last_token(rewards.rewards, mask)
        case _:
            assert_never(credit)


def credit_decided_before_end(rewards: RewardOutput, mask: Tensor, credit: Credit) -> Tensor:
    """Return the part of each completion's reward that was decided before its last token, on the deciding tokens.

    A completion that the token limit cut has no other reward: what the whole earned was not decided yet.

    Args:
        rewards: rewards of N completions.
        mask: [N, T] bool, the tokens that the policy chose.
        credit: as in :func:`assign_credit`; ``credit_last_token`` places nothing before the last token.

    Returns:
        [N, T] reward units, 0 outside the mask and on the last token of each row.
    """
    if credit == "terminal":
        return torch.zeros_like(rewards.credit_at_decision)
    return rewards.credit_at_decision * (mask & ~last_token_mask(mask))


def credit_last_token(rewards: Tensor, mask: Tensor) -> Tensor:
    """Return [N, T] with each reward [N] on the last token that the policy chose in its row."""
    return torch.where(last_token_mask(mask), rewards[:, None], 0.0)
