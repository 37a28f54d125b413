"""Steps of GRPO in TRL; see benchmarks/trl.py, which starts it in the peer's environment."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version

import torch
from both import CHECK, STDIN, clock_of, expected, written
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from lit_rl.execution import Sandbox

spec = json.loads(sys.argv[1])
torch.set_num_threads(spec["threads"])
tokenizer = AutoTokenizer.from_pretrained(spec["model"])
sandbox = Sandbox()
lengths: list[int] = []


def even(completion_ids: list[list[int]], **_: object) -> list[float]:
    """Share of even ids."""
    lengths.extend(map(len, completion_ids))
    return [sum(i % 2 == 0 for i in ids) / max(1, len(ids)) for ids in completion_ids]


def by_subprocess(completions: list[str], completion_ids: list[list[int]], **_: object) -> list[float]:
    """Run each program in a fresh interpreter, which starts as fast as it can."""
    lengths.extend(map(len, completion_ids))
    command, answer = [sys.executable, "-I", "-S", "-c"], expected()
    runs = [
        subprocess.run([*command, written(text)], input=STDIN, capture_output=True, text=True, timeout=10)
        for text in completions
    ]
    return [float(run.stdout == answer) for run in runs]


def by_sandbox(completions: list[str], completion_ids: list[list[int]], **_: object) -> list[float]:
    """Run each program in lit_rl's sandbox."""
    lengths.extend(map(len, completion_ids))
    outcomes = sandbox.judge_many([(written(text), CHECK) for text in completions])
    return [float(outcome.verdict == "passed") for outcome in outcomes]


class Clock(TrainerCallback):
    """Times at which each step began and ended."""

    clock = staticmethod(clock_of(spec["clock"]))

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_step_begin(self, *_: object, **__: object) -> None:
        """A step begins."""
        self.times.append(self.clock())

    def on_step_end(self, *_: object, **__: object) -> None:
        """A step ended."""
        self.times.append(self.clock())


clock = Clock()
settings = {
    "use_cpu": True,
    "bf16": False,
    # Seen to be fastest at 49,152 words: a static cache, not transformers' continuous batching, which generated in 2.5
    # times the seconds. Passes of 16, 32 and 128 rows differ by less than two turns do.
    "cache_implementation": "static",
    "per_device_train_batch_size": spec["peer_rows"],
    "gradient_accumulation_steps": spec["batch"] * spec["group"] // spec["peer_rows"],
    "num_generations": spec["group"],
    "max_completion_length": spec["tokens"],
    "max_steps": spec["steps"],
    "learning_rate": spec["lr"],
    "beta": 0.0,
    "report_to": [],
    "save_strategy": "no",
    "logging_steps": 1000,
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "gradient_checkpointing": False,
    "disable_tqdm": True,
}
trainer = GRPOTrainer(
    model=AutoModelForCausalLM.from_pretrained(spec["model"], dtype=torch.float32),
    reward_funcs={"even": even, "subprocess": by_subprocess, "sandbox": by_sandbox}[spec["arm"]],
    args=GRPOConfig(output_dir=tempfile.mkdtemp(), **settings),
    processing_class=tokenizer,
    train_dataset=Dataset.from_dict({"prompt": spec["prompts"]}),
    callbacks=[clock],
)
trainer.train()
sandbox.close()
seconds = [b - a for a, b in zip(clock.times[2::2], clock.times[3::2], strict=True)]
settings["attn_implementation"] = trainer.model.config._attn_implementation
versions = {name: version(name) for name in ("trl", "torch", "transformers")}
print(json.dumps({"seconds": seconds, "length": sum(lengths) / len(lengths), "settings": versions | settings}))
