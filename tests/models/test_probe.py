"""The probe after loading: a model that samples or scores wrongly is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.families import config_of
from support.sampling import sample
from support.tiny_models import TINY_QWEN2

from lit_rl.arguments import ArgumentError
from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM, LoRA, decoding, probe
from lit_rl.models.decoding import Decoding
from lit_rl.models.family import UnsupportedModelError
from lit_rl.training.ranks import evaluating
from lit_rl.types import Problem

GPT2 = config_of("gpt2")


def built(tokenizer: str, config: dict[str, object] = GPT2, **arguments: Any) -> CausalLM:
    return CausalLM(config=config, tokenizer=tokenizer, share_prompts=False, **arguments)


def test_positions_that_the_sampler_leaves_out_are_noticed(
    byte_tokenizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "takes", lambda model, name: name == "logits_to_keep")
    with pytest.raises(UnsupportedModelError, match=r"gpt2 .* after left pads differs .* by \d+% .* probe to false"):
        built(byte_tokenizer, lora=LoRA(rank=2)).load()
    built(byte_tokenizer, probe=False).load()


def test_wrong_positions_after_rows_left_the_batch_are_noticed(
    byte_tokenizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgets_positions(self: Decoding, rows: torch.Tensor) -> None:
        before = self._positions
        keeps(self, rows)
        self._positions = before[: len(rows)]

    keeps = Decoding.keep
    monkeypatch.setattr(Decoding, "keep", forgets_positions)
    policy = built(byte_tokenizer, probe=False)
    policy.load()
    with torch.no_grad():  # rows of the probe must differ in positions, and positions must matter
        policy.model.transformer.wpe.weight.mul_(10)
    monkeypatch.setattr(probe, "_PROMPT_TOKENS", (11, 3))
    with pytest.raises(UnsupportedModelError, match="sampling from a cache"):
        probe.probe(policy.model)


def test_adapters_are_probed_switched_off_as_well(byte_tokenizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    states: list[bool] = []
    compare = probe._compare

    def remember(model: torch.nn.Module) -> None:
        states.append(any(getattr(part, "_disable_adapters", False) for part in model.modules()))
        compare(model)

    monkeypatch.setattr(probe, "_compare", remember)
    built(byte_tokenizer, TINY_QWEN2, lora=LoRA(rank=2)).load()
    assert states == [False, True]


def test_a_tokenizer_larger_than_the_embedding_is_refused(byte_tokenizer: str) -> None:
    """Ids go up to 257, that of the pad token."""
    with pytest.raises(ArgumentError, match=r"tokenizer: expected ids below 257, .* of 258; give the tokenizer"):
        built(byte_tokenizer, GPT2 | {"vocab_size": 257}).load()


@pytest.mark.parametrize("is_special", [False, True])
def test_only_special_tokens_that_nothing_names_may_lie_beyond_the_embedding(
    byte_tokenizer: str, is_special: bool
) -> None:
    policy = built(byte_tokenizer, GPT2 | {"vocab_size": 258}, probe=False)
    policy.load_tokenizer()
    policy.tokenizer.add_tokens(["<image>"], special_tokens=is_special)
    if is_special:
        policy.load()
        policy.model, policy.tokenizer.chat_template = None, "{{ '<image>' }}"
    with pytest.raises(ArgumentError, match=r"ids below 258, .* of 259"):
        policy.load()


def test_an_attention_that_the_family_lacks_is_answered_in_one_line(byte_tokenizer: str) -> None:
    config = {"model_type": "bloom", "hidden_size": 32, "n_layer": 2, "n_head": 4}
    with pytest.raises(
        UnsupportedModelError, match=r"^bloom has no attention implementation sdpa: leave attention out"
    ):
        built(byte_tokenizer, config, attention="sdpa").load()


@pytest.mark.parametrize(("family", "dtype"), [("codegen", "float16"), ("qwen2", "bfloat16")])
def test_narrow_weights_pass(byte_tokenizer: str, family: str, dtype: str) -> None:
    config = TINY_QWEN2 if family == "qwen2" else GPT2 | {"model_type": "codegen", "rotary_dim": 4, "n_ctx": 128}
    policy = built(byte_tokenizer, config, dtype=dtype, lora=LoRA(rank=2))
    policy.load()
    assert {p.dtype for p in policy.parameters() if not p.requires_grad} == {getattr(torch, dtype)}


def test_rows_that_fill_their_positions_do_not_stop_the_others(byte_tokenizer: str) -> None:
    """A finished row stays in the batch for some steps: its positions must not run past the table's end."""
    policy = built(byte_tokenizer)
    policy.load()
    policy.codec.eos_ids = frozenset()
    prompts = [Problem(p, p, TokenTarget()) for p in ("x" * 120, *(f"abc{i}" for i in range(5)))]
    with torch.no_grad(), evaluating(policy):
        done = sample(policy, prompts, max_tokens=124)
        assert done.lengths.tolist() == [8] + [124] * 5
        assert torch.allclose(policy.logprobs(done), done.sampler_logprobs, atol=1e-5)
