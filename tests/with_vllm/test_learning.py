"""Runs that learn on the embedded task while vLLM samples, in the trainer's process and on a server: some minutes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.vllm_real import Server

import lit_rl.cli.main  # noqa: F401  # short class names
from lit_rl.callbacks import ExecutionEvaluation
from lit_rl.cli.main import Cli

CONFIGS = Path(__file__).parents[2] / "configs"
GREEDY, SAMPLED = "val/basics/greedy/pass@1", "val/basics/sampled/pass@1"


def shares(cli: Any) -> dict[str, float]:
    return {name: float(cli.trainer.callback_metrics[name]) for name in (GREEDY, SAMPLED)}


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, float]]]:
    """Folder of a policy that imitates flawed demonstrations, and its pass@1."""
    folder, before = tmp_path_factory.mktemp("warm"), Path.cwd()
    os.chdir(folder)
    cli = Cli(["fit", "--config", str(CONFIGS / "basics_sft.yaml"), "--trainer.logger=false"])
    cli.model.policy.save_pretrained(folder / "model")
    cli.trainer.callbacks.append(ExecutionEvaluation())
    cli.trainer.limit_val_batches = 1.0
    cli.trainer.validate(cli.model, cli.datamodule, verbose=False)
    yield folder / "model", shares(cli)
    os.chdir(before)


def learn(model: Path, *engine: str) -> tuple[dict[str, float], Any]:
    """Forty rollouts, none of which may be off by more than rounding."""
    short = ["--model.max_rollouts=40", "--trainer.val_check_interval=40", "--trainer.logger=false"]
    check = ["--model.collect.sampler_check.stop=true", "--model.collect.sampler_check.largest_gap=0.0001"]
    start = ["--config", str(CONFIGS / "basics_grpo.yaml"), f"--model.policy.model={model}"]
    cli = Cli(["fit", *start, *short, *check, *engine])
    return shares(cli), cli.model


@pytest.mark.slow
def test_a_run_learns_through_the_colocated_engine(warm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model, before = warm
    after, module = learn(
        model,
        "--model.collect.engine=lit_rl.engines.VLLM",
        "--model.collect.engine.cache_gigabytes=0.2",
        "--model.collect.engine.eager=true",
    )
    print(f"pass@1 {before} -> {after}")
    assert after[GREEDY] - before[GREEDY] >= 0.2 and after[SAMPLED] - before[SAMPLED] >= 0.2
    assert module.sampler.engine.arrivals == 41  # one before each rollout, one before the last validation


@pytest.mark.slow
def test_a_run_learns_through_a_server(warm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model, before = warm
    server = Server(model, most_tokens=256)
    try:
        where = [f"--model.collect.engine.url={server.url}", "--model.collect.engine.folder=handed_over"]
        after, module = learn(model, "--model.collect.engine=lit_rl.engines.VLLMServer", *where)
    finally:
        server.stop()
    print(f"pass@1 {before} -> {after}")
    assert after[GREEDY] - before[GREEDY] >= 0.2 and after[SAMPLED] - before[SAMPLED] >= 0.2
    assert module.sampler.engine.arrivals == 41
