"""The page about several turns is run as printed, with a tiny policy; its transcript matches the sandbox."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from support.tiny_models import TINY_QWEN2, loaded

import lit_rl.cli.main
from lit_rl import Basics, Repair, Sandbox
from lit_rl.rollout import Attempt, find_program
from lit_rl.types import StopReason

PAGE = (Path(__file__).parents[1] / "docs" / "turns.md").read_text()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder in which the page's commands find a policy, one with random weights."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    longer = TINY_QWEN2 | {"max_position_embeddings": 512}
    loaded("package:lit_rl/data/basics/tokenizer", config=longer).save_pretrained(tmp_path / "runs/basics/sft/model")
    return tmp_path


def block(language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return text


def test_the_configuration_runs(folder: Path) -> None:
    """One rollout of a few problems; validation tells of both turns, by the names in the page's table."""
    (folder / "repair.yaml").write_text(block("yaml"))
    (command,) = re.findall(r"^lit-rl (.*)$", block("bash"), re.MULTILINE)
    few = "--data.num_train_problems 26 --data.num_validation_problems 26 --data.batch_size 2"
    less = "--model.max_rollouts 1 --trainer.val_check_interval 1"
    less += " --trainer.logger.class_path CSVLogger --trainer.logger.init_args.save_dir runs"
    lit_rl.cli.main.main([*command.split(), *few.split(), *less.split()])
    (metrics,) = folder.rglob("metrics.csv")
    logged = metrics.read_text().split("\n")[0].split(",")
    named = re.findall(r"^\| `([^`]+)`", PAGE.split("## Metrics")[1], re.MULTILINE)
    for name in named:
        name = name.replace("<sampling>", "greedy").replace("@k", "@1")
        for turn in (1, 2) if "<n>" in name else (1,):
            assert name.replace("<n>", str(turn)) in logged, logged


def test_the_script_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = block("python").replace("num_validation_problems=52", "num_validation_problems=26")
    exec(compile(script, "turns.md", "exec"), {})
    assert "({1: 0.0}, {1: 0.0})" in capsys.readouterr().out, "an untrained policy solves nothing"


def test_the_transcript_is_what_repair_says() -> None:
    prompt, first, message, second = re.search(
        r"```\n(def gap.*?)\n\nturn 1:\n(.*?)environment:\n(.*?)turn 2:\n(.*?)```", PAGE, re.DOTALL
    ).groups()
    problems = Basics(num_validation_problems=52, num_public_cases=3).problems("validation")
    (problem,) = [one for one in problems if prompt in one.prompt]
    repair = Repair(max_turns=2)
    with Sandbox(num_workers=1) as sandbox:

        def attempt(text: str) -> Attempt:
            program = find_program(problem, text)
            return Attempt(
                text, StopReason.EOS, program, sandbox.submit(program.source, problem.public_check).result(60)
            )

        assert repair.answer(problem, [attempt(first)]).strip("\n") == message.strip("\n")
        repaired = attempt(second)
        assert repaired.outcome.passed
        assert sandbox.submit(repaired.program.source, problem.check).result(60).passed
