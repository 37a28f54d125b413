"""Weights & Biases (offline) and MLflow with their real packages; skipped, by name, where these are missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch.loggers import MLFlowLogger, TensorBoardLogger, WandbLogger
from support.small_runs import Words, build_module
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lit_rl.callbacks import CompletionLog, ExecutionEvaluation
from lit_rl.trainer import Trainer

NAMES = ("reward/std", "sampling/logprob_gap/mean", "time/idle_seconds")


def run(module: Any, logger: Any, folder: Path, validate_first: bool = False) -> None:
    trainer = Trainer(
        accelerator="cpu",
        devices=1,
        logger=logger,
        callbacks=[CompletionLog(num_problems=2, groups_every=2), ExecutionEvaluation()],
        limit_val_batches=1,
        val_check_interval=2,
        check_val_every_n_epoch=None,
        enable_progress_bar=False,
        enable_checkpointing=False,
        default_root_dir=folder,
    )
    if validate_first:
        trainer.validate(module, datamodule=Words(batch_size=3), verbose=False)
    trainer.fit(module, Words(batch_size=3))


def test_curves_and_texts_count_rollouts_from_1_and_a_validation_before_them_is_at_0(
    byte_tokenizer: str, tmp_path: Path
) -> None:
    logger = TensorBoardLogger(str(tmp_path), name="run")
    run(build_module(byte_tokenizer, max_rollouts=4), logger, tmp_path, validate_first=True)
    events = EventAccumulator(logger.log_dir, size_guidance={"tensors": 0})
    events.Reload()
    assert [event.step for event in events.Scalars("reward/mean")] == [1, 2, 3, 4]
    assert [event.step for event in events.Scalars("val/greedy/reward/mean")] == [0, 2, 4]
    for name, steps in (("completions/training", [2, 4]), ("completions/greedy/validation0", [0, 2, 4])):
        (tag,) = [tag for tag in events.Tags()["tensors"] if tag.startswith(name)]
        assert [event.step for event in events.Tensors(tag)] == steps
    assert "step" not in events.Tags()["scalars"]


def test_weights_and_biases_gets_the_same_numbers_and_tables(
    byte_tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb", reason="needs the package wandb")
    logger = WandbLogger(project="test", offline=True, save_dir=str(tmp_path))
    rows: list[dict[str, Any]] = []
    log = logger.experiment.log
    monkeypatch.setattr(
        logger.experiment, "log", lambda row, *rest, **named: (rows.append(row), log(row, *rest, **named))
    )
    run(build_module(byte_tokenizer, max_rollouts=4), logger, tmp_path)
    summary = dict(logger.experiment.summary)
    logger.experiment.finish()
    curves = [row for row in rows if "reward/mean" in row]
    assert [row["trainer/global_step"] for row in curves] == [1, 2, 3, 4]
    assert all(name in row for row in curves for name in NAMES)
    assert [row["trainer/global_step"] for row in rows if "val/greedy/reward/mean" in row] == [2, 4]
    tables = [row for row in rows if any(name.startswith("completions/") for name in row)]
    assert sorted(row["trainer/global_step"] for row in tables) == [2, 2, 4, 4]
    assert summary["reward/mean"] == curves[-1]["reward/mean"]
    assert len(list(tmp_path.rglob("*.table.json"))) == 4, "the package wrote each table"
    assert list(tmp_path.rglob("*.wandb"))


def test_mlflow_gets_the_same_numbers_and_tables(
    byte_tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow", reason="needs the package mlflow")
    pytest.importorskip("pandas", reason="needs the package pandas, for MLflow's tables")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    logger = MLFlowLogger("test", tracking_uri=f"file:{tmp_path / 'mlruns'}")
    run(build_module(byte_tokenizer, max_rollouts=4), logger, tmp_path)
    client, number = logger.experiment, logger.run_id
    for name in ("reward/mean", *NAMES):
        assert [point.step for point in client.get_metric_history(number, name)] == [1, 2, 3, 4]
    assert [point.step for point in client.get_metric_history(number, "val/greedy/pass1")] == [2, 4]
    (file,) = tmp_path.rglob("completions/training.json")
    table = json.loads(file.read_text())
    assert table["columns"] == ["best", "median", "worst", "step"]
    assert [row[-1] for row in table["data"]] == [2, 4]
