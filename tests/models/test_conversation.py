"""Continued conversations: what is appended is what the chat template would have written."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from lit_rl.execution import CallTests, ReferenceText
from lit_rl.models.codecs.text_codec import TemplateRewritesHistoryError, TextCodec
from lit_rl.rollout import find_program
from lit_rl.types import Problem, StopReason

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA = (
    "<|begin|>{% for m in messages %}<|header|>{{ m.role }}<|/header|>\n\n{{ m.content | trim }}<|eot|>{% endfor %}"
    "{% if add_generation_prompt %}<|header|>assistant<|/header|>\n\n{% endif %}"
)
MISTRAL = (
    "<s>{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
    "{% else %} {{ m.content }}</s>{% endif %}{% endfor %}"
)
GEMMA = (
    "<bos>{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
    "{{ m.content | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
LLAMA_2 = (
    "{% for m in messages %}{% if m.role == 'user' %}<s>[INST] {{ m.content }} [/INST]"
    "{% else %} {{ m.content | trim }} </s>{% endif %}{% endfor %}"
)
NO_SPECIAL = (
    "{% for m in messages %}### {{ m.role }}:\n{{ m.content }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}### assistant:\n{% endif %}"
)

# Each of these writes an earlier turn in another way once a later one is there.
MOVES_SYSTEM = (  # as Mistral v3: the system message stands in the last user's turn
    "<s>{% for m in messages %}{% if m.role == 'user' %}[INST] {% if loop.last and messages[0].role == 'system' %}"
    "{{ messages[0].content }}\n\n{% endif %}{{ m.content }}[/INST]{% elif m.role == 'assistant' %} {{ m.content }}</s>"
    "{% endif %}{% endfor %}"
)
COUNTS = (
    "{% for m in messages %}<|im_start|>{{ m.role }} {{ loop.index }} of {{ messages | length }}\n{{ m.content }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

SPECIALS = [
    *("<|im_start|>", "<|im_end|>", "<|begin|>", "<|header|>", "<|/header|>", "<|eot|>", "<s>", "</s>", "<bos>"),
    *("<start_of_turn>", "<end_of_turn>", "<|endoftext|>"),
]
SYSTEM = {"role": "system", "content": "You write code."}
USER = {"role": "user", "content": "Sort a list."}
CONVERSATION = ["<think>\nEasy.\n</think>\n\nHere: sort(a)", "It says:\n  NameError: a\n", "sorted(a)\n\nDone\n\n:"]


def codec(template: str) -> TextCodec:
    """Bytes as tokens, two newlines as one: what stands beside a border can merge with it."""
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    newline = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str("\n")[0][0]
    vocabulary = {symbol: i for i, symbol in enumerate([*symbols, newline * 2])}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[(newline, newline)]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, chat_template=template)
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIALS})
    return TextCodec(tokenizer)


def rendered(of: TextCodec, *messages: Any) -> tuple[int, ...]:
    return of.encode_problem(Problem("p", tuple(messages), ReferenceText("")))


@pytest.mark.parametrize("template", [CHATML, LLAMA_2], ids=["chatml", "llama 2"])
def test_a_last_message_of_the_assistant_begins_the_turn(template: str) -> None:
    """Nothing closes it, its line end stays where the template trims, and a later turn opens as ever."""
    of = codec(template)
    begun = Problem("p", (USER, {"role": "assistant", "content": "Here:\n```python\n"}), ReferenceText(""))
    opened = of.tokenizer.apply_chat_template([USER], tokenize=False, add_generation_prompt=True)
    after = "Here:\n```python\n" if template == CHATML else " Here:\n```python\n"
    assert of.tokenizer.decode(of.encode_problem(begun)) == opened + after
    plain = Problem("p", (USER,), ReferenceText(""))
    turn = (tuple(of.tokenizer("x")["input_ids"]), StopReason.STOP_STRING, "No.")
    assert of.encode_message(begun, *turn) == of.encode_message(plain, *turn)


@pytest.mark.parametrize("closes", [True, False])
@pytest.mark.parametrize(
    ("template", "end", "has_system"),
    [
        pytest.param(CHATML, "<|im_end|>", True, id="chatml"),
        pytest.param(LLAMA, "<|eot|>", True, id="llama 3"),
        pytest.param(MISTRAL, "</s>", False, id="mistral"),
        pytest.param(GEMMA, "<end_of_turn>", False, id="gemma"),
        pytest.param(NO_SPECIAL, "", True, id="no special tokens"),
    ],
)
def test_a_conversation_goes_on_as_its_template_renders_it(
    template: str, end: str, has_system: bool, closes: bool
) -> None:
    """Two extensions, against the whole conversation rendered and split at once; the end token is written once."""
    of = codec(template)
    begin = [SYSTEM, USER] if has_system else [USER]
    problem = Problem("p", tuple(begin), ReferenceText(""))
    space = " " if template == MISTRAL else ""
    ids = of.encode_problem(problem)
    for answer in (CONVERSATION[0], CONVERSATION[2]):
        written = of.encode_text(space + answer) + (of.encode_text(end) if closes and end else ())
        reason = StopReason.EOS if closes else StopReason.LENGTH
        before = ids + written
        ids = before + of.encode_message(problem, written, reason, CONVERSATION[1].strip())
        assert ids[: len(before)] == before
    said = [{"role": "user", "content": CONVERSATION[1].strip()}]
    turns = [{"role": "assistant", "content": CONVERSATION[0]}, *said]
    turns += [{"role": "assistant", "content": CONVERSATION[2]}, *said]
    assert ids == rendered(of, *begin, *turns)


def test_white_space_before_the_end_token_is_the_templates_own() -> None:
    """Llama 2 writes a space before it; the policy ends where it wants."""
    of, problem = codec(LLAMA_2), Problem("p", (USER,), ReferenceText(""))
    end = of.encode_text("</s>")
    closed = of.encode_message(problem, (*of.encode_text(" x"), *end), StopReason.EOS, "no")
    assert closed == of.encode_text("<s>[INST] no [/INST]")
    assert of.encode_message(problem, of.encode_text(" x"), StopReason.LENGTH, "no") == end + closed


@pytest.mark.parametrize(("template", "begin"), [(COUNTS, (USER,)), (MOVES_SYSTEM, (SYSTEM, USER))])
def test_a_template_that_rewrites_history_is_refused_when_a_second_turn_is_asked_for(template: str, begin: Any) -> None:
    of, problem = codec(template), Problem("p", begin, ReferenceText(""))
    assert of.encode_problem(problem)  # one turn is no matter
    with pytest.raises(TemplateRewritesHistoryError):
        of.encode_message(problem, (), StopReason.EOS, "no")
    if template == MOVES_SYSTEM:
        of.encode_message(Problem("p", (USER,), ReferenceText("")), (), StopReason.EOS, "no")


# Written after the published behaviour of Qwen3's template: earlier thinking goes, and without thinking the
# generation prompt holds an empty thought.
QWEN3 = (
    "{%- if messages[0].role == 'system' %}{{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}"
    "{%- endif %}{%- set ns = namespace(last=0) %}{%- for m in messages %}{%- if m.role == 'user' %}"
    "{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}{%- for m in messages %}"
    "{%- if m.role == 'user' or (m.role == 'system' and not loop.first) %}"
    "{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- elif m.role == 'assistant' %}"
    "{%- set thought = '' %}{%- set content = m.content %}{%- if '</think>' in content %}"
    "{%- set thought = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}"
    "{%- set content = content.split('</think>')[-1].lstrip('\n') %}{%- endif %}{%- if loop.index0 > ns.last %}"
    "{{- '<|im_start|>assistant\n<think>\n' + thought.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}"
    "{%- else %}{{- '<|im_start|>assistant\n' + content }}{%- endif %}{{- '<|im_end|>\n' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}"
    "{%- endif %}"
)
OPENS = QWEN3.replace("'<|im_start|>assistant\n' }}{%- if enable", "'<|im_start|>assistant\n<think>\n' }}{%- if enable")
"""As DeepSeek-R1's and Qwen3's thinking models: the generation prompt opens the thought."""

PROBLEM = Problem("1", ({"role": "user", "content": "Write f."},), CallTests((((1,), 2),), "f"))
DRAFT = "```python\ndef f(x):\n    return 0\n```\n"
ANSWER = "```python\ndef f(x):\n    return x + 1\n```"


def source(of: TextCodec, text: str) -> str | None:
    found = find_program(PROBLEM, text, of.prompt_opens_thought(of.encode_problem(PROBLEM)))
    return None if found is None else found.source


@pytest.mark.parametrize("template", [QWEN3, OPENS], ids=["the policy opens its thought", "the prompt opens it"])
def test_a_draft_in_a_thought_is_no_answer(template: str) -> None:
    of = codec(template)
    opening = "" if template == OPENS else "<think>\n"
    assert of.prompt_opens_thought(of.encode_problem(PROBLEM)) == (template == OPENS)
    assert source(of, f"{opening}First:\n{DRAFT}Better.\n</think>\n\n{ANSWER}") == "def f(x):\n    return x + 1\n"
    assert source(of, f"{opening}First:\n{DRAFT}Bet") is None, "cut by the token limit"
    assert source(of, f"{opening}Hm.</think>{ANSWER}") == "def f(x):\n    return x + 1\n"


def test_a_question_about_thoughts_opens_none() -> None:
    of = codec(QWEN3)
    asked: Any = ({"role": "user", "content": "What is <think>"},)
    assert not of.prompt_opens_thought(of.encode_problem(dataclasses.replace(PROBLEM, prompt=asked)))


@pytest.mark.parametrize(
    ("template", "arguments", "opening"),
    [
        (QWEN3, {}, ""),
        (QWEN3, {"enable_thinking": False}, "<think>\n\n</think>\n\n"),
        (OPENS, {}, "<think>\n"),
    ],
    ids=["on", "off", "opened by the prompt"],
)
def test_three_turns_keep_what_was_sampled(template: str, arguments: dict[str, Any], opening: str) -> None:
    """By hand: every turn is there as it was written, thoughts too, with ChatML around it."""
    of = codec(template)
    of.template_arguments = arguments
    ids = list(of.encode_problem(PROBLEM))
    text = f"<|im_start|>user\nWrite f.<|im_end|>\n<|im_start|>assistant\n{opening}"
    for turn in range(2):
        said = f"thought {turn}\n</think>\n\nf{turn}<|im_end|>"
        spoken = of.encode_text(said)
        with pytest.warns(UserWarning, match="keep each turn as it was sampled") if not turn else nullcontext():
            more = of.encode_message(PROBLEM, spoken, StopReason.EOS, f"It fails {turn}.")
        ids += [*spoken, *more]
        text += f"{said}\n<|im_start|>user\nIt fails {turn}.<|im_end|>\n<|im_start|>assistant\n{opening}"
        assert of.tokenizer.decode(ids) == text
        assert of.prompt_opens_thought(ids) == (template == OPENS)
