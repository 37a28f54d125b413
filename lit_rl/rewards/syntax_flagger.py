"""Watching the grammar while a model samples."""

from __future__ import annotations

import re
from typing import Any

from torch import Tensor

from lit_rl.execution.program import Wanted, extract_program
from lit_rl.models.codecs.token_bytes import token_byte_spans
from lit_rl.rewards.places import Places, utf8
from lit_rl.rewards.python_prefix import first_rejected
from lit_rl.types import Program

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
        """Look at what each row has so far.

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
