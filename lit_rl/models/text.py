"""Completion ids as text, with the bytes each token wrote and the stop strings cut off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lit_rl.models.token_bytes import token_byte_spans
from lit_rl.types import Problem, StopReason

Spans = tuple[tuple[int, int], ...]

# A stop string of n bytes begins at most n - 1 tokens before the one that completes it, since each token writes a byte
# or more. Special tokens write none, and sentencepiece drops a space where a text begins: some more are looked at.
_MORE_TOKENS = 8


class CompletionText:
    """Decodes sampled ids and looks for stop strings.

    Args:
        tokenizer: of the policy.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        # Sentencepiece drops a space where a text begins. A completion goes on with a prompt, so it is
        # decoded behind a token that is then cut off: indentation keeps its first space.
        self._anchor = tokenizer("a", add_special_tokens=False)["input_ids"]
        self._anchor_bytes = len(token_byte_spans(tokenizer, self._anchor)[0].encode())

    def decode(self, ids: Sequence[int], reason: StopReason, stop_strings: Sequence[str]) -> tuple[str, Spans]:
        """Text of a completion and the byte span of each of its tokens.

        Args:
            ids: sampled ids, EOS included.
            reason: why the completion ended; only a completion ended by a stop string is cut.
            stop_strings: of its problem.

        Returns:
            the text without special tokens, cut before the first stop string, and one ``(start, end)`` per
            token in bytes of its UTF-8; tokens beyond the text have an empty span at its end.
        """
        body = ids[:-1] if reason is StopReason.EOS else ids
        text, spans = token_byte_spans(self.tokenizer, [*self._anchor, *body])
        first = self._anchor_bytes
        text = text.encode()[first:].decode()
        spans = tuple((start - first, end - first) for start, end in spans[len(self._anchor) :])
        if reason is StopReason.STOP_STRING:
            cut = min((at for s in stop_strings if (at := text.find(s)) >= 0), default=len(text))
            text = text[:cut]
        size = len(text.encode())
        clipped = [(min(start, size), min(end, size)) for start, end in spans]
        return text, tuple(clipped + [(size, size)] * (len(ids) - len(clipped)))

    def encode(self, text: str) -> list[int]:
        """Ids of a given completion that decode to exactly this text, without special tokens.

        Sentencepiece would put a space before it as if a text began here, so it is then encoded behind
        another token.
        """
        plain: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        for before in ("", "\n", "a"):
            ids = plain if not before else self.tokenizer(before + text, add_special_tokens=False)["input_ids"]
            first = len(self.tokenizer(before, add_special_tokens=False)["input_ids"]) if before else 0
            if self.decode(ids[first:], StopReason.LENGTH, ())[0] == text:
                return ids[first:]
        return plain

    def stop_test(self, problems: Sequence[Problem]) -> Callable[[int, list[int]], bool] | None:
        """A test of whether a row's ids hold one of its problem's stop strings; ``None`` if none has any."""
        if not any(problem.stop_strings for problem in problems):
            return None
        tails = [_MORE_TOKENS + max((len(s.encode()) for s in p.stop_strings), default=0) for p in problems]

        def stops(row: int, ids: list[int]) -> bool:
            strings = problems[row].stop_strings
            if not strings:
                return False
            tail = self.tokenizer.decode(ids[-tails[row] :], skip_special_tokens=True)
            return any(string in tail for string in strings)

        return stops
