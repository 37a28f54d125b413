"""Distance of the first ratio of a rollout from 1, before any update."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch
from torch import Tensor

from lit_rl import Sampling
from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM
from lit_rl.modules import UpdateConfig
from lit_rl.modules.minibatches import all_microbatches, divide_into_microbatches, make_minibatches
from lit_rl.training.ranks import enable_activation_checkpointing
from lit_rl.types import Completions, Problem, StopReason
from on_gpu.measuring import Row, forget
from on_gpu.policies import GROUP, loaded, policy_of, requests_of, shapes
from on_gpu.sampling import sampled

GSPO_LOW, GSPO_HIGH = 1 - 3e-4, 1 + 4e-4


def rollout_of(policy: CausalLM, rows: int, prompt: int, longest: int) -> Completions:
    """Rows of unequal length that the default engine sampled."""
    lengths = [longest // 2 + row * 37 % (longest // 2) for row in range(rows)]
    requests = requests_of(rows, prompt, lengths)
    with torch.no_grad():
        found = sampled(policy, requests, Sampling())
    device, width = policy.device, max(lengths)
    ids, logprobs = torch.zeros(rows, width, dtype=torch.long), torch.zeros(rows, width)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.tensor(found[row].ids)
        logprobs[row, :length] = torch.tensor(found[row].logprobs)
    return Completions.single_turn(
        problems=tuple(Problem(f"{row // GROUP}", "", TokenTarget()) for row in range(rows)),
        prompt_ids=torch.tensor([request.prompt_ids for request in requests], device=device),
        prompt_mask=torch.ones(rows, prompt, dtype=torch.bool, device=device),
        completion_ids=ids.to(device),
        completion_mask=(torch.arange(width) < torch.tensor(lengths)[:, None]).to(device),
        sampler_logprobs=logprobs.to(device),
        stop_reasons=[StopReason.LENGTH] * rows,
        texts=[""] * rows,
        token_byte_spans=[()] * rows,
        group_size=GROUP,
    )


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


def ratio_part(given: argparse.Namespace) -> Iterator[Row]:
    """Read before in micro-batches of all rows and of each minibatch, against the update's own pass."""
    rows, prompt, longest = (16, 12, 8) if given.tiny else (64, 128, 64)
    update = UpdateConfig(minibatches=4, microbatch_size=rows // 8)
    for shape in shapes(given):
        forget(given.device)
        policy = loaded(policy_of(shape), given)
        with torch.no_grad():  # logits as far apart as a trained model's: random ones are nearly equal
            policy.model.model.norm.weight.mul_(8.0)
        completions = rollout_of(policy, rows, prompt, longest)
        mask, every = completions.completion_mask, torch.ones(rows, dtype=torch.bool)
        dealt = all_microbatches(make_minibatches(completions, every, update, policy.shares_prompts, seed=0))
        whole = divide_into_microbatches(completions, torch.arange(rows), rows // 4, None, policy.shares_prompts)
        for way in ("bfloat16", "bfloat16, activations computed again", "float32"):
            if way.endswith("again"):
                enable_activation_checkpointing(policy.model)
            if way == "float32":
                policy.float()
            said = {"shape": shape, "precision": way}
            learned = read(policy, completions, dealt, with_gradient=True)
            before, now = (read(policy, completions, one, with_gradient=False) for one in (whole, dealt))
            yield said | {"old read in": "all rows (before)"} | distances(learned, before, mask)
            yield said | {"old read in": "the update's micro-batches"} | distances(learned, now, mask)
            if way == "bfloat16":
                sampler = completions.sampler_logprobs
                yield said | {"old read in": "(the sampler's own)"} | distances(learned, sampler, mask)
        del policy, completions
