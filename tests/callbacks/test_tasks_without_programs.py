"""What is measured of tasks that run no programs: rewards, and no share of programs that pass."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import lit_rl.cli.main  # noqa: F401  # short class names
from lit_rl import evaluate
from lit_rl.callbacks import ExecutionEvaluation
from lit_rl.callbacks.tensorboard_layout import compared_metrics
from lit_rl.cli.main import Cli
from lit_rl.data import Sorting
from lit_rl.models import SortingPolicy
from lit_rl.reports.runs import read_curves
from lit_rl.types import Sampling

CONFIGS = Path(__file__).parents[2] / "configs"
OF_PROGRAMS = ("pass", "verdict", "program", "format", "sandbox")


@pytest.mark.parametrize(
    ("config", "samplings"), [("sorting_rewards", ["greedy", "sampled"]), ("corridor_ppo", ["greedy"])]
)
def test_a_toy_run_logs_rewards_and_nothing_of_programs(
    config: str,
    samplings: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    short = ["--model.max_rollouts", "2", "--trainer.val_check_interval", "1", "--model.sampling.num_samples", "2"]
    cli = Cli(["fit", "--config", str(CONFIGS / f"{config}.yaml"), *short])
    logged = set(read_curves(tmp_path / "runs"))
    assert {"reward/mean", *(f"val/{name}/reward/mean" for name in samplings)} <= logged
    assert not [name for name in logged if any(word in name for word in OF_PROGRAMS)]

    (callback,) = [one for one in cli.trainer.callbacks if isinstance(one, ExecutionEvaluation)]
    promised = set(callback.metric_names(cli.trainer, cli.model))
    assert promised <= logged
    rest = {name.rpartition("/")[2] for name in logged - promised if name.startswith("val/")}
    assert rest == {cli.model.rewards.terms[0].name, "invalid_fraction"}, "what only the rewards know is not promised"
    assert compared_metrics(cli.trainer, cli.model) == [
        *(f"val/{name}/reward/mean" for name in samplings),
        "reward/mean",
    ]

    said = capsys.readouterr().out
    assert "validation after rollout 2: greedy reward mean" in said
    assert "pass" not in said


def test_an_evaluation_without_programs_has_no_verdicts() -> None:
    torch.manual_seed(0)
    policy = SortingPolicy(vocabulary_size=5, length=3, embedding_size=4)
    measured = evaluate(policy, Sorting().problems("validation"), sampling=Sampling(max_tokens=3))
    assert not measured.verdicts
    assert all(value != value for value in measured.pass_at.values()), "NaN: nothing could be judged"
