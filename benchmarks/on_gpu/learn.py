"""The embedded task from its warm start, by GRPO."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from functools import partial

import torch
from bare_trainer import bare_trainer
from on_gpu.measuring import Row

from lit_rl import GRPO, Basics, CausalLM, Sampling, Sandbox, TestsReward, UpdateConfig, evaluate


def measure(given: argparse.Namespace) -> Iterator[Row]:
    """Greedy pass@1 on held-out problems before and after, for as many seeds as there is time for."""
    rollouts, problems, held_out, seeds = (2, 4, 26, 1) if given.tiny else (30, 64, 260, 3)
    greedy = Sampling(temperature=0.0, max_tokens=40)
    for seed in range(seeds):
        began, row = time.perf_counter(), {"seed": seed}
        data = Basics(batch_size=problems, num_validation_problems=held_out, seed=seed)
        module = GRPO(
            CausalLM(given.policy),
            [TestsReward()],
            sandbox=Sandbox,
            sampling=Sampling(num_samples=8, max_tokens=40),
            max_rollouts=rollouts,
            seed=seed,
            update=UpdateConfig(optimizer=partial(torch.optim.AdamW, lr=4e-4), epochs=2, minibatches=4),
        )
        module.policy.load()
        with Sandbox() as sandbox:
            for number in (0, rollouts):
                if number:
                    bare_trainer(accelerator="gpu" if given.device.type == "cuda" else "cpu").fit(module, data)
                policy = module.policy.to(given.device)
                found = evaluate(
                    policy, data.problems("validation"), sampling=greedy, sandbox=sandbox, batch_size=held_out
                )
                row[f"after {number} rollouts"] = found.pass_at[1]
        yield row | {"seconds": time.perf_counter() - began}
