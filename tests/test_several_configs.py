"""Several ``--config``: each verb that reads configurations by itself merges them in order, as fit does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.recorded_runs import row, write_run

import lit_rl.cli.main
from lit_rl.cli.export import load_run_config

Run = Callable[..., tuple[int, list[str]]]

GOOD = {"task_id": 601, "text": "One.", "code": "def f():\n    return 1\n", "test_list": ["assert f() == 1"]}
BAD = {**GOOD, "code": "def f():\n    return 2\n"}
NONE_HELD_OUT = {"train_split": "all", "validation_split": "none", "test_split": "none"}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command beside two files of rows and configurations that read them; gives status and printed lines."""
    monkeypatch.chdir(tmp_path)
    for name, values in {"good": GOOD, "bad": BAD}.items():
        Path(f"{name}.jsonl").write_text(json.dumps({"test_setup_code": "", **values}) + "\n")
    basics = {"class_path": "Basics", "init_args": {"num_train_problems": 2, "num_validation_problems": 1}}
    configs: dict[str, Any] = {
        "basics": {"data": basics},
        "task": {"data": {"class_path": "MBPP", "init_args": {"path": "good.jsonl", **NONE_HELD_OUT}}},
        "other_rows": {"data": {"init_args": {"path": "bad.jsonl"}}},
        "dotted": {"data.init_args.path": "bad.jsonl"},
        "no_data": {"model": {"init_args": {"max_rollouts": 3}}},
    }
    for name, content in configs.items():
        Path(f"{name}.yaml").write_text(json.dumps(content))

    def command(*arguments: str) -> tuple[int, list[str]]:
        try:
            lit_rl.cli.main.main(arguments)
            status = 0
        except SystemExit as left:
            status = int(str(left.code))
        printed = capsys.readouterr()
        return status, (printed.out or printed.err).splitlines()

    return command


ALL_FINE, ONE_WRONG = "nothing wrong found: 1 of 1 references pass", "something is wrong: 1 of 1 problems"
ORDERS = {
    "a task after another": ("--config basics.yaml --config task.yaml", "good", ALL_FINE),
    "rows of a task": ("--config task.yaml --config other_rows.yaml", "bad", ONE_WRONG),
    "rows by a dotted key": ("-c task.yaml --config=dotted.yaml", "bad", ONE_WRONG),
    "a file without data": ("--config task.yaml --config no_data.yaml", "good", ALL_FINE),
    "a file without data first": ("--config no_data.yaml --config task.yaml", "good", ALL_FINE),
    "one with an equals sign": ("--config=task.yaml", "good", ALL_FINE),
    "an argument after them": ("--config task.yaml --config other_rows.yaml --data.path good.jsonl", "good", ALL_FINE),
    "an argument between them": ("--config task.yaml --data.path good.jsonl -c other_rows.yaml", "bad", ONE_WRONG),
}


@pytest.mark.parametrize("case", ORDERS)
def test_check_data_reads_what_fit_would(case: str, run: Run) -> None:
    arguments, rows, verdict = ORDERS[case]
    status, printed = run("check-data", *arguments.split(), "--num_workers=1")
    assert printed[0] == f"task MBPP from {rows}.jsonl"
    assert printed[1].startswith(verdict) and status == (verdict == ONE_WRONG)


def test_check_data_names_a_task_without_files_and_those_that_it_is_validated_on(run: Run) -> None:
    validated = [{"class_path": "MBPP", "init_args": {"path": "good.jsonl", "validation_split": "all"}}, "Sorting"]
    sizes = ["--data.num_train_problems=1", "--data.max_validation_problems=1", "--splits=[train]"]
    status, printed = run("check-data", "--data=Basics", *sizes)
    assert (status, printed[0]) == (0, "task Basics")
    status, printed = run("check-data", "--data=Basics", *sizes, f"--data.validation_tasks={json.dumps(validated)}")
    assert printed[0] == "task Basics, validated on MBPP from good.jsonl and Sorting"


def test_replay_reads_what_fit_would(run: Run) -> None:
    """A file's task, another's rewards; neither alone says both."""
    program = "def f():\n    return 1\n"
    write_run(Path("run"), {4: [row(0, program, 1.0, task_id="mbpp/601")]})
    rewards = [{"class_path": "TestsReward", "init_args": {"weight": 3.0}}]
    model = {"rewards": rewards, "sandbox": "lit_rl.execution.Sandbox"}
    Path("rewards.yaml").write_text(json.dumps({"model": {"init_args": model}}))
    for first, second in (("task", "rewards"), ("rewards", "task")):
        for arguments in (
            ["run", "--config", f"{first}.yaml", "-c", f"{second}.yaml"],
            [f"--config={first}.yaml", f"--config={second}.yaml", "run"],
        ):
            status, printed = run("replay", *arguments)
            assert status == 0 and "  mean 1 -> 3" in printed, printed


def merged(folder: Path, *models: dict[str, Any]) -> Any:
    """The section of the model that export reads from files with one each."""
    paths = [str(folder / str(number)) for number in range(len(models))]
    for path, model in zip(paths, models, strict=True):
        Path(path).write_text(json.dumps({"model": model}))
    return load_run_config({"config": "ignored"}, paths)["model"]


def causal_lm(**arguments: Any) -> dict[str, Any]:
    return {"class_path": "CausalLM", "init_args": arguments}


def test_export_takes_the_configuration_of_all_its_files(tmp_path: Path) -> None:
    model = {"class_path": "GRPO", "init_args": {"policy": causal_lm(model="a")}}
    other = {"init_args": {"policy": {"init_args": {"model": "b"}}, "max_rollouts": 2}}
    for files, last in (((model, other), "b"), ((other, model), "a")):
        found = merged(tmp_path, *files)
        assert found["init_args"] == {"policy": causal_lm(model=last), "max_rollouts": 2}
        assert found["class_path"] == "GRPO"


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("CausalLM", {"model": "a", "init_seed": 7}),
        ("lit_rl.models.CausalLM", {"model": "a", "init_seed": 7}),
        ("SortingPolicy", {"init_seed": 7}),
        ("nowhere.Mine", {"model": "a", "init_seed": 7}),
    ],
)
def test_another_class_in_a_later_file_keeps_what_it_takes_too(tmp_path: Path, name: str, kept: dict[str, Any]) -> None:
    """As in ``fit``, where a class may also be given by its short name in one file and by its path in another."""
    policies = causal_lm(model="a", init_seed=7), {"class_path": name}
    found = merged(tmp_path, *({"init_args": {"policy": policy}} for policy in policies))
    assert found["init_args"]["policy"] == {"class_path": name, "init_args": kept}


def test_another_method_in_a_later_file_keeps_the_policy(tmp_path: Path) -> None:
    arguments = {"policy": causal_lm(model="a"), "baseline": "GroupMean"}
    found = merged(tmp_path, {"class_path": "GRPO", "init_args": arguments}, {"class_path": "PPO"})
    assert found == {"class_path": "PPO", "init_args": {"policy": causal_lm(model="a")}}
