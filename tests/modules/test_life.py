"""Around the updates of a run: what it is given, what it is built from, and what the trainer's own switches do."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.cli import ReduceLROnPlateau
from support.late_verdicts import Late
from support.small_runs import EvenBytes, SaveAt, Words, fit, quiet_trainer, weights, whole_and_resumed

from lit_rl.data.problem_loader import ProblemLoader
from lit_rl.data.task import Split
from lit_rl.execution import StdioTests, TokenTarget, UnitTests
from lit_rl.models import SeparateCritic
from lit_rl.modules import GRPO, PPO, RolloutModule
from lit_rl.types import Problem, Sampling

Make = Callable[..., RolloutModule]


class Batches(pl.Callback):
    """Notes the problems of each rollout and of each validation batch."""

    def __init__(self) -> None:
        self.train: list[tuple[str, ...]] = []

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self.train.append(tuple(problem.task_id for problem in batch))


@pytest.mark.parametrize(("overfit", "per_epoch"), [(0.5, 2), (1, 1)])
def test_overfit_batches_repeats_the_first_batches_in_their_order(
    make_module: Make, tmp_path: Path, overfit: float, per_epoch: int, recwarn: pytest.WarningsRecorder
) -> None:
    batches = Batches()
    data = Words(batch_size=3, validation_batch_size=3)
    fit(make_module(max_rollouts=6), tmp_path, data=data, overfit_batches=overfit, callbacks=[batches])
    first = [tuple(f"train{3 * i + j}" for j in range(3)) for i in range(per_epoch)]
    assert batches.train == list(itertools.islice(itertools.cycle(first), 6))
    assert not [w for w in recwarn if "shuffling" in str(w.message)]


@pytest.mark.parametrize("forgeable", [True, False])
def test_a_run_that_trains_on_unit_tests_says_that_a_pass_can_be_forged(
    make_module: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture, forgeable: bool
) -> None:
    class Tested(Words):
        def load_problems(self, split: Split) -> list[Problem]:
            checks = [UnitTests("main()", "cpp") if forgeable else StdioTests((("", ""),)), TokenTarget()]
            return [replace(one, check=checks[i % 2]) for i, one in enumerate(super().load_problems(split))]

    caplog.set_level("INFO")
    fit(make_module(max_rollouts=1, sandbox=Late), tmp_path, data=Tested(batch_size=3))
    told = [line for line in caplog.messages if "forge a pass" in line]
    assert len(told) == forgeable
    assert all("StdioTests or CallTests" in line and "\n" not in line for line in told)


def plateau(monitor: str) -> Callable[[torch.optim.Optimizer], Any]:
    """A tenth of the rate as soon as the metric did not get smaller once."""
    return lambda optimizer: ReduceLROnPlateau(optimizer, monitor=monitor, factor=0.1, patience=0, threshold=0.0)


class Rising(GRPO):
    """A validation metric that is the number of rollouts: it never gets smaller."""

    rates: Any = None

    def on_validation_epoch_end(self) -> None:
        self.log("val/rising", float(self.clock.count))
        super().on_validation_epoch_end()

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        optimizer: Any = self.optimizers()
        self.rates = [*(self.rates or []), optimizer.param_groups[0]["lr"]]


def test_a_plateau_of_a_validation_metric_lowers_the_rate(make_module: Make, tmp_path: Path) -> None:
    """Validation after rollouts 2, 4 and 6: the first is the best, each later one costs a factor of ten."""
    validation = {"limit_val_batches": 1, "val_check_interval": 2, "check_val_every_n_epoch": None}
    make = partial(make_module, Rising, lr_scheduler=plateau("val/rising"), max_rollouts=7)
    module, rest = whole_and_resumed(make, tmp_path, 5, **validation)
    assert module.rates == pytest.approx([0.5] * 4 + [0.05] * 2 + [0.005])
    assert rest.rates == pytest.approx([0.05, 0.005])
    assert torch.equal(weights(rest), weights(module))


def test_a_plateau_of_a_training_metric_is_looked_for_after_every_rollout(make_module: Make, tmp_path: Path) -> None:
    """No row is ever without a reward: no rollout after the first one is better."""
    module: Any = make_module(Rising, lr_scheduler=plateau("reward/invalid_fraction"), max_rollouts=3)
    fit(module, tmp_path)
    assert module.rates == pytest.approx([0.5, 0.5, 0.05])


def test_validation_has_the_token_limit_of_training_unless_it_has_its_own(make_module: Make) -> None:
    sampling, own = Sampling(num_samples=4, max_tokens=7), Sampling(temperature=0.5, max_tokens=9)
    assert make_module(sampling=sampling).validation_sampling == {"greedy": Sampling(temperature=0.0, max_tokens=7)}
    assert make_module(sampling=sampling, validation_sampling={"own": own}).validation_sampling == {"own": own}


def test_a_plateau_without_a_metric_is_refused_in_one_line(make_module: Make, tmp_path: Path) -> None:
    module = make_module(lr_scheduler=lambda optimizer: torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer))
    with pytest.raises(ValueError, match=r"ReduceLROnPlateau needs a metric.*monitor"):
        fit(module, tmp_path)


@pytest.mark.parametrize("cls", [GRPO, PPO])
def test_load_from_checkpoint_gives_the_weights_of_the_checkpoint(
    make_module: Make, byte_tokenizer: str, tmp_path: Path, cls: Any
) -> None:
    options: dict[str, Any] = {"critic": SeparateCritic()} if cls is PPO else {}
    module = make_module(cls, max_rollouts=2, **options)
    fit(module, tmp_path, callbacks=[SaveAt(2, tmp_path / "two.ckpt")])
    fresh = make_module(cls, **({"critic": SeparateCritic()} if cls is PPO else {}))
    parts: dict[str, Any] = {"policy": fresh.policy, "rewards": [EvenBytes()]}
    if cls is PPO:
        parts["critic"] = fresh.critic  # type: ignore[attr-defined]
    loaded = cls.load_from_checkpoint(tmp_path / "two.ckpt", **parts)
    assert loaded.clock.count == 2
    for (name, ours), (other, theirs) in zip(loaded.named_parameters(), module.named_parameters(), strict=True):
        assert name == other
        assert torch.equal(ours, theirs)


def test_load_from_checkpoint_without_its_parts_or_a_configuration_says_what_to_give(
    make_module: Make, tmp_path: Path
) -> None:
    fit(make_module(max_rollouts=1), tmp_path, callbacks=[SaveAt(1, tmp_path / "one.ckpt")])
    with pytest.raises(
        ValueError, match=r"one\.ckpt holds no configuration.*give the algorithm's arguments, at least policy"
    ):
        GRPO.load_from_checkpoint(tmp_path / "one.ckpt")


def loader_fit(module: RolloutModule, folder: Path, loader: Any) -> None:
    """Fit on a bare loader, without a DataModule."""
    quiet_trainer(folder, max_epochs=1).fit(module, loader)


def test_resampling_takes_the_loaders_problems_where_there_is_no_datamodule(make_module: Make, tmp_path: Path) -> None:
    problems = Words().load_problems("train")
    module: Any = make_module(max_resamples=1, max_rollouts=1)
    loader_fit(module, tmp_path, ProblemLoader(problems, 3, drop_last=True))
    assert module.clock.count == 1
