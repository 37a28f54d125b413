"""Which hidden state gives which value."""

from __future__ import annotations

import torch
from support.tiny_models import TINY_QWEN2

from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM
from lit_rl.models.critic import ValueHead, values_of
from lit_rl.types import Problem


def test_a_value_is_read_before_its_token_and_the_tail_after_the_last_one(byte_tokenizer: str) -> None:
    """Item 26: hidden state s of row i is the number 100 i + s, and the head hands it on."""
    policy = CausalLM(config=TINY_QWEN2, tokenizer=byte_tokenizer)
    policy.load()
    rows = policy.codec.as_completions([Problem(p, p, TokenTarget()) for p in ("abc", "a")], ["xyzw", "x"])
    num_prompt, num_tokens = rows.prompt_ids.shape[1], rows.completion_ids.shape[1]
    assert (num_prompt, num_tokens, rows.lengths.tolist()) == (3, 5, [5, 2])
    state = 100 * torch.arange(2)[:, None] + torch.arange(num_prompt + num_tokens)
    head = ValueHead(1, torch.float32)
    with torch.no_grad():
        head.weight.fill_(1.0)
        values, tails = values_of(state.float()[..., None], head, rows)
    assert values[0].tolist() == [2, 3, 4, 5, 6]  # the last prompt token is state 2
    assert values[1, :2].tolist() == [102, 103]
    assert tails.tolist() == [7, 104]  # after the last real token: states 3 - 1 + 5 and 3 - 1 + 2


def test_values_of_narrow_states_are_float32() -> None:
    head = ValueHead(4, torch.bfloat16)
    with torch.no_grad():
        head.weight.fill_(0.3)
    rows = _one_row()
    values, tails = values_of(torch.rand(1, 4, 4).bfloat16(), head, rows)
    assert values.dtype == tails.dtype == torch.float32
    assert (values != values.bfloat16()).any()


def _one_row() -> object:
    class Row:
        completion_ids = torch.zeros(1, 2, dtype=torch.long)
        completion_mask = torch.ones(1, 2, dtype=torch.bool)

    return Row()
