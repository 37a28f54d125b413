"""Prompts as ids: special tokens exactly once, whichever part writes them."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from lit_rl.execution import ReferenceText
from lit_rl.models.codecs.text_codec import TextCodec
from lit_rl.models.loading.weights import load_tokenizer
from lit_rl.types import Problem, StopReason

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
    assert TextCodec(tokenizer(None)).encode(text) == (0, 2, 3)
    assert TextCodec(tokenizer(TEMPLATE)).encode(chat) == (0, 2, 3)


def test_a_chat_without_a_template_is_refused() -> None:
    chat = Problem("p", ({"role": "user", "content": "write code"},), ReferenceText(""))
    with pytest.raises(ValueError, match="p is a chat, but the tokenizer has no chat template"):
        TextCodec(tokenizer(None)).encode(chat)


@pytest.fixture
def codec(byte_tokenizer: str) -> TextCodec:
    """Bytes as tokens."""
    return TextCodec(load_tokenizer(byte_tokenizer))


@pytest.mark.parametrize("text", ["x" * 500, "Traceback\n" + "é" * 200 + "\nValueError: \N{GRINNING FACE}" * 9])
def test_a_long_text_keeps_its_beginning_and_its_end(codec: TextCodec, text: str) -> None:
    for limit in (20, 21, 25, 60, 100):
        shorter = codec.shorten(text, limit)
        begin, note, end = shorter.partition("\n[... left out ...]\n")
        assert note and text.startswith(begin) and text.endswith(end)
        length = len(codec.encode_text(shorter))
        assert length <= limit and length > limit - 6
        assert abs(len(begin.encode()) - len(end.encode())) <= 6


def test_a_short_text_stays_and_a_limit_below_the_note_is_refused(codec: TextCodec) -> None:
    assert codec.shorten("x" * 30, 30) == "x" * 30
    with pytest.raises(ValueError, match="10 tokens do not hold even the note"):
        codec.shorten("x" * 30, 10)


def test_a_message_after_a_text_is_appended_as_it_is(codec: TextCodec) -> None:
    """Earlier ids stay, also where another split of the whole text would merge tokens."""
    problem = Problem("p", "def f():", ReferenceText(""))
    ids = tuple(codec.encode_text("    return"))
    added = codec.extend(problem, ids, StopReason.LENGTH, "  # wrong\n")
    assert codec.decode([*ids, *added], StopReason.LENGTH, ())[0] == "    return  # wrong\n"
