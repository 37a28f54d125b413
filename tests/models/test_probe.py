"""Checks after loading: a model that samples or scores wrongly is refused; hidden states to logits by family."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.families import config_of
from support.tiny_models import TINY_QWEN2, loaded

from lit_rl.errors import ArgumentError
from lit_rl.math.linear_head import LinearHead
from lit_rl.models import CausalLM, LoRA, decoding, probe
from lit_rl.models.decoding import BatchDecoder
from lit_rl.models.family import UnsupportedModelError, check_output_projection, decoder_of, output_projection

GPT2 = config_of("gpt2")


def alone(tokenizer: str, config: dict[str, Any] = GPT2, **options: Any) -> CausalLM:
    return loaded(tokenizer, config=config, share_prompts=False, **options)


def test_positions_that_the_sampler_leaves_out_are_noticed(
    byte_tokenizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "accepted_forward_arguments", lambda model: frozenset({"logits_to_keep"}))
    with pytest.raises(UnsupportedModelError, match=r"gpt2 .* after left pads differs .* by \d+% .* probe to false"):
        alone(byte_tokenizer, lora=LoRA(rank=2))
    alone(byte_tokenizer, probe=False)


def test_wrong_positions_after_rows_left_the_batch_are_noticed(
    byte_tokenizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgets_positions(self: BatchDecoder, rows: torch.Tensor) -> None:
        before = self._positions
        keeps(self, rows)
        self._positions = before[: len(rows)]

    keeps = BatchDecoder.keep_rows
    monkeypatch.setattr(BatchDecoder, "keep_rows", forgets_positions)
    policy = alone(byte_tokenizer, probe=False)
    with torch.no_grad():  # rows of the probe must differ in positions, and positions must matter
        policy.model.transformer.wpe.weight.mul_(10)
    monkeypatch.setattr(probe, "_PROMPT_TOKENS", (11, 3))
    with pytest.raises(UnsupportedModelError, match="sampling from a cache"):
        probe.check_sampling_matches_training(policy.model)


def test_a_tokenizer_larger_than_the_embedding_is_refused(byte_tokenizer: str) -> None:
    """Ids go up to 257, that of the pad token."""
    with pytest.raises(ArgumentError, match=r"tokenizer: expected ids below 257, .* up to 257; give the tokenizer"):
        alone(byte_tokenizer, GPT2 | {"vocab_size": 257})


@pytest.mark.parametrize(
    ("family", "setting"),
    [
        ("granite", {"logits_scaling": 4.0}),
        ("gemma2", {"final_logit_softcapping": 0.05}),
        ("gemma3_text", {"final_logit_softcapping": 0.05}),
        ("cohere", {"logit_scale": 0.25}),
        ("qwen2", {}),
    ],
)
def test_logits_are_the_models_own(byte_tokenizer: str, family: str, setting: dict[str, float]) -> None:
    """Each setting changes the logits by more than half."""
    model = model_of(byte_tokenizer, config_of(family) | setting)
    ids = torch.arange(1, 9)[None]
    with torch.no_grad():
        hidden = decoder_of(model)(input_ids=ids).last_hidden_state[0]
        own = model(input_ids=ids).logits[0]
        plain = model.get_output_embeddings()(hidden)
        assert torch.allclose(output_projection(model)(hidden), own, atol=1e-6)
        assert isinstance(output_projection(model), LinearHead)
    assert not setting or (plain - own).abs().max() > 0.3 * own.abs().max()


def model_of(tokenizer: str, config: dict[str, Any], **options: Any) -> Any:
    return alone(tokenizer, config, probe=False, **options).model.eval()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_logits_that_nobody_knows_how_to_make_are_refused(byte_tokenizer: str, dtype: str) -> None:
    """A tenth more is past rounding, in bfloat16 too."""
    model = model_of(byte_tokenizer, TINY_QWEN2, dtype=dtype)
    check_output_projection(model)

    def scaled(module: Any, args: Any, output: Any) -> None:
        output.logits = output.logits * 1.1

    model.register_forward_hook(scaled)
    with pytest.raises(UnsupportedModelError, match=r"not its output matrix times .*lit_rl\.models\.family"):
        check_output_projection(model)


def test_a_policy_with_unknown_logits_does_not_load_even_without_a_probe(byte_tokenizer: str) -> None:
    with pytest.raises(UnsupportedModelError, match="not its output matrix"):
        model_of(byte_tokenizer, config_of("granite") | {"model_type": "hyperclovax"})


def test_an_output_layer_that_does_more_is_called(byte_tokenizer: str) -> None:
    """Adapters on it, and hooks."""
    adapted = model_of(byte_tokenizer, TINY_QWEN2, lora=LoRA(rank=2, target_modules=["lm_head"]))
    assert not isinstance(output_projection(adapted), LinearHead)
    hooked = model_of(byte_tokenizer, TINY_QWEN2)
    hidden = torch.randn(3, hooked.config.hidden_size)
    before = output_projection(hooked)(hidden)
    hooked.get_output_embeddings().register_forward_hook(lambda module, args, output: output + 1)
    assert not isinstance(output_projection(hooked), LinearHead)
    torch.testing.assert_close(output_projection(hooked)(hidden), before + 1)
