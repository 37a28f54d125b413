"""Byte offsets of sampled tokens in the text, without decoding and encoding again.

Text goes through the tokenizer only once, when it is sampled. Encoding the decoded text again can give other
tokens than were sampled, so offsets are computed from the ids themselves: each id has fixed bytes,
and the text is those bytes in a row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from lit_rl.errors import UsageError
from lit_rl.types import ByteSpan, ByteSpans, int64_tensor

_BYTE_FALLBACK = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()


def text_and_byte_spans(tokenizer: Any, ids: Iterable[int]) -> tuple[str, ByteSpans]:
    """Return the text of the ids and the place of each token in the UTF-8 of that text.

    The text equals ``tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)``,
    replacement characters included. Supported are byte-level vocabularies (GPT-2, Qwen, Llama 3, DeepSeek),
    sentencepiece ones (``▁`` for a space, ``<0x0A>`` for single bytes: Llama 2, Gemma) and vocabularies whose tokens
    are plain text.

    Spans of neighbours touch and cover the text, with these cases:

    * a token that is part of a multi-byte character covers only its own bytes of that character;
    * bytes that are not UTF-8 (sampling stopped inside a character) show as U+FFFD, three bytes of text each:
      every token that gave bytes to such a character gets the whole character, so neighbours can overlap there;
    * special tokens and ids without a token (padding rows of an embedding) are empty spans at their place;
    * a space that decoding drops at the very beginning (sentencepiece) is missing from its token's span.

    Args:
        tokenizer: a ``transformers`` tokenizer with a ``tokenizers`` backend.
        ids: T token ids of one completion.

    Returns:
        The text and T pairs ``(start, end)`` in bytes.
    """
    vocabulary = _token_byte_table(tokenizer)
    ids = tuple(ids)
    # Built-in functions and tensor operations go over the tokens: a Python loop would take seconds for a large rollout.
    pieces = list(map(vocabulary.__getitem__, ids))
    text, broken = vocabulary.decode_pieces(ids, pieces)
    sizes = int64_tensor(map(len, pieces))
    after = sizes.cumsum(0)
    ends = _raw_to_text_offsets(after, broken, at_end=True)
    starts = torch.where(sizes > 0, _raw_to_text_offsets(after - sizes, broken, at_end=False), ends)
    dropped = vocabulary.count_dropped_leading_chars(text)
    if dropped:
        shift = len(text[:dropped].encode())
        starts, ends = (starts - shift).clamp(min=0), (ends - shift).clamp(min=0)
    return text[dropped:], ByteSpans(starts, ends)


def token_to_bytes(tokenizer: Any, index: int) -> bytes:
    """Return the bytes of one id in the text; empty for special tokens and ids without a token."""
    return _token_byte_table(tokenizer)[index]


class _TokenByteTable(dict[int, bytes]):
    """Table of the bytes of each id, filled on first use: a completion uses a small part of a large vocabulary.

    ``single_bytes`` holds the ids met so far that are sentencepiece's single-byte tokens.
    """

    def __init__(self, tokenizer: Any) -> None:
        super().__init__()
        self.single_bytes: set[int] = set()
        backend = tokenizer.backend_tokenizer
        self._token_of: Callable[[int], str | None] = backend.id_to_token
        self._special = {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
        self._steps = _tokenizer_decoder_steps(backend.decoder, type(tokenizer).__name__)
        self._byte_level = any(step["type"] == "ByteLevel" for step in self._steps)

    def __missing__(self, index: int) -> bytes:
        token = None if index in self._special else self._token_of(index)
        self[index] = piece = b"" if token is None else self._bytes_of_token(token, index)
        return piece

    def _bytes_of_token(self, token: str, index: int) -> bytes:
        if self._byte_level:
            try:
                return bytes(map(_ALPHABET.__getitem__, token))
            except KeyError:  # of an added token, which is plain text
                return token.encode()
        for step in self._steps:
            kind = step["type"]
            if kind == "Replace":
                token = token.replace(step["pattern"]["String"], step["content"])
            elif kind == "Metaspace":
                token = token.replace(step["replacement"], " ")
            elif kind == "ByteFallback" and (match := _BYTE_FALLBACK.fullmatch(token)):
                self.single_bytes.add(index)
                return bytes([int(match[1], 16)])
        return token.encode()

    def decode_pieces(self, ids: Sequence[int], pieces: list[bytes]) -> tuple[str, list[ByteSpan]]:
        """Return the text and the spans that are not UTF-8; remove from ``pieces`` the spaces that decoding drops."""
        if self._byte_level:
            return _decode_utf8_lossy(b"".join(pieces))
        for step in self._steps:
            if step["type"] == "Metaspace" and step["prepend_scheme"] != "never":
                first = next((i for i, piece in enumerate(pieces) if piece), None)
                if first is not None:
                    pieces[first] = pieces[first].replace(b" ", b"")
        try:
            return b"".join(pieces).decode(), []
        except UnicodeDecodeError:  # some single bytes are no character
            return _decode_byte_runs(pieces, [index in self.single_bytes for index in ids])

    def count_dropped_leading_chars(self, text: str) -> int:
        """Count the characters that decoding drops at the beginning of a text."""
        count = 0
        for step in self._steps:
            if step["type"] == "Strip":
                while count < step["start"] and text.startswith(step["content"], count):
                    count += 1
        return count


_VOCABULARIES: WeakKeyDictionary[Any, tuple[int, _TokenByteTable]] = WeakKeyDictionary()


def _token_byte_table(tokenizer: Any) -> _TokenByteTable:
    """Return the tokenizer's table, which is built once, and again after tokens were added."""
    size, vocabulary = _VOCABULARIES.get(tokenizer, (-1, None))
    if vocabulary is None or size != len(tokenizer):
        vocabulary = _TokenByteTable(tokenizer)
        _VOCABULARIES[tokenizer] = (len(tokenizer), vocabulary)
    return vocabulary


def _tokenizer_decoder_steps(decoder: Any, name: str) -> list[dict[str, Any]]:
    """Return the backend's decoder as a flat list of steps; raise if a step does not keep bytes in place."""
    if decoder is None:
        raise UsageError(f"{name} has no decoder and puts a space between all tokens: set a decoder, e.g. ByteLevel")
    state = json.loads(decoder.__getstate__())
    steps = state["decoders"] if state["type"] == "Sequence" else [state]
    for step in steps:
        known = step["type"] in ("ByteLevel", "ByteFallback", "Fuse", "Metaspace")
        known |= step["type"] == "Replace" and "String" in step["pattern"]
        known |= step["type"] == "Strip" and step["stop"] == 0
        if not known:
            raise UsageError(
                f"{name} decodes by {step['type']}, which does not keep bytes in place: use a BPE tokenizer"
            )
    return list(steps)


def _byte_level_alphabet() -> dict[str, int]:
    """Return GPT-2's printable characters with their bytes: printable Latin-1 as it is, other bytes from U+0100 on.

    Source: Radford et al. 2019, the byte-level BPE of GPT-2.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {chr(byte): byte for byte in printable}
    hidden = [byte for byte in range(256) if byte not in set(printable)]
    alphabet.update({chr(0x100 + n): byte for n, byte in enumerate(hidden)})
    return alphabet


_ALPHABET = _byte_level_alphabet()


def _raw_to_text_offsets(offsets: Tensor, broken: Sequence[ByteSpan], *, at_end: bool) -> Tensor:
    """Turn offsets [T] in the sampled bytes into offsets in the UTF-8 of the text.

    They are equal unless some bytes were not UTF-8: ``broken`` lists such pieces in order, each of which became one
    U+FFFD. A token that begins or ends inside such a piece has the whole character.
    """
    if not broken:
        return offsets
    pieces = ByteSpans.of(broken)
    growth = len(_REPLACEMENT) - (pieces.ends - pieces.starts)
    shifts = torch.cat([growth.new_zeros(1), growth.cumsum(0)])  # entry k: growth by the first k pieces
    before = torch.searchsorted(pieces.starts.contiguous(), offsets)  # pieces that begin before the offset
    last = (before - 1).clamp(min=0)
    inside = (before > 0) & (offsets < pieces.ends[last])
    character = pieces.starts[last] + shifts[last] + (len(_REPLACEMENT) if at_end else 0)
    return torch.where(inside, character, offsets + shifts[before])


def _decode_utf8_lossy(raw: bytes) -> tuple[str, list[ByteSpan]]:
    """Decode UTF-8 with one U+FFFD for each longest piece that is not a character (the Unicode standard's practice)."""
    try:
        return raw.decode(), []
    except UnicodeDecodeError:
        pass
    text: list[str] = []
    broken: list[ByteSpan] = []
    position = 0
    while position < len(raw):
        try:
            text.append(raw[position:].decode())
            break
        except UnicodeDecodeError as error:
            text.append(raw[position : position + error.start].decode() + _REPLACEMENT.decode())
            broken.append((position + error.start, position + error.end))
            position += error.end
    return "".join(text), broken


def _decode_byte_runs(pieces: Sequence[bytes], single: Sequence[bool]) -> tuple[str, list[ByteSpan]]:
    """Decode as sentencepiece does: a run of single-byte tokens is one text or, if not UTF-8, one U+FFFD per byte."""
    text: list[str] = []
    broken: list[ByteSpan] = []
    run = b""
    position = 0
    # The last entry ends the last run.
    for piece, is_byte in zip([*pieces, b" "], [*single, False], strict=True):
        if is_byte:
            run += piece
            continue
        if run and piece:
            try:
                text.append(run.decode())
            except UnicodeDecodeError:
                text.append(_REPLACEMENT.decode() * len(run))
                broken.extend((position + i, position + i + 1) for i in range(len(run)))
            position += len(run)
            run = b""
        text.append(piece.decode())
        position += len(piece)
    return "".join(text[:-1]), broken
