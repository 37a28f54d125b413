"""What a command and a run do before the first rollout: load no more than they need, and nothing twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
from support.small_runs import Words, build_module, fit

from lit_rl.cli.main import VERBS
from lit_rl.cli.options import OPTIONS
from lit_rl.cli.verbs import AROUND_A_RUN, RUNS
from lit_rl.data.task import Split, TaskDataModule
from lit_rl.types import Problem

ROOT = Path(__file__).parents[1]
LIGHT = {"torch", "lightning", "transformers", "tensorboard", "jsonargparse"}
NOT_BEFORE_A_RUN = {"peft", "datasets", "pyarrow", "tensorboard", "sacrebleu", "tree_sitter", "parso", "bitsandbytes"}


def loaded(code: str, modules: set[str]) -> list[str]:
    """Which of these modules a process has loaded after some code."""
    shown = f"{code}\nimport sys\nprint(*sorted({modules!r} & sys.modules.keys()))"
    run = subprocess.run([sys.executable, "-c", shown], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout.splitlines()[-1].split()


CODES = {
    "import lit_rl": "import lit_rl",
    "lit-rl --help": "from lit_rl.__main__ import main\nmain(['--help'])",
    "lit-rl --version": "from lit_rl.__main__ import main\nmain(['--version'])",
}


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
def test_what_needs_no_parser_loads_the_standard_library_alone(code: str) -> None:
    assert loaded(code, LIGHT) == []


EARLY = {
    **{f"{verb} --help": 0 for verb in OPTIONS},
    "replay run -h": 0,
    "ift --config basics_grpo": 2,
    "fit --config nowhere.yaml": 2,
    "plan --config=nowhere.yaml --gpus 8": 2,
    "check-data -c pyproject.toml": 2,
}
"""Commands that are answered without torch, with their exit status."""


@pytest.mark.parametrize(("command", "status"), EARLY.items())
def test_help_and_plain_mistakes_are_answered_without_torch(command: str, status: int) -> None:
    code = f"""from lit_rl.__main__ import main
try:
    main({command.split()!r})
    status = 0
except SystemExit as left:
    status = left.code
assert status == {status}, status"""
    assert loaded(code, {"torch", "lightning", "transformers"}) == []


@pytest.mark.parametrize("verb", ["check-contamination", "check-data", "replay"])
def test_the_help_without_tasks_names_the_arguments_that_are_parsed_with_them(verb: str) -> None:
    light, whole = (
        {action.dest.partition(".")[0] for action in parser._actions}
        for parser in (OPTIONS[verb](), OPTIONS[verb](TaskDataModule))  # type: ignore[call-arg]
    )
    assert light == whole >= {"data", "config"}


def test_the_command_line_loads_no_package_that_only_some_runs_need() -> None:
    assert loaded("import lit_rl.cli.main", NOT_BEFORE_A_RUN) == []


def test_the_help_names_every_verb_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    from lit_rl.__main__ import main

    main(["--help"])
    printed = capsys.readouterr().out
    listed = [line.split()[0] for line in printed.splitlines() if line.startswith("  ") and not line.startswith("  -")]
    assert sorted(listed) == sorted([*RUNS, *VERBS, "plan"])
    assert AROUND_A_RUN.keys() == {*VERBS, "plan"}


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


def test_a_terminal_is_told_that_the_program_loads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the imports, which fail here."""
    from lit_rl.__main__ import main

    monkeypatch.setitem(sys.modules, "lit_rl.cli.main", None)
    for terminal in (True, False):
        monkeypatch.setattr(sys.stderr, "isatty", lambda told=terminal: told)
        with pytest.raises(ImportError):
            main(["fit"])
        assert ("loading" in capsys.readouterr().err) is terminal
