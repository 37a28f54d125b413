"""``lit_rl.Trainer`` in scripts: the defaults of the command line, predictions, and settings that reach the loggers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
import yaml
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from support.saved_runs import Curves

from lit_rl import Checkpointing, Diagnostics, ExecutionEvaluation, Trainer
from lit_rl.callbacks import PreferenceWriter
from lit_rl.cli.main import Cli
from lit_rl.cli.report import report_on_runs
from lit_rl.data import PreferencePairs, Sorting, SortingPolicy, SortingReward
from lit_rl.errors import UsageError
from lit_rl.modules import REINFORCE, EvaluationConfig
from lit_rl.rollout import Evaluated
from lit_rl.types import Sampling

QUIET: dict[str, Any] = {"accelerator": "cpu", "enable_progress_bar": False}


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def module(max_rollouts: int = 8, **options: Any) -> REINFORCE:
    """A policy that hardly learns, so that what validation measures stays the same."""
    return REINFORCE(SortingPolicy(), rewards=[SortingReward()], max_rollouts=max_rollouts, **options)


def three_an_epoch() -> Sorting:
    return Sorting(batch_size=1)


def files() -> set[str]:
    return {path.name for path in Path().rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("settings", "after"),
    [
        ({"val_check_interval": 4}, [4, 8]),
        ({"val_check_interval": 1}, [1, 2, 3, 4, 5, 6, 7, 8]),
        ({}, [3, 6, 8]),  # at the end of the run too
        ({"val_check_interval": 1.0}, [3, 6, 8]),
        ({"check_val_every_n_epoch": 2}, [6]),
        ({"val_check_interval": 2, "check_val_every_n_epoch": 1}, [2, 5, 8]),
        ({"val_check_interval": timedelta(0)}, [1, 2, 3, 4, 5, 6, 7, 8]),
    ],
)
def test_an_interval_counts_rollouts_over_all_epochs(settings: dict[str, Any], after: list[int]) -> None:
    validated: list[int] = []
    watch = pl.callbacks.LambdaCallback(on_validation_end=lambda _, module: validated.append(module.clock.count))
    Trainer(**QUIET, logger=False, callbacks=[watch], **settings).fit(module(), three_an_epoch())
    assert validated == after


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"logger": False}, set()),
        ({"logger": False, "enable_checkpointing": True}, {".ckpt"}),
        ({"logger": False, "callbacks": [ModelCheckpoint]}, {".ckpt"}),
        ({"barebones": True, "enable_progress_bar": None}, set()),
    ],
)
def test_only_what_was_asked_for_is_written(settings: dict[str, Any], kept: set[str]) -> None:
    trained, callbacks = module(3), [kind() for kind in settings.get("callbacks", ())]
    Trainer(**{**QUIET, **settings, "callbacks": callbacks}).fit(trained, three_an_epoch())
    assert trained.clock.count == 3 and {Path(name).suffix for name in files()} == kept


def test_the_command_line_has_the_same_defaults() -> None:
    def seen(trainer: Any) -> Any:
        kinds = {type(one).__name__ for one in trainer.callbacks} - {"ExecutionEvaluation", "SaveConfigInTraining"}
        intervals = trainer.val_check_interval, trainer.check_val_every_n_epoch, trainer.log_every_n_steps
        return kinds, intervals, trainer.num_sanity_val_steps, trainer.max_epochs

    model = "{class_path: REINFORCE, init_args: {policy: SortingPolicy, rewards: [SortingReward]}}"
    Path("run.yaml").write_text(f"model: {model}\ndata: Sorting")
    changes: list[dict[str, Any]] = [{"val_check_interval": 4}, {"check_val_every_n_epoch": 2}, {"max_steps": 7}, {}]
    for settings in [*(one | {"logger": False} for one in changes), {"barebones": True}]:
        settings |= {"accelerator": "cpu"}
        flags = [f"--trainer.{name}={yaml.safe_dump(value).split()[0]}" for name, value in settings.items()]
        assert seen(Cli(["--config=run.yaml", *flags], run=False).trainer) == seen(Trainer(**settings)), settings


# -- predictions -----------------------------------------------------------------------------------------------


def test_predictions_come_back_and_pairs_are_written() -> None:
    sampled = module(evaluate=EvaluationConfig(predict=Sampling(num_samples=4, max_tokens=3)))
    trainer = Trainer(**QUIET, logger=False, callbacks=[PreferenceWriter("pairs.jsonl", margin=0.5)])
    found = trainer.predict(sampled, Sorting(validation_batch_size=2))
    assert [type(one) for one in found] == [Evaluated, Evaluated]
    assert [len(one.rollouts["predict"].completions) for one in found] == [8, 4]
    by_problem = [rewards for one in found for rewards in one.rewards["predict"].rewards.view(-1, 4).tolist()]
    differing = sum(a - b >= 0.5 for rewards in by_problem for a in rewards for b in rewards)
    task = PreferencePairs("pairs.jsonl")
    assert 0 < len(task.problems("train")) <= differing


def test_predictions_leave_the_device_that_made_them() -> None:
    (one,) = Trainer(**QUIET, logger=False).predict(module(), Sorting())
    there = one.to("meta")
    rollout, rewards = there.rollouts["predict"], there.rewards["predict"]
    moved = [rollout.completions.completion_ids, rewards.rewards, *rewards.term_values.values()]
    assert {tensor.device.type for tensor in moved} == {"meta"}
    assert rollout.judgements == one.rollouts["predict"].judgements


def test_a_model_that_is_left_out_is_the_one_that_was_trained() -> None:
    trainer = Trainer(**QUIET, logger=False, limit_val_batches=1, callbacks=[Checkpointing("run")])
    trainer.fit(module(2), three_an_epoch())
    (found,) = trainer.validate(datamodule=Sorting())
    assert found["val/greedy/num_problems"] == 3


# -- settings --------------------------------------------------------------------------------------------------


class Service(Curves):
    """A tracking service that keeps parameters, and as MLflow does refuses to change one."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, Any] = {}

    def log_hyperparams(self, params: dict[str, Any]) -> None:
        changed = [name for name, value in params.items() if self.found.setdefault(name, value) != value]
        if changed:
            raise RuntimeError(f"Changing param values is not allowed: {changed[0]}")


def test_settings_reach_every_logger_with_numbers_as_numbers(recwarn: pytest.WarningsRecorder) -> None:
    service = Service()
    trainer = Trainer(**QUIET, logger=[service, CSVLogger("logs")], limit_val_batches=0)
    trained = module(2, sampling=Sampling(num_samples=6, max_tokens=3))
    trainer.fit(trained, Sorting(batch_size=2))
    written = yaml.safe_load(next(Path("logs").rglob("hparams.yaml")).read_text())
    for found in (service.found, written):
        wanted = {"model": "REINFORCE", "model.sampling.num_samples": 6, "data": "Sorting", "data.batch_size": 2}
        assert {name: found[name] for name in wanted} == wanted
        assert found["model.update.optimizer.lr"] == 1e-6
    trained.max_rollouts = 3
    trainer.fit(trained, Sorting(batch_size=2))
    assert trained.clock.count == 3
    assert "max_rollouts" in str([one.message for one in recwarn if "did not take" in str(one.message)])


def test_a_report_of_scripts_says_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    for name, samples in (("few", 4), ("many", 6)):
        trainer = Trainer(**QUIET, logger=CSVLogger(".", name=name), limit_val_batches=0)
        trainer.fit(module(2, sampling=Sampling(num_samples=samples, max_tokens=3)), Sorting())
    capsys.readouterr()
    report_on_runs(["few", "many"])
    said = capsys.readouterr().out
    assert "model.sampling.num_samples  4 in few" in said and "6 in many" in said and "not compared" not in said


# -- what Lightning offers and rollouts do not have ------------------------------------------------------------


@pytest.mark.parametrize("verb", ["fit", "predict"])
def test_a_compiled_module_runs_as_it_is(verb: str) -> None:
    """Compiled by dynamo, a rollout of this size takes minutes."""
    inner = module(2)
    trainer = Trainer(**QUIET, logger=False, limit_val_batches=0 if verb == "fit" else 1)
    run: Callable[..., Any] = getattr(trainer, verb)
    run(torch.compile(inner), Sorting())
    assert inner._compiler_ctx is None and inner.clock.count == (2 if verb == "fit" else 0)


def test_a_trial_run_of_lightnings_is_not_blamed_for_its_limit(recwarn: pytest.WarningsRecorder) -> None:
    trained = module(4)
    Trainer(**QUIET, logger=False, fast_dev_run=2).fit(trained, three_an_epoch())
    assert trained.clock.count == 2 and not [one for one in recwarn if "max_steps" in str(one.message)]


# -- the folder of a run ---------------------------------------------------------------------------------------

RECORDED = ["TensorBoardLayout", "CompletionWriter", "RunRecord", "ExecutionEvaluation", "Diagnostics", "CompletionLog"]


def kinds(trainer: Any) -> list[str]:
    return [type(one).__name__ for one in trainer.callbacks if not type(one).__name__.startswith("_")]


def test_a_run_with_a_folder_is_saved_logged_and_diagnosed_there_and_resumes() -> None:
    for max_rollouts in (2, 3):
        trainer, trained = Trainer(**QUIET, run_dir="runs/first"), module(max_rollouts)
        trainer.fit(trained, Sorting())
        assert trained.clock.count == max_rollouts
    assert kinds(trainer) == [*RECORDED, "ProgressScreen", "Checkpointing"]
    assert {path.parent.as_posix() for path in Path().rglob("*.ckpt")} == {"runs/first"}
    assert [path.as_posix() for path in Path().rglob("metrics.jsonl")] == ["runs/first/version_0/metrics.jsonl"]


def test_a_callback_that_is_given_takes_the_place_of_the_default_one() -> None:
    given = [Checkpointing(every_n_rollouts=1, keep=7), Diagnostics(patience=3), ExecutionEvaluation(prefix="held")]
    trainer = Trainer(**QUIET, run_dir="run", callbacks=given)
    trainer.fit(module(3), Sorting())
    assert sorted(kinds(trainer)) == sorted([*RECORDED, "ProgressScreen", "Checkpointing"])
    assert all(one in trainer.callbacks for one in given)
    assert len(given[0].run_folder.checkpoints()) == 3 and given[0].run_folder.path == Path("run").absolute()


def test_checkpoints_stay_in_the_folder_that_they_were_given() -> None:
    own = Checkpointing("elsewhere", every_n_rollouts=1)
    Trainer(**QUIET, run_dir="run", callbacks=[own]).fit(module(1), Sorting())
    assert len(list(Path("elsewhere").glob("*_000001.ckpt"))) == 1 and not list(Path("run").rglob("*.ckpt"))


@pytest.mark.parametrize(
    ("settings", "written"),
    [
        ({"enable_checkpointing": False}, {"metrics.jsonl", "rollouts.jsonl.gz"}),
        ({"logger": False}, {"rollout_000001.ckpt", "last.ckpt", "run.json", "run.lock", "metrics.jsonl"}),
        ({"logger": False, "enable_checkpointing": False}, set()),
    ],
)
def test_a_run_without_one_of_the_defaults_has_the_others(settings: dict[str, Any], written: set[str]) -> None:
    Trainer(**QUIET, run_dir="run", **settings).fit(module(1), Sorting())
    found = {name for name in files() if not name.startswith(("events.", "hparams."))}
    assert found == written | ({"rollouts.jsonl.gz"} if written else set())
    assert any(name.startswith("events.") for name in files()) == ("logger" not in settings)


def test_checkpoints_without_a_folder_are_refused_before_training() -> None:
    with pytest.raises(UsageError, match="Checkpointing has no folder"):
        Trainer(**QUIET, callbacks=[Checkpointing()])
