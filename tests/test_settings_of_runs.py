"""Settings that a run compares when it begins: monitors, rates, and those of the start before."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
import yaml
from support.command_line import BASE
from support.small_runs import adam, at_start, build_module, corridor, fit, weights

from lit_rl import GRPO, PPO, AssertTests, Problem, Sampling, TaskDataModule, Trainer
from lit_rl.__main__ import main
from lit_rl.callbacks import Checkpointing, ExecutionEvaluation
from lit_rl.data import Corridor, Sorting, SortingPolicy, SortingReward
from lit_rl.errors import UsageError
from lit_rl.models import SeparateCritic
from lit_rl.modules import UpdateConfig, setup_check
from lit_rl.modules.setup_check import check_setup
from lit_rl.rollout import SingleTurn
from lit_rl.training.checkpoints import read_checkpoint
from lit_rl.training.progress import StepCounter


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("runs")
    (here / "base.yaml").write_text(yaml.safe_dump(copy.deepcopy(BASE)))
    return here


def set_up(**given: Any) -> Any:
    """A module as it is set up, of what the checks look at."""
    trainer: dict[str, Any] = {"world_size": 2, "max_epochs": -1, "max_steps": -1, "limit_train_batches": 1.0}
    trainer |= {"limit_val_batches": 1.0, "callbacks": [ExecutionEvaluation(), Checkpointing("x")], "datamodule": None}
    trainer |= {"precision_plugin": SimpleNamespace(precision="32-true")}
    collector = SimpleNamespace(sandbox=None, environment=SingleTurn())
    own = {"clock": StepCounter("rollout"), "sampling": Sampling(), "collector": collector}
    module = {key: given.pop(key) for key in own if key in given}
    return SimpleNamespace(**own | module, samples_to_train=True, trainer=SimpleNamespace(**trainer | given))


def test_tasks_of_slurm_that_know_nothing_of_each_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for tasks in ("1", "2"):
        monkeypatch.setenv("SLURM_STEP_NUM_TASKS", tasks)
        check_setup(set_up(), "fit")
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "3")
    with pytest.raises(UsageError, match=r"srun started 3 tasks, and trainer.devices x num_nodes is 2: set"):
        check_setup(set_up(), "fit")


class Own(pl.Callback):
    """May do what ours do not."""


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({}, ""), ({"callbacks": [ExecutionEvaluation()]}, "this run has no limit"), ({"callbacks": [Own()]}, ""),
        ({"callbacks": [ExecutionEvaluation()], "max_steps": 5}, ""),
        ({"callbacks": [ExecutionEvaluation()], "clock": StepCounter("rollout", 3)}, ""),
        ({"callbacks": [Checkpointing("x")]}, "validation measures nothing"),
        ({"callbacks": [Checkpointing("x")], "limit_val_batches": 0}, ""),
    ],
)  # fmt: skip
def test_a_run_without_end_or_measure_is_warned_of(
    given: dict[str, Any], part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(setup_check, "rank_zero_warn", told.append)
    check_setup(set_up(**given), "fit")
    assert len(told) == bool(part) and all(part in one for one in told)


OVERLAP = {"train": [("a", "1"), ("b", "2"), ("c", "3")], "validation": [("c", "3"), ("a", "1"), ("b", "4")]}


def test_validation_problems_that_are_trained_on_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three have name and prompt of a training problem; one has its name alone."""
    told: list[str] = []
    monkeypatch.setattr(setup_check, "rank_zero_warn", told.append)
    check = AssertTests("assert f()")
    parts = {split: [Problem(name, f"{name}{mark}", check) for name, mark in rows] for split, rows in OVERLAP.items()}

    class Task(TaskDataModule):
        def load_problems(self, split: str) -> list[Problem]:
            return parts[split]

    collector = SimpleNamespace(sandbox=object(), environment=SingleTurn())
    for limit in (0, 1.0):
        assert not told, "where no validation is wanted"
        check_setup(set_up(datamodule=Task(), limit_val_batches=limit, collector=collector), "fit")
    assert len(told) == 1 and "2 of 3 validation problems" in told[0]


def test_a_timer_does_not_keep_a_configuration_from_being_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A default of its arguments is a member of an enumeration; the checkpoint holds the configuration."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    timer = {"class_path": "lightning.pytorch.callbacks.Timer", "init_args": {"duration": "00:01:00:00"}}
    saves = {"class_path": "Checkpointing", "init_args": {"folder": "timed"}}
    options = ["--trainer.callbacks", json.dumps([timer, saves]), "--model.sandbox", "support.ill_runs.Judged"]
    main(["fit", "--config", "base.yaml", *options])
    config = yaml.safe_load(read_checkpoint(folder / "timed" / "last.ckpt")["config"])
    assert config["trainer"]["callbacks"][0]["init_args"]["interval"] == "step"


def decay(steps: int = 9, lr: float = 0.1, optimizer: Any = torch.optim.AdamW) -> UpdateConfig:
    return UpdateConfig(
        optimizer=lambda of: optimizer(of, lr=lr),
        lr_scheduler=lambda of: torch.optim.lr_scheduler.LinearLR(of, total_iters=steps),
    )


def go_on(folder: Path, lists: Sequence[list[int]] = ([1, 0, 2], [3, 2, 4]), **given: Any) -> None:
    """A start of a run in Python, as a script has it."""
    own = {"sampling": Sampling(num_samples=2, max_tokens=3), "max_rollouts": 1, "update": decay()}
    module = GRPO(SortingPolicy(init_seed=0), **{"rewards": [SortingReward()]} | own | given)
    trainer = Trainer(accelerator="cpu", limit_val_batches=0, callbacks=[Checkpointing(str(folder))], logger=False)
    trainer.fit(module, Sorting([*lists], batch_size=1))


def test_a_script_that_goes_on_tells_what_differs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    go_on(tmp_path)
    go_on(tmp_path)
    assert "going on from" in caplog.text and "->" not in caplog.text
    given = {"rewards": [SortingReward(weight=2.0)], "sampling": Sampling(num_samples=4, max_tokens=3)}
    go_on(tmp_path, **given, max_rollouts=2, update=decay(8, 0.01))
    assert [one.strip() for one in caplog.messages if "->" in one] == [
        "model.rewards.terms.SortingReward.weight: 1.0 -> 2.0, in force from now on",
        "model.sampling.num_samples: 2 -> 4, in force from now on",
        "model.update.lr_scheduler.total_iters: 9 -> 8, in force from now on",
        "model.update.optimizer.lr: 0.1 -> 0.01, ignored: the checkpoint's optimizer keeps its own value",
        "model.max_rollouts: 1 -> 2, in force from now on",
    ]
    caplog.clear()
    go_on(tmp_path, **given, max_rollouts=2, update=decay(8))  # with the rate that was in force all the time
    assert "->" not in caplog.text
    with pytest.raises(UsageError, match=r"^model\.update\.optimizer: expected AdamW, .* got SGD; .*lit-rl export"):
        go_on(tmp_path, max_rollouts=3, update=decay(optimizer=torch.optim.SGD))


@pytest.mark.parametrize(("rollouts", "twice"), [(1, True), (2, False)])
def test_a_task_that_is_exchanged_between_two_starts_is_told(rollouts: int, twice: bool, tmp_path: Path) -> None:
    """In the middle of an epoch of two rollouts, and at its end, where Lightning reads back no position."""
    go_on(tmp_path, max_rollouts=rollouts)
    with pytest.warns(UserWarning, match="training problems differ from the checkpoint's") as told:
        go_on(tmp_path, [[0, 2, 1], [3, 4, 2]], max_rollouts=rollouts + 1)
    assert sum("come twice" in str(one.message) for one in told) == twice


@pytest.mark.parametrize(
    ("optimizer", "rate", "told"),
    [("AdamW", 6.0, 1), ("NAdam", 0.2, 1), ("Adamax", 0.2, 1), ("RAdam", 0.1, 0), ("AdamW", 0.1, 0), ("SGD", 6.0, 0)],
)
def test_a_rate_that_moves_weights_by_more_than_they_are_is_told(
    optimizer: str, rate: float, told: int, recwarn: pytest.WarningsRecorder, tmp_path: Path
) -> None:
    go_on(tmp_path, update=decay(1, rate, getattr(torch.optim, optimizer)))  # which begins with a third of it
    line = f"the learning rate is {rate:g}, and {optimizer} moves a weight by about that much in each update: lower"
    assert sum(line in str(one.message) for one in recwarn) == told


@pytest.mark.parametrize(("rate", "told"), [(0.5, 1), (0.05, 0)])
def test_a_rate_of_the_critic_is_looked_at_too(
    rate: float, told: int, recwarn: pytest.WarningsRecorder, tmp_path: Path
) -> None:
    fit(corridor(adam, 1, Sampling(num_samples=2, max_tokens=4), learning_rate=rate), tmp_path, data=Corridor(5))
    assert sum("the learning rate is 0.5, and Adam moves" in str(one.message) for one in recwarn) == told


def by_shape(groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    """Matrices apart from vectors, as where only matrices decay."""
    split = [
        {**group, "params": [p for p in group["params"] if (p.ndim >= 2) is matrices]}
        for group in groups
        for matrices in (True, False)
    ]
    return torch.optim.SGD(split, lr=1.0)


@pytest.mark.parametrize("kind", [GRPO, PPO])
def test_weights_that_an_optimizer_splits_by_shape_are_clipped_together(
    kind: Any, byte_tokenizer: str, tmp_path: Path
) -> None:
    """A rate of 1 moves the policy by the clipped norm, and the norm that is logged is that of the whole part."""
    moved, logged = [], []
    for optimizer in (by_shape, partial(torch.optim.SGD, lr=1.0)):
        options: dict[str, Any] = {"optimizer": optimizer, "gradient_clip_norm": 1e-3, "max_rollouts": 1}
        options |= {"critic": SeparateCritic()} if kind is PPO else {}
        module: Any = build_module(byte_tokenizer, kind, **options)
        before = weights(at_start(module))
        logged.append(float(fit(module, tmp_path).callback_metrics["policy/gradient_norm"]))
        moved.append(weights(module) - before)
    assert float(moved[0].norm()) == pytest.approx(1e-3, rel=1e-4)
    assert torch.allclose(*moved, rtol=0, atol=1e-9)
    assert logged[0] == pytest.approx(logged[1])
