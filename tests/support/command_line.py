"""Helpers of the tests of mistakes: a configuration that runs, and a command line whose output they read."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from lit_rl.__main__ import main

TINY = {
    "model_type": "qwen2",
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 128,
}
BASE: dict[str, Any] = {
    "trainer": {"accelerator": "cpu", "devices": 1, "max_epochs": -1, "logger": False, "enable_progress_bar": False},
    "model": {
        "class_path": "lit_rl.modules.GRPO",
        "init_args": {
            "policy": {
                "class_path": "lit_rl.models.CausalLM",
                "init_args": {"config": TINY, "tokenizer": "package:lit_rl/data/basics/tokenizer"},
            },
            "max_rollouts": 1,
            "sampling": {"num_samples": 2, "max_tokens": 4},
            "rewards": [{"class_path": "lit_rl.rewards.TestsReward"}],
            "update": {"optimizer": {"class_path": "torch.optim.AdamW", "init_args": {"lr": 0.001}}},
            "sandbox": "lit_rl.execution.Sandbox",
        },
    },
    "data": {
        "class_path": "lit_rl.data.Basics",
        "init_args": {"num_train_problems": 52, "num_validation_problems": 26, "batch_size": 4},
    },
}

_NOT_OURS = ("GPU", "TPU", "basics:", "Seed", "Loading weights:")
"""Beginnings of lines about the run that come before the mistake is found."""


def answer(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int | str | None, str]:
    """Exit status of a command line, and what it printed as its error; options alone are those of ``fit``."""
    words = shlex.split(command)
    arguments = words if command[0] != "-" else ["fit", "--config", "base.yaml", *words]
    with pytest.raises(SystemExit) as left:
        main(arguments)
    return left.value.code, capsys.readouterr().err


def one_line(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line, of bearable length, by which a command line that fails ends."""
    status, error = answer(command, capsys)
    assert status in (1, 2)
    shown = [line for line in error.splitlines() if not line.startswith(_NOT_OURS)]
    (line,) = [line for line in shown if line.startswith("lit-rl: error: ")]
    assert "Traceback" not in error
    assert shown[-1] == line, f"more than one line:\n{error}"
    assert len(line) < 450
    return line
