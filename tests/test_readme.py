"""The README's commands work as printed; those under `console` blocks are run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from support.tiny_models import TINY_QWEN2
from transformers import AutoModelForCausalLM

import lit_rl.cli.main
from lit_rl import CausalLM
from lit_rl.reports.runs import folders_of

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


def test_the_script_runs_and_goes_on_when_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As printed, but for one rollout of a few problems instead of sixty, from a model with random weights."""
    monkeypatch.chdir(tmp_path)
    policy = CausalLM(config=TINY_QWEN2, tokenizer="package:lit_rl/data/basics/tokenizer")
    policy.load()
    policy.save_pretrained(tmp_path / "runs/basics/sft/model")
    (script,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in script.splitlines() if line]) == 15
    small = script.replace("batch_size=16", "batch_size=2, num_train_problems=26").replace(
        "max_rollouts=60", "max_rollouts=1"
    )
    for _ in range(2):
        exec(compile(small, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert printed.count("{1: 0.0}") == 2, "an untrained policy solves nothing"
    assert (tmp_path / "runs/mine/rollout_000001.ckpt").exists()
    assert folders_of("runs/mine") == [Path("runs/mine/version_0")], "logs are where the checkpoints are"
    lit_rl.cli.main.main(["show", "runs/mine", "--best"])
    assert "reward" in capsys.readouterr().out
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "runs/mine/model").config.model_type == "qwen2"
