"""The first place where a program breaks the grammar of its language, afterwards or while a model samples."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from lit_rl.execution.program import Wanted, extract_program
from lit_rl.models.codecs.token_bytes import token_byte_spans
from lit_rl.rewards.grammars import TooCostly, first_error, grammar
from lit_rl.rewards.places import Places, check_language, rows, unread, utf8
from lit_rl.rewards.python_prefix import first_rejected, is_blank
from lit_rl.rewards.term import ALL_TEXT, RewardTerm, TermScore
from lit_rl.types import Completions, Judgement, Problem, Program, StopReason


class SyntaxReward(RewardTerm):
    """-1 on the first lexical token that the grammar rejects; 0 for a program without one.

    Python: the grammar of the running interpreter, see :mod:`lit_rl.rewards.python_prefix`. C and C++: the
    first ERROR or MISSING node of tree-sitter, an approximation. A completion that the token limit cut inside
    its program is judged as a prefix: its end is not an error. A completion without a program, or with nothing
    but comments in it, gets -1 without a place, so that an empty answer earns nothing; so does a text
    on which the parser would work far longer than on a program of its length.

    Args:
        weight: factor in the reward.
        name: name in logs.
    """

    default_name = "syntax"
    negative_pays_for = "syntax errors"

    def check_problem(self, problem: Problem) -> None:
        """Raise ValueError if the problem's language has no grammar here."""
        check_language("SyntaxReward", problem)
        if problem.check.language != "python":
            grammar(problem.check.language)

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        """Scores of all N completions."""
        cut = [reason is StopReason.LENGTH for reason in completions.stop_reasons]
        pairs = zip(rows(completions, judgements), cut, strict=True)
        return [unread(judgement) or _score(text, judgement, truncated) for (text, judgement), truncated in pairs]


def _score(text: str, judgement: Judgement, truncated: bool) -> TermScore:
    program = judgement.program
    if program is None:
        return TermScore(-1.0)
    language = judgement.problem.check.language
    prefix = truncated and program.end >= len(utf8(text).rstrip())
    try:
        place = _first_wrong(program.source, language, prefix)
    except TooCostly:  # no program keeps a parser busy for so long
        return TermScore(-1.0)
    if place is None:
        blank = language == "python" and is_blank(program.source)
        return TermScore(-1.0 if blank and not prefix else 0.0)
    # tree-sitter may repair an earlier place once it has read more, and what ends too early can go on.
    for_good = language == "python" and _first_wrong(program.source, language, True) == place
    span = Places(text, program).span(*place, -1.0, place[1] if for_good else ALL_TEXT)
    return TermScore(-1.0, () if span is None else (span,))


def _first_wrong(source: str, language: str, prefix: bool) -> tuple[int, int] | None:
    """Bytes of the first wrong place of a source."""
    if language != "python":
        return first_error(utf8(source), language, prefix=prefix)
    place = first_rejected(source, prefix=prefix)
    return place and (len(utf8(source[: place[0]])), len(utf8(source[: place[1]])))


# What the next token may still turn into something else: a closing fence that has begun, part of a character.
_UNFINISHED = re.compile(r"(?:^[ \t]*[`~]+|\N{REPLACEMENT CHARACTER}+)\Z", re.MULTILINE)


class SyntaxFlagger:
    """A logits processor that notes at which sampled token each row leaves Python's grammar.

    For ``generate(..., logits_processor=LogitsProcessorList([flagger]))`` of transformers. It reads only ids and
    returns the scores unchanged, so it does not affect sampling. ``flags`` has one entry per row: the index of the
    first token that :class:`~lit_rl.rewards.SyntaxReward` would flag in what is sampled so far, or ``None``. The
    very last token is never seen here, and a program that merely ends too early is flagged once its block is closed.
    Costs one parse per row and token.

    Args:
        tokenizer: the model's.
        prompt_length: columns of ``input_ids`` that are prompt, padding included.
        fenced: look only inside fenced blocks; without it text that opens no fence is a program too.
        program_prefix: source before the completion, in completion form.
        entry_point: what the program must define; of several blocks the last that defines it counts.
    """

    def __init__(
        self,
        tokenizer: Any,
        prompt_length: int,
        fenced: bool = True,
        program_prefix: str = "",
        entry_point: str | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.prompt_length = prompt_length
        self.fenced = fenced
        self.program_prefix = program_prefix
        self.wanted = Wanted(entry_point=entry_point, prefix=program_prefix)
        self.flags: list[int | None] = []
        self._blocks: list[tuple[int, int]] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Check the text of each row so far.

        Args:
            input_ids: [N, P + t] prompt and the t tokens sampled so far.
            scores: [N, V].

        Returns:
            ``scores``.
        """
        rows = input_ids[:, self.prompt_length :].tolist()
        if len(self.flags) != len(rows):
            self.flags, self._blocks = [None] * len(rows), [(-1, -1)] * len(rows)
        for row, ids in enumerate(rows):
            self._look(row, ids)
        return scores

    def _look(self, row: int, ids: list[int]) -> None:
        """Bring one row's flag up to date."""
        text, spans = token_byte_spans(self.tokenizer, ids)
        found = extract_program(text, self.wanted)
        if found is None or (self.fenced and not found.fenced):
            self.flags[row], self._blocks[row] = None, (-1, -1)
            return
        # An open block has no end yet: what is written next belongs to it.
        block = (found.start, found.end if found.end < len(utf8(text)) else -1)
        if self._blocks[row] != block:  # another block, or a fence in a docstring that closed none
            self.flags[row], self._blocks[row] = None, block
        if self.flags[row] is not None:  # viability, once lost, stays lost
            return
        behind = utf8(text)[found.end :]
        written = found.source if behind else _UNFINISHED.sub("", found.source)
        source = self.program_prefix + written
        # A closing fence without a line end after it may still become the opening one of another block.
        place = first_rejected(source, prefix=b"\n" not in behind)
        if place is None:
            return
        start, stop = (len(utf8(source[:offset])) for offset in place)
        whole = Program(self.program_prefix + found.source, found.start, found.end, removed=found.removed)
        span = Places(text, whole).span(start, stop, 0.0)
        if span is not None:
            self.flags[row] = spans.first_over(span.start, span.end)
