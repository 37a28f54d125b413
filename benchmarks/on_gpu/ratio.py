"""Distance of the first ratio of a rollout from 1, before any update.

Old log-probabilities are read in micro-batches of all rows, as in other libraries, and in the update's own, as here.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

import torch
from on_gpu.measuring import Row, forget
from on_gpu.policies import GROUP, loaded, policy_of, prompts, shapes
from torch import Tensor

from lit_rl import Sampling
from lit_rl.engines import InProcess
from lit_rl.models import CausalLM
from lit_rl.models.sampling import RandomKey
from lit_rl.modules import UpdateConfig
from lit_rl.modules.minibatches import all_microbatches, divide_into_microbatches, make_minibatches
from lit_rl.rollout import sample_rows
from lit_rl.training.ranks import enable_activation_checkpointing
from lit_rl.types import Completions

GSPO_LOW, GSPO_HIGH = 1 - 3e-4, 1 + 4e-4


def rollout_of(policy: CausalLM, rows: int, prompt: int, longest: int) -> Completions:
    """Rows that the default engine sampled, cut to unequal lengths."""
    problems, sampling = prompts(rows // GROUP, prompt).given, Sampling(GROUP, max_tokens=longest)
    with torch.no_grad():
        found = sample_rows(policy, InProcess(), None, problems, sampling, RandomKey(0, "ratio", 0)).completions()
    lengths = longest // 2 + torch.arange(rows, device=policy.device)[:, None] * 37 % (longest // 2)
    return replace(found, completion_mask=torch.arange(longest, device=policy.device) < lengths)


def read(policy: CausalLM, completions: Completions, microbatches: list[Tensor], with_gradient: bool) -> Tensor:
    """[N, T] log-probabilities, as an update or as the reading before it computes them."""
    found = torch.zeros_like(completions.sampler_logprobs)
    for rows in microbatches:
        with torch.set_grad_enabled(with_gradient):
            logprobs = policy.logprobs(completions.select(rows).trim())
        found[rows.to(found.device), : logprobs.shape[1]] = logprobs.detach().float()
    return found


def distances(new: Tensor, old: Tensor, mask: Tensor) -> Row:
    """Distances of the ratio new / old from 1."""
    gap = ((new - old) * mask).double()
    ratios, sequence = gap[mask].exp(), (gap.sum(-1) / mask.sum(-1)).exp()
    outside = float(((ratios < 0.9) | (ratios > 1.1)).double().mean())
    clipped = float(((sequence < GSPO_LOW) | (sequence > GSPO_HIGH)).double().mean())
    return {
        "mean |log ratio|": float(gap[mask].abs().mean()),
        "largest": float(gap.abs().max()),
        "tokens outside [0.9, 1.1]": f"{100 * outside:.2f}%",
        "rows outside GSPO's clip": f"{100 * clipped:.0f}%",
    }


def first_ratios(policy: CausalLM, rows: Completions, microbatch_size: int, whole_size: int) -> list[Row]:
    mask, every = rows.completion_mask, torch.ones(len(rows), dtype=torch.bool)
    update, shares = UpdateConfig(minibatches=4, microbatch_size=microbatch_size), policy.shares_prompts
    dealt = all_microbatches(make_minibatches(rows, every, update, shares, seed=0))
    whole = divide_into_microbatches(rows, torch.arange(len(rows)), whole_size, None, shares)
    learned = read(policy, rows, dealt, with_gradient=True)
    old = {
        "all rows (before)": read(policy, rows, whole, with_gradient=False),
        "the update's micro-batches": read(policy, rows, dealt, with_gradient=False),
        "(the sampler's own)": rows.sampler_logprobs,
    }
    return [{"old read in": name} | distances(learned, logprobs, mask) for name, logprobs in old.items()]


def measure(given: argparse.Namespace) -> Iterator[Row]:
    """Each shape in bfloat16, with activation checkpointing too, and in float32."""
    rows, prompt, longest = (16, 12, 8) if given.tiny else (64, 128, 64)
    for shape in shapes(given):
        forget(given.device)
        policy = loaded(policy_of(shape), given)
        with torch.no_grad():  # logits as far apart as a trained model's: random ones are nearly equal
            policy.model.model.norm.weight.mul_(8.0)
        completions = rollout_of(policy, rows, prompt, longest)
        for way in ("bfloat16", "bfloat16, activations computed again", "float32"):
            if way.endswith("again"):
                enable_activation_checkpointing(policy.model)
            if way == "float32":
                policy.float()
            for row in first_ratios(policy, completions, rows // 8, rows // 4):
                yield {"shape": shape, "precision": way} | row
        del policy, completions
