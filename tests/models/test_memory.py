"""What keeps memory small: chunks of logits by bytes, activations computed again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_runs import EvenBytes, fit, weights
from support.tiny_models import TINY_QWEN2

from lit_rl.execution import TokenTarget
from lit_rl.functional.logprobs import tokens_per_chunk
from lit_rl.models import CausalLM, LoRA, causal_lm
from lit_rl.modules import GRPO
from lit_rl.types import Problem, Sampling


def test_a_chunk_of_logits_fits_in_256_mebibytes() -> None:
    for vocabulary in (258, 32_000, 151_936, 262_144, 10**9):
        tokens = tokens_per_chunk(vocabulary)
        assert tokens >= 1 and (tokens == 1 or tokens * vocabulary * 4 <= 2**28)
        assert tokens == 4096 or (tokens + 1) * vocabulary * 4 > 2**28


def test_the_default_chunk_follows_the_vocabulary(byte_tokenizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    scores = causal_lm.completion_logprobs

    def watched(*args: Any, chunk_tokens: int, **kwargs: Any) -> Any:
        seen.append(chunk_tokens)
        return scores(*args, chunk_tokens=chunk_tokens, **kwargs)

    monkeypatch.setattr(causal_lm, "completion_logprobs", watched)
    for config, chunk in ((TINY_QWEN2, None), (TINY_QWEN2 | {"vocab_size": 151_936}, None), (TINY_QWEN2, 7)):
        policy = CausalLM(config=config, tokenizer=byte_tokenizer, chunk_tokens=chunk)
        policy.load()
        policy.logprobs(policy.codec.as_completions([Problem("a", "a", TokenTarget())], ["b"]))
    assert seen == [4096, 441, 7]


@pytest.mark.parametrize("lora", [None, LoRA(rank=2)])
def test_activations_are_computed_again_in_updates_and_nothing_else_changes(
    byte_tokenizer: str, tmp_path: Path, lora: LoRA | None
) -> None:
    """Item 51: updates run in eval mode, in which checkpointing of transformers does nothing."""

    def run(gradient_checkpointing: bool) -> tuple[torch.Tensor, int]:
        options: dict[str, Any] = {"lora": lora, "dtype": "float64", "gradient_checkpointing": gradient_checkpointing}
        policy = CausalLM(config=TINY_QWEN2, tokenizer=byte_tokenizer, **options)
        policy.load()
        calls = 0

        def count(*_: Any) -> None:
            nonlocal calls
            calls += torch.is_grad_enabled()

        layers: Any = policy.model.get_decoder() if lora is None else policy.model.get_base_model().get_decoder()
        layers.layers[1].mlp.register_forward_pre_hook(count)
        sampling = Sampling(num_samples=4, max_tokens=6)
        module = GRPO(policy, rewards=[EvenBytes()], sampling=sampling, max_rollouts=2)
        fit(module, tmp_path)
        return weights(module), calls

    plain, once = run(False)
    again, twice = run(True)
    assert once == 4 and twice == 8  # two rollouts: the prompts, and their completions
    assert torch.equal(plain, again)
