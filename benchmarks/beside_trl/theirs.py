"""Steps of GRPO in TRL; see benchmarks/trl.py, which starts it in the peer's environment."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from typing import Any

import torch
from both import CHECK, STDIN, Watch, expected, passes, read, written
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from lit_rl.execution.sandbox import Sandbox

spec = json.loads(sys.argv[1])
torch.set_num_threads(spec["threads"])
train, held_out = read(spec["problems"])
prompts = spec["prompts"] or [task.prompt for task in train]
tokenizer = AutoTokenizer.from_pretrained(spec["model"], padding_side="left")
model = AutoModelForCausalLM.from_pretrained(spec["model"], dtype=spec["dtype"])
sandbox = Sandbox()
lengths: list[int] = []


def even(ids: list[int]) -> float:
    return sum(i % 2 == 0 for i in ids) / max(1, len(ids))


def by_subprocess(text: str) -> float:
    """Run a program in a fresh interpreter, which starts as fast as it can."""
    command = [sys.executable, "-I", "-S", "-c", written(text)]
    run = subprocess.run(command, input=STDIN, capture_output=True, text=True, timeout=10)
    return float(run.stdout == expected())


def reward(completions: list[str], completion_ids: list[list[int]], number: list[int], **_: object) -> list[float]:
    """Score completions as the arm does."""
    lengths.extend(map(len, completion_ids))
    match spec["arm"]:
        case "even":
            return list(map(even, completion_ids))
        case "subprocess":
            return list(map(by_subprocess, completions))
        case "sandbox":
            outcomes = sandbox.judge_many([(written(text), CHECK) for text in completions])
            return [float(outcome.verdict == "passed") for outcome in outcomes]
    return passes(sandbox, [train[i] for i in number], completions)


@torch.no_grad()
def measure() -> float:
    """Greedy pass@1 on the held-out problems."""
    model.eval()
    asked = tokenizer([task.prompt for task in held_out], return_tensors="pt", padding=True)
    width = asked["input_ids"].shape[1]
    ids = model.generate(**asked, do_sample=False, max_new_tokens=spec["tokens"])[:, width:]
    model.train()
    return sum(passes(sandbox, held_out, tokenizer.batch_decode(ids, skip_special_tokens=True))) / len(held_out)


class Watched(TrainerCallback):
    """Notes the end of each step."""

    def on_train_begin(self, *_: object, **__: object) -> None:
        watch.begin()

    def on_step_end(self, _arguments: object, _state: object, control: Any, **_: object) -> None:
        control.should_training_stop |= watch.end()


watch = Watch(spec, measure if held_out else None)
optimizer = torch.optim.AdamW(model.parameters(), lr=spec["lr"], betas=(0.9, 0.95), weight_decay=0.0)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, spec["steps"])
settings = {
    "use_cpu": True,
    "bf16": False,
    "seed": spec["seed"],
    "per_device_train_batch_size": spec["peer_rows"],
    "gradient_accumulation_steps": spec["batch"] * spec["group"] // spec["peer_rows"],
    "num_generations": spec["group"],
    "max_completion_length": spec["tokens"],
    "max_steps": spec["steps"],
    "loss_type": "bnpo",  # the mean over all tokens of the batch, as lit_rl's token_mean
    "scale_rewards": "group",
    "max_grad_norm": 1.0,
    "beta": 0.0,
    "report_to": [],
    "save_strategy": "no",
    "logging_steps": 1000,
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "shuffle_dataset": False,  # problems are in the order of lit_rl's rollouts
    "gradient_checkpointing": False,
    "disable_tqdm": True,
} | ({} if held_out else {"cache_implementation": "static"})
# A static cache was the fastest at 49,152 words; transformers' continuous batching took 2.5 times the seconds.
trainer = GRPOTrainer(
    model=model,
    reward_funcs=reward,
    args=GRPOConfig(output_dir=tempfile.mkdtemp(), **settings),
    processing_class=tokenizer,
    train_dataset=Dataset.from_dict({"prompt": prompts, "number": list(range(len(prompts)))}),
    callbacks=[Watched()],
    optimizers=(optimizer, schedule),
)
trainer.train()
sandbox.close()
settings["attn_implementation"] = trainer.model.config._attn_implementation
watch.report(lengths, {name: version(name) for name in ("trl", "torch", "transformers")} | settings)
