"""A configuration with another task in place of its own: what is measured is that task."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from lit_rl.cli.config_files import check_and_expand_configs
from lit_rl.cli.main import Cli, main
from lit_rl.data.task import TaskDataModule
from lit_rl.modules import PolicyModule
from lit_rl.trainer import Trainer

TASK = """
from lit_rl import AssertTests, Problem, TaskDataModule


class Mine(TaskDataModule):
    name = "mine"

    def load_problems(self, split):
        return [Problem(f"{split}/{n}", f"def {split}{n}():", self.check(split, n)) for n in range(2)]

    def check(self, split, n):
        return AssertTests(f"assert {split}{n}() == 1")


class Closed(Mine):
    def __init__(self, batch_size: int = 1) -> None:
        super().__init__(batch_size=batch_size)
"""
SORTING = {"class_path": "Sorting", "init_args": {"validation_batch_size": 2}}
CONFIGS: dict[str, Any] = {
    "shipped": {
        "data": {
            "class_path": "lit_rl.data.Sorting",
            "init_args": {"batch_size": 2, "validation_tasks": [SORTING, SORTING]},
        },
        "model": {"class_path": "REINFORCE", "init_args": {"policy": "SortingPolicy", "rewards": ["SortingReward"]}},
        "trainer": {"accelerator": "cpu", "logger": False},
    },
    "mine": {"data": {"class_path": "my_task.Mine"}},
    "named": {"data": "my_task.Mine"},
    "mine_on_sorting": {"data": {"class_path": "my_task.Mine", "init_args": {"validation_tasks": [SORTING]}}},
    "smaller": {"data": {"init_args": {"batch_size": 1}}},
}


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with a task of one's own and configurations."""
    sys.modules.pop("my_task", None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("my_task.py").write_text(TASK)
    for name, content in CONFIGS.items():
        Path(f"{name}.yaml").write_text(yaml.safe_dump(content))
    yield
    sys.modules.pop("my_task", None)


@pytest.mark.parametrize(
    ("arguments", "measured"),
    [
        ("--config shipped.yaml", ["sorting", "sorting_2"]),
        ("--config shipped.yaml --data my_task.Mine", ["mine"]),
        ("-c shipped.yaml --data=my_task.Mine --data.batch_size 1", ["mine"]),
        ("--config shipped.yaml --config mine.yaml", ["mine"]),
        ("--config=shipped.yaml --config named.yaml --config smaller.yaml", ["mine"]),
        ("--config shipped.yaml --data my_task.Closed", ["mine"]),
        ("--config shipped.yaml --config mine_on_sorting.yaml", ["sorting"]),
        ("--config shipped.yaml --data my_task.Mine --data.validation_tasks ['Sorting']", ["sorting"]),
        ("--config shipped.yaml --data Sorting", ["sorting", "sorting_2"]),
        ("--config shipped.yaml --config smaller.yaml", ["sorting", "sorting_2"]),
        ("--config mine_on_sorting.yaml --config shipped.yaml", ["sorting", "sorting_2"]),
    ],
)
def test_another_task_is_validated_on_its_own_problems(arguments: str, measured: list[str]) -> None:
    given = check_and_expand_configs(arguments.split(), {"model": PolicyModule, "data": TaskDataModule}, Trainer)
    assert list(Cli(given, run=False).datamodule.validation_task_names) == measured


@pytest.mark.parametrize("verb", ["check-data", "check-contamination"])
def test_a_verb_that_reads_a_task_takes_the_same_problems(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with suppress(SystemExit):  # what is found is told by the status
        main([verb, "--config", "shipped.yaml", "--data", "my_task.Mine"])
    said = capsys.readouterr().out
    assert "task Mine\n" in said and "orting" not in said
