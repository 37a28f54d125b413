from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.plain_loops import plain_byte_spans
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from lit_rl.execution import ReferenceText
from lit_rl.models.codecs.text_codec import TextCodec
from lit_rl.models.codecs.token_bytes import _byte_level_alphabet, text_and_byte_spans
from lit_rl.models.loading.weights import load_tokenizer
from lit_rl.types import Problem, StopReason


def decode(tokenizer: Any, ids: list[int]) -> str:
    return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def sentencepiece_like() -> PreTrainedTokenizerFast:
    """All 256 byte tokens, some words with the sign for a space, and the decoder of Llama 2."""
    words = ["<unk>", *(f"<0x{b:02X}>" for b in range(256)), "\u2581def", "\u2581", "x", "\u2581\u2581", "é", "="]
    backend = Tokenizer(models.BPE(vocab={w: i for i, w in enumerate(words)}, merges=[], byte_fallback=True))
    backend.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", eos_token="</s>")


def byte_level_of(pieces: list[bytes]) -> PreTrainedTokenizerFast:
    """A token for each of these runs of bytes; an empty one is a special token."""
    alphabet = {byte: sign for sign, byte in _byte_level_alphabet().items()}
    words = ["".join(alphabet[byte] for byte in piece) or "<none>" for piece in pieces]
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<none>"))
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<none>")


SENTENCEPIECE = sentencepiece_like()


def ids_of(tokenizer: Any, tokens: list[str]) -> list[int]:
    return [tokenizer.convert_tokens_to_ids(token) for token in tokens]


# One leading space is dropped, unless a broken run begins with it, which gives a sign a byte.
WORDS_AND_BYTES = {
    "words and bytes": (
        ["\u2581def", "\u2581", "x", "<0x0A>", "<0xC3>", "<0xA9>", "\u2581def"],
        "def x\né def",
        ((0, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, 12)),
    ),
    "a broken run": (["x", "<0xC3>", "<0x28>", "x"], "x\ufffd\ufffdx", ((0, 1), (1, 4), (4, 7), (7, 8))),
    "a space in a broken run": (["<0x20>", "<0x80>"], "\ufffd\ufffd", ((0, 3), (3, 6))),
    "a space alone": (["<0x20>"], "", ((0, 0),)),
}


def test_each_token_has_its_bytes() -> None:
    """Those of byte-level tokenizers are compared with a loop below."""
    for name, (tokens, text, spans) in WORDS_AND_BYTES.items():
        assert text_and_byte_spans(SENTENCEPIECE, ids_of(SENTENCEPIECE, tokens)) == (text, spans), name


@settings(max_examples=80)
@given(data=st.data())
def test_any_ids_decode_to_the_same_text(data: st.DataObject) -> None:
    for tokenizer, most in ((WORDS, len(PIECES) + 1), (SENTENCEPIECE, len(SENTENCEPIECE) - 1)):
        check_against_decode(tokenizer, data.draw(st.lists(st.integers(0, most), max_size=30)))


def check_against_decode(tokenizer: Any, ids: list[int]) -> None:
    text, spans = text_and_byte_spans(tokenizer, ids)
    assert text == decode(tokenizer, ids)
    assert len(spans) == len(ids)
    assert all(start <= end for start, end in spans)
    covered = {byte for start, end in spans for byte in range(start, end)}
    assert covered == set(range(len(text.encode())))
    filled = [span for span in spans if span[0] < span[1]]
    assert filled == sorted(filled)


def test_a_decoder_that_moves_bytes_is_refused() -> None:
    backend = Tokenizer(models.WordPiece(vocab={"a": 0}, unk_token="a"))
    backend.decoder = decoders.WordPiece()
    with pytest.raises(ValueError, match="decodes by WordPiece, which does not keep bytes in place"):
        text_and_byte_spans(PreTrainedTokenizerFast(tokenizer_object=backend), [0])


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_stop_string_is_found_with_the_token_that_completes_it(data: st.DataObject) -> None:
    """As by decoding everything after each token: whole and broken characters, special tokens, spaces."""
    for tokenizer in (WORDS, sentencepiece_like()):
        codec = TextCodec(tokenizer)
        words = list(range(len(PIECES))) if tokenizer is WORDS else [*range(256, 264), 0x61, 0xC4, 0xAA]
        ids = data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=8))
        stops = tuple(data.draw(st.lists(st.sampled_from(["x", "b ", " ", "é", "\ufffd", " x", "def x"]), max_size=2)))
        texts = [tokenizer.decode(ids[:n], skip_special_tokens=True) for n in range(len(ids) + 1)]
        fresh = [n for n in range(1, len(texts)) if any(s in texts[n] and s not in texts[n - 1] for s in stops)]
        held = [n for n in range(1, len(texts)) if codec.contains_stop(ids[:n], stops)]
        assert held[:1] == fresh[:1]


PIECES = [b"x", b"ab", b" ", "é".encode(), "é".encode()[:1], "é".encode()[1:], "去".encode()[:2], "去".encode()[2:]]
PIECES += ["😀".encode()[:1], "😀".encode()[1:3], "😀".encode()[3:], "\ufffd".encode(), b"\xff", b""]
WORDS = byte_level_of(PIECES)


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=24))
def test_spans_are_those_of_a_loop_over_bytes(pieces: list[bytes]) -> None:
    """Tokens of several bytes, whole and broken characters, and special tokens between their parts."""
    assert text_and_byte_spans(WORDS, [PIECES.index(piece) for piece in pieces]) == plain_byte_spans(pieces)


TEMPLATE = "<bos>{% for message in messages %}{{ message['content'] }}{% endfor %}"


def tokenizer(template: str | None) -> Any:
    """Whole words; puts BOS before every text, as the tokenizers of Llama and Gemma do."""
    vocabulary = {"<bos>": 0, "<unk>": 1, "write": 2, "code": 3, "a": 4}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 0)])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<bos>", unk_token="<unk>", chat_template=template
    )


def test_bos_stands_once_before_text_and_before_a_chat() -> None:
    """Item 14: for text the tokenizer writes it, for a chat the template."""
    text = Problem("p", "write code", ReferenceText(""))
    chat = Problem("p", ({"role": "user", "content": "write code"},), ReferenceText(""))
    assert TextCodec(tokenizer(None)).encode_problem(text) == (0, 2, 3)
    assert TextCodec(tokenizer(TEMPLATE)).encode_problem(chat) == (0, 2, 3)


@pytest.fixture
def codec(byte_tokenizer: str) -> TextCodec:
    """Bytes as tokens."""
    return TextCodec(load_tokenizer(byte_tokenizer))


@pytest.mark.parametrize("text", ["x" * 500, "Traceback\n" + "é" * 200 + "\nValueError: \N{GRINNING FACE}" * 9])
def test_a_long_text_keeps_its_beginning_and_its_end(codec: TextCodec, text: str) -> None:
    for limit in (20, 21, 25, 60, 100):
        shorter = codec.truncate_middle(text, limit)
        begin, note, end = shorter.partition("\n[... left out ...]\n")
        assert note and text.startswith(begin) and text.endswith(end)
        length = len(codec.encode_text(shorter))
        assert length <= limit and length > limit - 6
        assert abs(len(begin.encode()) - len(end.encode())) <= 6


def test_a_message_after_a_text_is_appended_as_it_is(codec: TextCodec) -> None:
    """Earlier ids stay, also where another split of the whole text would merge tokens."""
    problem = Problem("p", "def f():", ReferenceText(""))
    ids = tuple(codec.encode_text("    return"))
    added = codec.encode_message(problem, ids, StopReason.LENGTH, "  # wrong\n")
    assert codec.decode([*ids, *added], StopReason.LENGTH, ())[0] == "    return  # wrong\n"
