"""Random models of real shapes, and random prompts."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from bare_trainer import Given

from lit_rl.engines import Request
from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM
from lit_rl.types import Problem

GROUP = 8
SHAPES: dict[str, dict[str, Any]] = {
    "0.5B": {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14},
    "1.5B": {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12},
    "tiny": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4},
}
TOKENIZER = str(Path(__file__).parents[2] / "lit_rl" / "data" / "basics" / "tokenizer")


def shapes(given: argparse.Namespace) -> tuple[str, ...]:
    """Those to measure."""
    return ("tiny",) if given.tiny else ("0.5B", "1.5B")


class Endless(CausalLM):
    """A random model that never ends a completion, so that rows are as long as asked for."""

    def load(self) -> None:
        """Load, and forget which ids end a completion."""
        super().load()
        self.codec.eos_ids = frozenset()
        self.model.generation_config.eos_token_id = None


def policy_of(shape: str, **options: Any) -> CausalLM:
    """A random model that loads when it is used; the same weights each time."""
    config = {"model_type": "qwen2", "num_key_value_heads": 2, "tie_word_embeddings": True, **SHAPES[shape]}
    config |= {"vocab_size": 1024 if shape == "tiny" else 151_936, "max_position_embeddings": 4096}
    return Endless(config=config, tokenizer=TOKENIZER, dtype="bfloat16", probe=False, **options)


def loaded(policy: CausalLM, given: argparse.Namespace) -> CausalLM:
    """The policy on the device."""
    with torch.device(given.device):  # random weights are made there, which takes a moment instead of a minute
        policy.load()
    return policy.to(given.device).eval()


def prompts(number: int, tokens: int) -> Given:
    """A rollout's prompts of about as many tokens as asked for."""
    texts = [f"{i}" + "+" * (tokens - 1) for i in range(number)]
    return Given([Problem(text, text, TokenTarget()) for text in texts], batch_size=number)


def make_sampling_requests(rows: int, prompt: int, tokens: int) -> list[Request]:
    """Rows of random prompts, a prompt for each group."""
    generator = torch.Generator().manual_seed(0)
    prompts = [tuple(torch.randint(8, 1000, (prompt,), generator=generator).tolist()) for _ in range(rows // GROUP)]
    return [Request(row, prompts[row // GROUP], row, tokens) for row in range(rows)]
