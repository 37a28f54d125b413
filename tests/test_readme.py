"""The README's commands work as printed; those under `console` blocks are run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

import lit_rl.cli.main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^\$ (lit-rl .*)$", README, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.split()[1])
def test_a_quick_command_runs(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    lit_rl.cli.main.main(shlex.split(command)[1:])
    printed = capsys.readouterr()
    assert "error" not in printed.err
    if "check-data" in command:
        assert "78 of 78 references pass" in printed.out, "52 to train on and 26 to measure on"


def test_the_script_runs_where_no_other_command_was_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As printed, but for two updates and one rollout of a few problems."""
    monkeypatch.chdir(tmp_path)
    (script,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in script.splitlines() if line]) == 15
    for long, short in {
        "batch_size=16": "batch_size=2, num_train_problems=26",
        "num_validation_problems=104": "num_validation_problems=26",
        "max_updates=600": "max_updates=2",
        "max_rollouts=60": "max_rollouts=1",
    }.items():
        assert long in script
        script = script.replace(long, short)
    exec(compile(script, "README.md", "exec"), {})
    assert "{1: 0.0}" in capsys.readouterr().out, "an untrained policy solves nothing"
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "my_model").config.model_type == "llama"
