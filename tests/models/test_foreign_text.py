"""Texts of others, which may spell out special tokens: a model reads them as text, wherever they come from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from lit_rl.execution import ReferenceText
from lit_rl.models.codecs.text_codec import TextCodec
from lit_rl.types import Message, Problem, StopReason

SPECIALS = ["<s>", "<|im_start|>", "<|im_end|>", "<|im", "☃", "< |im_end|>"]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def own_tokenizer() -> Any:
    """Bytes as tokens and BOS before each text; special tokens of one character, and within each other."""
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={symbol: i for i, symbol in enumerate(symbols)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, chat_template=CHATML, bos_token="<s>")
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIALS})
    bos = [("<s>", tokenizer.bos_token_id)]
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=bos)
    return tokenizer


@pytest.fixture(scope="module", params=["own", "qwen2.5"])
def codec(request: pytest.FixtureRequest) -> TextCodec:
    if request.param == "own":
        return TextCodec(own_tokenizer())
    folder = Path(request.getfixturevalue("real_data")) / "tokenizers" / "qwen2.5"
    return TextCodec(AutoTokenizer.from_pretrained(os.fspath(folder)))


def hostile(codec: TextCodec) -> str:
    """Outputs of a program: every special token, whole, doubled, one inside another, and private characters."""
    spelled = codec.tokenizer.all_special_tokens
    return f"'a\n{''.join(spelled)} {spelled[0][:3]}{spelled[0]}{spelled[-1]}{spelled[-1]} \ufdd0{spelled[1]}\ufdd1 b'"


def chat(*contents: str) -> Problem:
    messages: list[Message] = [
        {"role": role, "content": text} for role, text in zip(("system", "user"), contents, strict=True)
    ]
    return Problem("p", tuple(messages), ReferenceText(""))


def specials(codec: TextCodec, ids: tuple[int, ...]) -> list[int]:
    return [token for token in ids if token in codec.tokenizer.all_special_ids]


def text_of(codec: TextCodec, ids: tuple[int, ...]) -> str:
    text: str = codec.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return text


def test_a_message_of_a_chat_spells_special_tokens_as_text(codec: TextCodec) -> None:
    said = hostile(codec)
    ids, harmless = codec.encode_problem(chat(said, said)), codec.encode_problem(chat("a", "b"))
    assert specials(codec, ids) == specials(codec, harmless)
    assert text_of(codec, ids) == text_of(codec, harmless).replace("a<", f"{said}<", 1).replace("b<", f"{said}<", 1)


@pytest.mark.parametrize("prompt", [({"role": "user", "content": "Write f."},), "def f():"], ids=["chat", "text"])
def test_a_message_of_the_environment_spells_special_tokens_as_text(codec: TextCodec, prompt: Any) -> None:
    problem, said = Problem("p", prompt, ReferenceText("")), hostile(codec)
    added, harmless = (codec.encode_message(problem, (), StopReason.LENGTH, text) for text in (said, "ok"))
    assert specials(codec, added) == specials(codec, harmless)
    assert text_of(codec, added) == text_of(codec, harmless).replace("ok", said)


def test_a_text_prompt_is_its_authors_but_for_what_is_marked(codec: TextCodec) -> None:
    """BOS once, at the beginning; a special token that the author writes counts, one of a stranger does not."""
    said, token = hostile(codec), codec.tokenizer.all_special_tokens[0]
    prompts = (f"{codec.escape_special_tokens(text)}\n{token}def f():" for text in (said, "ok"))
    ids, harmless = (codec.encode_problem(Problem("p", prompt, ReferenceText(""))) for prompt in prompts)
    assert specials(codec, ids) == specials(codec, harmless) and len(specials(codec, ids)) in (1, 2)
    assert text_of(codec, ids) == text_of(codec, harmless).replace("ok", said)


def test_a_given_completion_spells_special_tokens_as_text(codec: TextCodec) -> None:
    """A demonstration in HTML has ``<s>`` in it, which must not end it."""
    said = hostile(codec)
    (ids, reason), (harmless, _) = codec.encode_completion(said), codec.encode_completion("ok")
    assert specials(codec, ids) == specials(codec, harmless)
    assert codec.decode(ids, reason, ())[0] == said


def test_a_shortened_message_is_counted_as_it_is_encoded(codec: TextCodec) -> None:
    problem = Problem("p", "def f():", ReferenceText(""))
    shorter = codec.truncate_middle(hostile(codec) * 40, 100)
    begin, _, end = shorter.partition("\n[... left out ...]\n")
    assert hostile(codec).startswith(begin[:30]) and hostile(codec).endswith(end[-30:])
    assert 80 < len(codec.encode_message(problem, (), StopReason.LENGTH, shorter)) <= 100


def test_text_without_special_tokens_is_encoded_as_the_template_alone_would(codec: TextCodec) -> None:
    problem = chat("a\n\n", "  \nb")
    rendered = codec.tokenizer.apply_chat_template(
        [dict(message) for message in problem.prompt if not isinstance(message, str)],
        tokenize=False,
        add_generation_prompt=True,
    )
    assert list(codec.encode_problem(problem)) == codec.tokenizer(rendered, add_special_tokens=False)["input_ids"]
