"""The lines that end a validation: pass@k with its interval, turn by turn, and what no sampling tells of."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.loggers import TensorBoardLogger

from lit_rl.callbacks import CompletionLog
from lit_rl.callbacks.run_summary import line_of, validation_summary
from lit_rl.types import Sampling

GREEDY, SAMPLED = Sampling(temperature=0.0, max_tokens=8), Sampling(num_samples=4, max_tokens=8)
TWO_TURNS = {
    "val/greedy/num_problems": 52.0,
    "val/greedy/pass@1": 0.75,
    "val/greedy/pass@1/turn_1": 0.5,
    "val/greedy/pass@1/turn_2": 0.75,
    "val/greedy/reward/mean": 0.8,
    "val/greedy/verdict/passed_fraction": 0.75,
    "val/greedy/verdict/wrong_answer_fraction": 0.25,
}
FOUR_SAMPLES = {
    "val/basics/sampled/num_problems": 10.0,
    "val/basics/sampled/pass@1": 0.25,
    "val/basics/sampled/pass@4": 0.5,
}


def module() -> Any:
    return SimpleNamespace(
        policy=torch.nn.Linear(3, 1, bias=False), validation_sampling={"greedy": GREEDY, "sampled": SAMPLED}
    )


LINES: dict[str, tuple[str, dict[str, float], str]] = {
    "turns": (
        "val/greedy",
        TWO_TURNS,
        "pass@1 0.750 (0.618 to 0.848) (turn by turn 0.500 0.750)   reward 0.800   52 problems   "
        "passed 75%  wrong answer 25%",
    ),
    "several samples": (
        "val/basics/sampled",
        FOUR_SAMPLES,
        "pass@1 0.250 (0.081 to 0.558)   pass@4 0.500 (0.237 to 0.763)   10 problems x 4",
    ),
    "none passed": (
        "val/greedy",
        {"val/greedy/num_problems": 240.0, "val/greedy/pass@1": 0.0},
        "pass@1 0.000 (0.000 to 0.016)   240 problems",
    ),
    "a task without programs": (
        "val/greedy",
        {"val/greedy/num_problems": 3.0, "val/greedy/reward/mean": 2.625},
        "reward 2.625   3 problems",
    ),
}


@pytest.mark.parametrize("case", LINES)
def test_a_sampling_is_one_line(case: str) -> None:
    """Wilson's intervals, from their formula: of 0 of n, z²/(n + z²) = 3.84/243.84 = 0.016."""
    prefix, metrics, line = LINES[case]
    assert line_of(module(), prefix, metrics) == line


def trainer(folder: Path, *callbacks: pl.Callback, logger: Any = False) -> pl.Trainer:
    bare = {"enable_progress_bar": False, "enable_checkpointing": False, "enable_model_summary": False}
    return pl.Trainer(accelerator="cpu", default_root_dir=folder, logger=logger, callbacks=list(callbacks), **bare)


def test_other_metrics_have_a_line_of_their_own(tmp_path: Path) -> None:
    """The last lines say which checkpoint was measured, and where samples are."""
    logger = TensorBoardLogger(tmp_path, name="run")
    measuring = trainer(tmp_path, CompletionLog(num_problems=3), logger=logger)
    measuring.ckpt_path = "runs/mine/rollout_000040.ckpt"
    told = validation_summary(measuring, module(), {**TWO_TURNS, **FOUR_SAMPLES, "val/loss": 1.23456})
    rows = dict(told)
    assert list(rows) == ["policy", "checkpoint", "greedy", "basics sampled", "loss", "logs", "samples"]
    assert rows["loss"] == "1.235" and rows["checkpoint"] == "runs/mine/rollout_000040.ckpt"
    assert "first 3 problems" in rows["samples"] and "run/version_0" in rows["samples"]
    without = dict(validation_summary(trainer(tmp_path), module(), TWO_TURNS))
    assert without["samples"].startswith("not kept") and "checkpoint" not in without
