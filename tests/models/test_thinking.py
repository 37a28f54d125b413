"""Thinking models: what a thought holds is no answer, also where the prompt opened it and the token limit cut it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from models.test_conversation import codec

from lit_rl.execution import CallTests
from lit_rl.models.codecs.text_codec import TextCodec
from lit_rl.rollout import find_program
from lit_rl.types import Problem, StopReason

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
    found = find_program(PROBLEM, text, of.ends_in_thought(of.encode(PROBLEM)))
    return None if found is None else found.source


@pytest.mark.parametrize("template", [QWEN3, OPENS], ids=["the policy opens its thought", "the prompt opens it"])
def test_a_draft_in_a_thought_is_no_answer(template: str) -> None:
    of = codec(template)
    opening = "" if template == OPENS else "<think>\n"
    assert of.ends_in_thought(of.encode(PROBLEM)) == (template == OPENS)
    assert source(of, f"{opening}First:\n{DRAFT}Better.\n</think>\n\n{ANSWER}") == "def f(x):\n    return x + 1\n"
    assert source(of, f"{opening}First:\n{DRAFT}Bet") is None, "cut by the token limit"
    assert source(of, f"{opening}Hm.</think>{ANSWER}") == "def f(x):\n    return x + 1\n"


def test_without_thinking_the_whole_text_is_the_answer() -> None:
    of = codec(QWEN3)
    of.template_arguments = {"enable_thinking": False}
    assert of.tokenizer.decode(of.encode(PROBLEM)).endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert not of.ends_in_thought(of.encode(PROBLEM))
    assert source(of, ANSWER) == "def f(x):\n    return x + 1\n"


def test_a_question_about_thoughts_opens_none() -> None:
    of = codec(QWEN3)
    asked: Any = ({"role": "user", "content": "What is <think>"},)
    assert not of.ends_in_thought(of.encode(dataclasses.replace(PROBLEM, prompt=asked)))


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
    ids = list(of.encode(PROBLEM))
    text = f"<|im_start|>user\nWrite f.<|im_end|>\n<|im_start|>assistant\n{opening}"
    for turn in range(2):
        said = f"thought {turn}\n</think>\n\nf{turn}<|im_end|>"
        spoken = of.encode_text(said)
        with pytest.warns(UserWarning, match="keep each turn as it was sampled") if not turn else _nothing():
            more = of.extend(PROBLEM, spoken, StopReason.EOS, f"It fails {turn}.")
        ids += [*spoken, *more]
        text += f"{said}\n<|im_start|>user\nIt fails {turn}.<|im_end|>\n<|im_start|>assistant\n{opening}"
        assert of.tokenizer.decode(ids) == text
        assert of.ends_in_thought(ids) == (template == OPENS)


class _nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...
