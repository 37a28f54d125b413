"""Cases whose samples were recorded when the policy still had its own sampling loop (recorded.json).

Weights are drawn here, name by name, so that they do not depend on how transformers initializes a model.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from support.families import config_of
from support.tiny_models import TINY_QWEN2

from lit_rl.data import Corridor, Sorting
from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM, CorridorPolicy, Policy, SortingPolicy
from lit_rl.models.sampling import StreamKey
from lit_rl.types import Problem, Sampling

KEY = StreamKey(3, "recorded", 2)
TEXTS = [Problem(p, p, TokenTarget(), stop_strings=("a", "zz")) for p in ("def f(x):", "a", "hello there")]
FILTERED = Sampling(num_samples=3, temperature=1.3, top_k=20, top_p=0.8, max_tokens=20)


def language_model(family: str, tokenizer: str) -> CausalLM:
    """A loaded policy that ends a completion after about 20 tokens."""
    policy = CausalLM(config=TINY_QWEN2 if family == "qwen2" else config_of(family), tokenizer=tokenizer, probe=False)
    policy.load()
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            generator = torch.Generator().manual_seed(sum(name.encode()))
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    policy.codec.eos_ids = frozenset(range(0, 256, 23))
    return policy


def toy(policy: Policy) -> Policy:
    policy.load()
    return policy


CASES: dict[str, Callable[[str], tuple[Policy, list[Problem], Sampling]]] = {
    "qwen2": lambda tokenizer: (
        language_model("qwen2", tokenizer),
        TEXTS,
        Sampling(num_samples=4, temperature=0.7, max_tokens=40),
    ),
    "gpt2 filtered": lambda tokenizer: (language_model("gpt2", tokenizer), TEXTS, FILTERED),
    "sorting": lambda _: (
        toy(SortingPolicy(init_seed=1)),
        Sorting().problems("train"),
        Sampling(num_samples=4, max_tokens=8),
    ),
    "corridor": lambda _: (
        toy(CorridorPolicy(num_cells=4)),
        Corridor(num_cells=4).problems("train"),
        Sampling(num_samples=3, max_tokens=9),
    ),
}
