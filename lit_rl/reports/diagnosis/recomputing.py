"""Log-probabilities of given tokens under other temperatures and filters, from the logits of a policy's own decoding.

Letters: n rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from lit_rl.models.policy import Policy
from lit_rl.models.sampling import keep_likely
from lit_rl.training.ranks import unsharded
from lit_rl.types import Completions, Generation, Sampling


class Recipe(NamedTuple):
    """How logits become probabilities."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __str__(self) -> str:
        filters = [f"top_k {self.top_k}"] * bool(self.top_k) + [f"top_p {self.top_p:g}"] * (self.top_p < 1)
        return " and ".join([f"temperature {self.temperature:g}", *filters])


TEMPERATURES = tuple(number / 10 for number in range(1, 21))
FILTERS = (
    *((k, 1.0) for k in (1, 2, 5, 10, 20, 40, 50, 64, 100)),
    *((0, p) for p in (0.5, 0.7, 0.8, 0.9, 0.95, 0.99)),
    # defaults of models and servers
    *((k, p) for k in (20, 40, 50) for p in (0.8, 0.9, 0.95)),
)
"""What is tried: filters at the run's temperature, and those of both kinds together."""


def recipes(temperature: float) -> list[Recipe]:
    """What is tried, the run's own first."""
    own = [Recipe(temperature)]
    own += [Recipe(other) for other in TEMPERATURES if other != temperature]
    return own + [Recipe(temperature, k, p) for k, p in FILTERS]


def recompute(
    policy: Policy, generations: Sequence[Generation], completions: Completions, temperature: float
) -> dict[Recipe, list[list[float]]]:
    """Log-probabilities of each row's tokens under each recipe.

    Args:
        policy: whose decoding gives the logits.
        generations: n rows.
        completions: the same rows, for their prompts.
        temperature: the run's.
    """
    prompts = [
        tuple(ids[mask].tolist()) for ids, mask in zip(completions.prompt_ids, completions.prompt_mask, strict=True)
    ]
    found: dict[Recipe, list[list[float]]] = {recipe: [[] for _ in generations] for recipe in recipes(temperature)}
    longest = max(len(generation.ids) for generation in generations)
    distinct = list(dict.fromkeys(prompts))
    copies = torch.tensor([distinct.index(prompt) for prompt in prompts])
    with unsharded(policy):
        decoding = policy.decoding()
        logits = decoding.read(distinct, copies, longest)
        for step in range(longest):
            tokens = torch.tensor([one.ids[min(step, len(one.ids) - 1)] for one in generations], device=logits.device)
            for recipe, rows in found.items():
                values = under(recipe, logits, tokens).tolist()
                for row, generation, value in zip(rows, generations, values, strict=True):
                    if step < len(generation.ids):
                        row.append(value)
            if step + 1 < longest:
                logits = decoding.append(tokens)
    return found


def under(recipe: Recipe, logits: Tensor, tokens: Tensor) -> Tensor:
    """[n] nats of tokens [n] under logits [n, V]; minus infinity where the recipe filters the token out."""
    filters = Sampling(temperature=recipe.temperature, top_k=recipe.top_k, top_p=recipe.top_p)
    logprobs = keep_likely(logits.float() / recipe.temperature, filters).log_softmax(-1)
    return logprobs.gather(-1, tokens[:, None])[:, 0]
