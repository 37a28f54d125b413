"""Forward and backward of an update."""

from __future__ import annotations

import argparse
from typing import Any

import torch

from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM
from lit_rl.types import Completions, Problem, StopReason
from on_gpu.measuring import Row, forget, peak_gigabytes, seconds_of
from on_gpu.policies import GROUP, policy_of, requests_of


def completions_of(policy: CausalLM, given: argparse.Namespace) -> Completions:
    """Rows to update on."""
    requests = requests_of(given, given.update_rows, GROUP, given.tokens)
    device, n = given.device, given.update_rows
    generator = torch.Generator().manual_seed(1)
    mask = torch.ones(n, given.tokens, dtype=torch.bool, device=device)
    return Completions.single_turn(
        problems=tuple(Problem(f"{row // GROUP}", "", TokenTarget()) for row in range(n)),
        prompt_ids=torch.tensor([request.prompt_ids for request in requests], device=device),
        prompt_mask=torch.ones(n, given.prompt, dtype=torch.bool, device=device),
        completion_ids=torch.randint(8, 1000, (n, given.tokens), generator=generator).to(device),
        completion_mask=mask,
        sampler_logprobs=torch.zeros(n, given.tokens, device=device),
        stop_reasons=[StopReason.LENGTH] * n,
        texts=[""] * n,
        token_bytes=[()] * n,
        group_size=GROUP,
    )


def flops_of_update(policy: CausalLM, given: argparse.Namespace) -> float:
    """Of whole rows, forward and backward: six per weight and token, and causal attention; the head on completions."""
    config, length = policy.model.config, given.prompt + given.tokens
    head = config.vocab_size * config.hidden_size
    body = sum(p.numel() for p in policy.model.parameters()) - head
    attention = 12 * config.num_hidden_layers * config.hidden_size * length**2 / 2
    return float(given.update_rows * (6 * body * length + 6 * head * given.tokens + attention))


def update_part(given: argparse.Namespace, found: dict[str, Any]) -> list[Row]:
    """Forward and backward, without the optimizer."""
    table: list[Row] = []
    for shape in given.shapes:
        for share in (False, True):
            forget(given.device)
            policy = policy_of(shape, given, share_prompts=share, gradient_checkpointing=given.checkpointing)
            policy.to(given.device)
            rows = completions_of(policy, given)

            def update(policy: CausalLM = policy, rows: Completions = rows) -> None:
                policy.zero_grad()
                for part in range(0, given.update_rows, given.microbatch):
                    policy.logprobs(rows.select(range(part, part + given.microbatch))).sum().backward()

            seconds = seconds_of(update, given.device, given.rounds)
            tokens = given.update_rows * (given.prompt + given.tokens)
            row = {"shape": shape, "prompts": "shared" if policy.shares_prompts else "whole rows", "s": seconds}
            row |= {"tokens/s": tokens / seconds, "peak (GB)": peak_gigabytes(given.device)}
            if not share and "flops" in found:
                row["MFU"] = flops_of_update(policy, given) / seconds / found["flops"]
            table.append(row)
            del policy, rows, update
    return table
