"""GRPO on basics in TRL until held-out pass@1 is reached; see benchmarks/trl_basics.py, which starts it."""

from __future__ import annotations

import json
import sys
import tempfile
from typing import Any

import torch
from basics import Curve, passes, read
from both import clock_of
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from lit_rl.execution.sandbox import Sandbox

spec = json.loads(sys.argv[1])
torch.set_num_threads(spec["threads"])
train, held_out = read(spec["problems"])
tokenizer = AutoTokenizer.from_pretrained(spec["model"], padding_side="left")
model = AutoModelForCausalLM.from_pretrained(spec["model"], dtype=torch.float32)
sandbox = Sandbox()


def tests(completions: list[str], number: list[int], **_: object) -> list[float]:
    """1 for a program that passes its tests."""
    return passes(sandbox, [train[i] for i in number], completions)


class Watch(TrainerCallback):
    """Measures between steps."""

    def __init__(self) -> None:
        self.curve = Curve(clock_of(spec["clock"]), spec["every"], spec["goal"], self.measure)

    @torch.no_grad()
    def measure(self) -> float:
        """Greedy pass@1 on the held-out problems."""
        model.eval()
        asked = tokenizer([task.prompt for task in held_out], return_tensors="pt", padding=True)
        width = asked["input_ids"].shape[1]
        ids = model.generate(**asked, do_sample=False, max_new_tokens=spec["tokens"])[:, width:]
        model.train()
        return sum(passes(sandbox, held_out, tokenizer.batch_decode(ids, skip_special_tokens=True))) / len(held_out)

    def on_step_begin(self, *_: object, **__: object) -> None:
        """A rollout begins."""
        self.curve.begin()

    def on_step_end(self, _arguments: object, _state: object, control: Any, **_: object) -> None:
        """A rollout ended."""
        if self.curve.end():
            control.should_training_stop = True


optimizer = torch.optim.AdamW(model.parameters(), lr=spec["lr"], betas=(0.9, 0.95), weight_decay=0.0)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, spec["rollouts"])
watch = Watch()
arguments = GRPOConfig(
    output_dir=tempfile.mkdtemp(),
    use_cpu=True,
    bf16=False,
    seed=spec["seed"],
    per_device_train_batch_size=spec["batch"] * spec["group"],
    num_generations=spec["group"],
    max_completion_length=spec["tokens"],
    max_steps=spec["rollouts"],
    loss_type="bnpo",  # the mean over all tokens of the batch, as lit_rl's token_mean
    scale_rewards="group",
    max_grad_norm=1.0,
    beta=0.0,
    report_to=[],
    save_strategy="no",
    logging_steps=1000,
    temperature=1.0,
    top_k=0,
    top_p=1.0,
    shuffle_dataset=False,  # problems are in the order of lit_rl's rollouts
    gradient_checkpointing=False,
    disable_tqdm=True,
)
trainer = GRPOTrainer(
    model=model,
    reward_funcs=tests,
    args=arguments,
    processing_class=tokenizer,
    train_dataset=Dataset.from_dict({"prompt": [task.prompt for task in train], "number": list(range(len(train)))}),
    callbacks=[watch],
    optimizers=(optimizer, schedule),
)
trainer.train()
sandbox.close()
print(json.dumps(watch.curve.points))
