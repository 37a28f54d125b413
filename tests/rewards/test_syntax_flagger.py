"""While sampling, the flag is on the token that the reward would flag in the end, and on no token before its time."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.completions import PASSED, batch, problem, with_stop_reasons
from support.marked_completions import read_marked
from support.tiny_models import TINY_QWEN2
from transformers import LogitsProcessorList, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from lit_rl.rewards import Composite, SyntaxReward
from lit_rl.rewards.syntax import SyntaxFlagger
from lit_rl.rollout import find_program
from lit_rl.types import Judgement, StopReason

# The first token of the marked place must be flagged. None of these programs merely ends too early.
WRONG = {
    "a second number": "⟦x = (1 ⟪2)\n⟫⟧␄",
    "inside a block": "Sure:\n```python\n⟦def f(x:\n   ⟪ return⟫ x\n⟧```␄",
    "carriage returns": "⟦def f():\r\n\tx = 1\r\n⟪\t\t⟫y = 2\r\n⟧␄",
    "an open string": "⟦día =⟪ 'é⟫\nx = 1\n⟧␄",
    "a face": '⟦print⟪ "😀"⟫\n⟧␄',
    "a character of several tokens": "⟦x = 鬱⟪ 鬱⟫\n⟧␄",
    "a line end": "```python\n⟦for i in range(3⟪)\n⟫    print(i)\n⟧```\n␄",
    "combining characters": "⟦n̈ = x̂⟪ n̈⟫\n⟧␄",
    "the last of two blocks": "```\nx = = 1\n```\nOr:\n```\n⟦y =⟪ =⟫ 2\n⟧```␄",
    "cut": "```python\n⟦x = a⟪ b⟫ c⟧",
    "a closed block that ends too early": "```python\n⟦x = (1⟪ +\n⟫⟧```\nDone.␄",
}
RIGHT = {
    "fenced": "Sure! I write x = (.\n```python\ndef f(x: int) -> str:\n    return f'{x!r} día 鬱'\n```\nDone 😀.␄",
    "a wrong block, then a right one": "```\nx = = 1\n```\nNo:\n```\nx = 1\n```␄",
    "words that grow": "```python\nmatch x:\r\n    case {'é': y} if y not in x:\r\n        print(y)\r\n```␄",
    "tildes": "~~~~\ns = '''\n~~~\n'''\n~~~~\n␄",
    "cut inside a character": "```python\nx = 1  # 鬱␡",
    "no block": "I cannot do that. 🙏␄",
    "nothing": "␄",
}


def flag_of(qwen: Any, source: str, **arguments: Any) -> tuple[int | None, list[int | None]]:
    """The last flag, and the flag at each step; two columns of prompt stand before the completion."""
    spans = read_marked(qwen, source).completions
    encoded = qwen(spans.texts[0], add_special_tokens=False)["input_ids"]
    flagger = SyntaxFlagger(qwen, prompt_length=2, **arguments)
    scores = torch.zeros(1, 3)
    flags = []
    for t in range(len(encoded) + 1):
        assert flagger(torch.tensor([[1, 2, *encoded[:t]]]), scores) is scores
        flags.append(flagger.flags[0])
    return flags[-1], flags


@pytest.mark.parametrize("source", WRONG.values(), ids=WRONG)
def test_the_first_token_that_the_grammar_rejects_is_flagged(qwen: Any, source: str) -> None:
    marked = read_marked(qwen, source)
    last, flags = flag_of(qwen, source, fenced="```" in source)
    assert last == marked.blamed[0]
    first_seen = next(t for t, flag in enumerate(flags) if flag == last)
    assert first_seen > last
    if "```" not in source:
        assert set(flags[:first_seen]) == {None}, "once lost, viability stays lost; before, nothing is flagged"


@pytest.mark.parametrize("source", RIGHT.values(), ids=RIGHT)
def test_a_right_program_is_not_flagged(qwen: Any, source: str) -> None:
    assert flag_of(qwen, source)[0] is None


@settings(max_examples=30, deadline=None)
@given(pieces=st.lists(st.sampled_from([*"x=1(:)\n", "```", "\n```\n", "  ", "if", "é"]), max_size=12))
def test_the_reward_agrees_at_the_end(byte_tokenizer: str, pieces: list[str]) -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(byte_tokenizer)
    text = "".join(pieces)
    ids = tokenizer(text)["input_ids"]
    flagger = SyntaxFlagger(tokenizer, prompt_length=0, fenced=False)
    for t in range(len(ids) + 1):
        flagger(torch.tensor([ids[:t]], dtype=torch.long), torch.zeros(1, 1))
    if flagger.flags[0] is not None:
        completions = with_stop_reasons(batch([text]), StopReason.LENGTH)
        judgement = Judgement(problem(), find_program(problem(), text), PASSED)
        assert Composite([SyntaxReward()])(completions, [judgement]).rewards.item() == -1.0


def test_generate_takes_it_and_samples_the_same(byte_tokenizer: str) -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(byte_tokenizer)
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=258, **TINY_QWEN2)).eval()
    prompt = tokenizer(["def f():", "x = 1   "], return_tensors="pt")["input_ids"]
    flagger = SyntaxFlagger(tokenizer, prompt_length=8, fenced=False)
    settings = {"do_sample": True, "max_new_tokens": 12, "pad_token_id": 257, "eos_token_id": 256}
    torch.manual_seed(1)
    plain = model.generate(prompt, **settings)
    torch.manual_seed(1)
    watched = model.generate(prompt, **settings, logits_processor=LogitsProcessorList([flagger]))
    assert torch.equal(plain, watched)
    assert len(flagger.flags) == 2 and any(flag is not None for flag in flagger.flags), "noise is no Python"
