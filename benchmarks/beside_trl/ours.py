"""Steps of GRPO in lit_rl; see benchmarks/trl.py, which starts it with a specification in JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import lightning.pytorch as pl
import torch
from both import CHECK, clock_of

sys.path.insert(0, str(Path(__file__).parents[1]))
from bare_trainer import bare_trainer

from lit_rl.data.task import TaskDataModule
from lit_rl.execution import Sandbox, TokenTarget
from lit_rl.models import CausalLM
from lit_rl.modules import GRPO, Update
from lit_rl.rewards import TestsReward
from lit_rl.rewards.term import RewardTerm, TermScore
from lit_rl.types import Completions, Judgement, Problem, Sampling

spec = json.loads(sys.argv[1])
torch.set_num_threads(spec["threads"])
executes = spec["arm"] == "sandbox"
lengths: list[float] = []


class Even(RewardTerm):
    """Share of even ids."""

    default_name = "even"

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        """One value per completion."""
        rows = zip(completions.completion_ids.tolist(), completions.lengths.tolist(), strict=True)
        return [TermScore(sum(i % 2 == 0 for i in ids[:n]) / n) for ids, n in rows]


class Words(TaskDataModule):
    """The prompts of the specification."""

    name = "words"

    def load_problems(self, split: str) -> list[Problem]:
        """One problem a prompt."""
        check = CHECK if executes else TokenTarget()
        return [Problem(str(i), text, check) for i, text in enumerate(spec["prompts"])]


class Clock(pl.Callback):
    """Times at which each step ended."""

    clock = staticmethod(clock_of(spec["clock"]))
    times: list[float]

    def on_train_start(self, *_: object) -> None:
        """The first step begins."""
        self.times = [self.clock()]

    def on_train_batch_end(self, trainer: pl.Trainer, *_: object) -> None:
        """A step ended."""
        self.times.append(self.clock())
        lengths.append(float(trainer.callback_metrics["completion/length"]))


clock = Clock()
module = GRPO(
    CausalLM(spec["model"]),
    rewards=[TestsReward() if executes else Even()],
    sandbox=Sandbox() if executes else None,
    sampling=Sampling(num_samples=spec["group"], max_tokens=spec["tokens"]),
    max_rollouts=spec["steps"],
    update=Update(optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=spec["lr"])),
)
bare_trainer(clock).fit(module, Words(batch_size=spec["batch"]))
seconds = [b - a for a, b in zip(clock.times[1:], clock.times[2:], strict=False)]
settings = {name: version(name.replace("_", "-")) for name in ("lit_rl", "torch", "transformers")} | {
    "algorithm": "GRPO, all else as by default",
    "lr": spec["lr"],
    "max_tokens": spec["tokens"],
    "shares_prompts": module.policy.shares_prompts,
    "attn_implementation": module.policy.model.config._attn_implementation,
}
print(json.dumps({"seconds": seconds, "length": sum(lengths) / len(lengths), "settings": settings}))
