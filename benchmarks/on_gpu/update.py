"""Whole steps of GRPO: seconds and memory of the update, beside what the plan counts."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product

import torch
from bare_trainer import EvenIds, bare_trainer
from on_gpu.measuring import Row, finish, forget, peak_gigabytes
from on_gpu.policies import GROUP, policy_of, prompts, shapes

from lit_rl import GRPO, LoRA, Sampling
from lit_rl.cli.trace import measure_update_costs, workload_from_run
from lit_rl.modules import UpdateConfig
from lit_rl.training.ranks import Means
from lit_rl.types import Experience


class Watched(GRPO):
    """GRPO that notes seconds and peak memory of each rollout's updates."""

    def learn_from(self, experience: Experience) -> Means:
        forget(self.device)
        finish(self.device)
        began = time.perf_counter()
        means = super().learn_from(experience)
        finish(self.device)
        self.noted = {"update (s)": time.perf_counter() - began, "peak (GB)": peak_gigabytes(self.device)}
        return means


def module_of(shape: str, lora: LoRA | None, tokens: int, microbatch: int) -> Watched:
    """A GRPO run of two rollouts, of which the second is measured."""
    return Watched(
        policy_of(shape, lora=lora),
        sampling=Sampling(num_samples=GROUP, max_tokens=tokens),
        rewards=[EvenIds()],
        max_rollouts=2,
        update=UpdateConfig(optimizer=partial(torch.optim.AdamW, lr=1e-6), microbatch_size=microbatch),
    )


def measure(given: argparse.Namespace) -> Iterator[Row]:
    """All weights and LoRA of each shape; float32 masters and moments beside bfloat16 weights."""
    rows, prompt, tokens, microbatch = (16, 12, 8, 8) if given.tiny else (64, 256, 128, 16)
    device_file = given.folder / "device.json"
    limit = json.loads(device_file.read_text())[0]["bf16 products (TFLOP/s)"] if device_file.exists() else None
    for shape, (kind, lora) in product(shapes(given), {"all": None, "LoRA 16": LoRA(rank=16)}.items()):
        forget(given.device)
        module = module_of(shape, lora, tokens, microbatch)
        with tempfile.TemporaryDirectory() as folder:
            accelerator = "gpu" if given.device.type == "cuda" else "cpu"
            trainer = bare_trainer(accelerator=accelerator, default_root_dir=folder)
            trainer.fit(module, prompts(rows // GROUP, prompt))
        found: Row = {"shape": shape, "trained": kind, **module.noted}
        found["tokens/s"] = rows * (prompt + tokens) / found["update (s)"]
        found["sampling (s)"] = float(trainer.callback_metrics["time/sampling_seconds"])
        module = module_of(shape, lora, tokens, microbatch)
        layout = replace(workload_from_run(module, None, rows // GROUP, 1), prompt_tokens=prompt)
        traced = measure_update_costs(module, None, layout)
        found["plan's peak (GB)"] = sum(traced.updating.values()) / 1e9
        found["plan's count (TFLOP)"] = traced.flops / 1e12
        found["TFLOP/s"] = traced.flops / 1e12 / found["update (s)"]
        if limit:
            found["share of the card's products"] = found["TFLOP/s"] / limit
        del module, trainer
        yield found
