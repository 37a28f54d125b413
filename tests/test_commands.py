"""The command line beside the configurations: verbs, help, one line per mistake, custom classes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
from support.small_runs import Words, build_module, fit

import lit_rl.cli.main
from lit_rl.cli.options import OPTIONS
from lit_rl.data.task import Split
from lit_rl.types import Problem


def test_check_contamination_names_held_out_problems_that_are_trained_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Item 69: the training rows hold the first held-out statement with another end, and not the second one."""
    told = "Give back the sum of all numbers of a list that are larger than the first one"
    statements = {1: f"{told}, or zero.", 11: told, 12: "Reverse a text.", 601: "Reverse a list.", 602: f"{told}!"}
    rows = [
        {"task_id": n, "text": text, "code": "def f(): pass", "test_setup_code": "", "test_list": ["assert f() == 1"]}
        for n, text in statements.items()
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    section = {"class_path": "MBPP", "init_args": {"path": str(tmp_path / "rows.jsonl"), "validation_split": "none"}}
    task, output = json.dumps(section), tmp_path / "pairs.jsonl"
    with pytest.raises(SystemExit) as left:
        lit_rl.cli.main.main(["check-contamination", "--data", task, "--output", str(output)])
    assert left.value.code == 1
    assert capsys.readouterr().out.splitlines() == [
        f"task MBPP from {tmp_path / 'rows.jsonl'}",
        "1 of 2 held-out problems occur among 2 training problems",
        "  mbpp/11: 100% of it in mbpp/602",
    ]
    pairs = [json.loads(line) for line in output.read_text().splitlines()]
    assert pairs == [{"train_id": "mbpp/602", "held_out_id": "mbpp/11", "share": 1.0}]
    section["init_args"]["test_split"] = "prompt"
    with pytest.raises(SystemExit):
        lit_rl.cli.main.main(
            ["check-contamination", "--data", task, "--held_out", json.dumps(section), "--min_share", "0.7"]
        )
    printed = capsys.readouterr().out
    assert "mbpp/1: 80% of it in mbpp/602" in printed  # 8 of 10 runs of ten words
    assert printed.startswith(f"task MBPP from {tmp_path / 'rows.jsonl'}, held out MBPP from ")
    (tmp_path / "run.yaml").write_text(json.dumps({"data": section}))
    lit_rl.cli.main.main(["check-contamination", "--config", str(tmp_path / "run.yaml"), "--min_share", "0.81"])
    assert capsys.readouterr().out.endswith("\n0 of 1 held-out problems occur among 2 training problems\n")


ROOT = Path(__file__).parents[1]
LIGHT = {"torch", "lightning", "transformers", "tensorboard", "jsonargparse"}


def loaded(code: str, modules: set[str]) -> list[str]:
    """Those of these modules that a process has loaded after some code."""
    shown = f"{code}\nimport sys\nprint(*sorted({modules!r} & sys.modules.keys()))"
    run = subprocess.run([sys.executable, "-c", shown], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout.splitlines()[-1].split()


def test_what_needs_no_parser_loads_the_standard_library_alone() -> None:
    code = "import lit_rl\nfrom lit_rl import __version__\nfrom lit_rl.__main__ import main\n"
    assert loaded(f"{code}main(['--help'])\nmain(['--version'])", LIGHT) == []


EARLY = {
    **{f"{verb} --help": 0 for verb in OPTIONS},
    "replay run -h": 0,
    **{f"{verb} --help": 0 for verb in ("report", "show", "docs")},
    "configs": 0,
    "configs --help": 0,
    "ift --config basics_grpo": 2,
    "fit --config nowhere.yaml": 2,
    "plan --config=nowhere.yaml --gpus 8": 2,
    "check-data -c pyproject.toml": 2,
}
"""Commands that are answered without torch, with their exit status."""


def test_help_and_plain_mistakes_are_answered_without_torch() -> None:
    code = f"""from lit_rl.__main__ import main
for command, expected in {EARLY!r}.items():
    status = 0
    try:
        main(command.split())
    except SystemExit as left:
        status = left.code or 0
    assert status == expected, (command, status)"""
    assert loaded(code, {"torch", "lightning", "transformers"}) == []


class Counting(Words):
    """Counts how often each split is loaded."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calls: list[Split] = []

    def load_problems(self, split: Split) -> list[Problem]:
        self.calls.append(split)
        return super().load_problems(split)


def test_a_run_loads_the_problems_of_each_split_once(byte_tokenizer: str, tmp_path: Path) -> None:
    """Setting up, checking, leaving out what does not fit, training, validating, and validating again afterwards."""
    data, held_out = Counting(batch_size=2), Counting()
    data.validation_tasks = [held_out]
    module = build_module(byte_tokenizer, max_rollouts=2)
    trainer = fit(module, tmp_path, data=data, limit_val_batches=1, val_check_interval=1)
    assert isinstance(trainer, pl.Trainer)
    trainer.validate(module, data, verbose=False)
    assert data.calls == ["train"]
    assert held_out.calls == ["validation"]
