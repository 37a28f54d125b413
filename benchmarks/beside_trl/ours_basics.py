"""GRPO on basics in lit_rl until held-out pass@1 is reached; see benchmarks/trl_basics.py, which starts it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import lightning.pytorch as pl
import torch
from basics import Curve, passes, read
from both import clock_of

sys.path.insert(0, str(Path(__file__).parents[1]))
from bare_trainer import bare_trainer

from lit_rl.data import Basics
from lit_rl.execution import Sandbox
from lit_rl.models import CausalLM
from lit_rl.modules import GRPO, Update
from lit_rl.rewards import TestsReward
from lit_rl.types import Sampling

spec = json.loads(sys.argv[1])
torch.set_num_threads(spec["threads"])
held_out = read(spec["problems"])[1]
judge = Sandbox()


class Watch(pl.Callback):
    """Measures between steps."""

    def __init__(self) -> None:
        self.curve = Curve(clock_of(spec["clock"]), spec["every"], spec["goal"], self.measure)

    def measure(self) -> float:
        """Greedy pass@1 on the held-out problems."""
        greedy = Sampling(temperature=0.0, max_tokens=spec["tokens"])
        texts = module.policy.complete([task.prompt for task in held_out], greedy)
        return sum(passes(judge, held_out, texts)) / len(held_out)

    def on_train_batch_start(self, *_: object) -> None:
        """A rollout begins."""
        self.curve.begin()

    def on_train_batch_end(self, trainer: pl.Trainer, *_: object) -> None:
        """A rollout ended."""
        if self.curve.end():
            trainer.should_stop = True


module = GRPO(
    CausalLM(spec["model"]),
    sampling=Sampling(num_samples=spec["group"], max_tokens=spec["tokens"]),
    rewards=[TestsReward()],
    sandbox=Sandbox(),
    max_rollouts=spec["rollouts"],
    seed=spec["seed"],
    update=Update(
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=spec["lr"], betas=(0.9, 0.95), weight_decay=0.0),
        lr_scheduler=lambda optimizer: torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, spec["rollouts"]),
    ),
)
watch = Watch()
bare_trainer(watch).fit(module, Basics(batch_size=spec["batch"], seed=spec["seed"]))
judge.close()
print(json.dumps(watch.curve.points))
