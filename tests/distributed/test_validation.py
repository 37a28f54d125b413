"""Validation on ranks that have unequal numbers of problems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from distributed.runs import policy, trainer_of
from support.ranks import on_ranks

from lit_rl.data.preferences import PreferencePair
from lit_rl.data.task import Split, TaskDataModule
from lit_rl.execution import TokenTarget
from lit_rl.execution.checks import ReferenceText
from lit_rl.models import CausalLM
from lit_rl.modules import DPO, SFT, EvaluationConfig, Optimization, TextModule
from lit_rl.types import Problem, Sampling


class Told(TaskDataModule):
    """Three validation problems with a text to learn from: two ranks share them unequally."""

    name = "told"

    def load_problems(self, split: Split) -> list[Problem]:
        pairs = [PreferencePair(str(i), "w" * (1 + i), "a" * (3 + i), "b" * (5 - i), 1.0, 0.0) for i in range(3)]
        return [
            Problem(pair.task_id, pair.prompt, ReferenceText(pair.chosen), reference=pair.chosen, fields={"pair": pair})
            for pair in pairs
        ]


class Asked(TaskDataModule):
    name = "asked"

    def load_problems(self, split: Split) -> list[Problem]:
        return [Problem("only", "w", TokenTarget())]


MODULES: dict[str, Any] = {"sft": SFT, "dpo": DPO}


def measure(kind: str, actor: CausalLM, strategy: str, folder: Path, devices: int) -> dict[str, float]:
    short = {"greedy": Sampling(temperature=0.0, max_tokens=3)}
    module: TextModule = MODULES[kind](
        actor, update=Optimization(microbatch_size=1), evaluate=EvaluationConfig(sampling=short)
    )
    sizes: dict[str, Any] = {"validation_batch_size": 2 // devices}
    data = Told(batch_size=1, validation_tasks=[Told(**sizes), Asked(**sizes)])
    trainer = trainer_of(strategy, folder, devices, limit_val_batches=1.0)
    return dict(trainer.validate(module, data, verbose=False)[0])


@pytest.mark.parametrize(("kind", "lora"), [("sft", False), ("dpo", True)])
def test_a_rank_without_texts_does_not_stop_the_others(
    byte_tokenizer: str, tmp_path: Path, kind: str, lora: bool
) -> None:
    """A sharded policy is gathered by all ranks together, so all must go forward equally often."""

    def on_two(strategy: str) -> dict[str, float]:
        return measure(kind, policy(byte_tokenizer, lora=lora), strategy, tmp_path, 2)

    alone = measure(kind, policy(byte_tokenizer, lora=lora), "auto", tmp_path, 1)
    assert alone["val/told/loss"] > 0
    for strategy in ("ddp", "fsdp2"):
        for found in on_ranks(on_two, strategy):
            assert found == pytest.approx(alone, rel=1e-9)
