"""A run around its rollouts: rows and learning rates of updates, notices, plateaus, checkpoints as modules."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.cli import ReduceLROnPlateau
from support.late_verdicts import Late
from support.small_runs import EvenBytes, SaveAt, Words, at_start, fit, weights, whole_and_resumed
from support.tiny_models import TINY_QWEN2

from lit_rl.data.task import Split
from lit_rl.engines.in_process import InProcess
from lit_rl.errors import UsageError
from lit_rl.execution import Check, Outcome, StdioTests, TokenTarget, UnitTests
from lit_rl.execution.program import ExtractedProgram
from lit_rl.models import CausalLM, SeparateCritic
from lit_rl.modules import GRPO, PPO, Distillation, RolloutModule
from lit_rl.modules.minibatches import Minibatch
from lit_rl.rewards import LintReward, TestsReward
from lit_rl.rewards.term import RewardTerm
from lit_rl.types import Problem, Sampling

Make = Callable[..., RolloutModule]


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


class ByCases(TestsReward):
    """Pays by cases, which its base reads only in one mode."""


class LintByCases(LintReward):
    """Extends a term that never reads them."""


class WithoutCases(EvenBytes):
    needs_every_case = False


@pytest.mark.parametrize(
    ("rewards", "stops"),
    [
        ([TestsReward(), LintReward()], True),
        ([TestsReward(mode="graded")], True),
        ([TestsReward(mode="fraction")], False),
        ([TestsReward(), EvenBytes()], False),  # a user's term may read every case
        ([ByCases()], False),  # and so may one that extends a term which does not
        ([TestsReward(), LintByCases()], False),
        ([WithoutCases()], True),
    ],
)
def test_cases_after_a_failure_run_only_where_a_reward_may_read_them(
    make_module: Make, tmp_path: Path, rewards: list[RewardTerm], stops: bool
) -> None:
    asked = []

    @dataclass(frozen=True)
    class Written(StdioTests):
        def extract(self, text: str, *_: Any, **__: Any) -> ExtractedProgram:
            return ExtractedProgram(repr(text), 0, len(text.encode()), False)

    class Recording(Late):
        def submit(self, program: str, check: Check) -> Future[Outcome]:
            asked.append(check)
            return super().submit(program, check)

    class Echo(Words):
        def load_problems(self, split: Split) -> list[Problem]:
            return [replace(one, check=Written((("", ""),))) for one in super().load_problems(split)]

    fit(make_module(max_rollouts=1, sandbox=Recording, rewards=rewards), tmp_path, data=Echo(batch_size=3))
    assert {check.stop_at_failure for check in asked} == {stops}


def test_a_part_without_a_trainable_weight_is_refused(make_module: Make, byte_tokenizer: str, tmp_path: Path) -> None:
    """Frozen by hand, or as a teacher that is the same object."""
    frozen = at_start(make_module(max_rollouts=1))
    frozen.policy.requires_grad_(False)
    valued = at_start(make_module(PPO, critic=SeparateCritic(), max_rollouts=1))
    valued.critic.requires_grad_(False)
    policy = CausalLM(config=TINY_QWEN2, tokenizer=byte_tokenizer)
    sampling = Sampling(num_samples=2, max_tokens=2)
    taught = Distillation(policy, [EvenBytes()], teacher=policy, max_rollouts=1, sampling=sampling)
    for module, part in ((taught, "policy"), (frozen, "policy"), (valued, "critic")):
        with pytest.raises(UsageError, match=f"no weight of the {part} is trainable"):
            fit(module, tmp_path)


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
    schedule = partial(ReduceLROnPlateau, monitor="val/rising", factor=0.1, patience=0, threshold=0.0)
    make = partial(make_module, Rising, lr_scheduler=schedule, max_rollouts=7)
    module, rest = whole_and_resumed(make, tmp_path, 5, **validation)
    assert module.rates == pytest.approx([0.5] * 4 + [0.05] * 2 + [0.005])
    assert rest.rates == pytest.approx([0.05, 0.005])
    assert torch.equal(weights(rest), weights(module))


def test_validation_has_the_token_limit_of_training_unless_it_has_its_own(make_module: Make) -> None:
    sampling, own = Sampling(num_samples=4, max_tokens=7), Sampling(temperature=0.5, max_tokens=9)
    assert make_module(sampling=sampling).validation_sampling == {"greedy": Sampling(temperature=0.0, max_tokens=7)}
    assert make_module(sampling=sampling, validation_sampling={"own": own}).validation_sampling == {"own": own}


@pytest.mark.parametrize("beyond", [0, -1])
def test_a_token_limit_beyond_the_policys_positions_is_said(make_module: Make, tmp_path: Path, beyond: int) -> None:
    module = make_module(max_rollouts=1)
    module.policy.load()
    module.sampling = replace(module.sampling, max_tokens=module.policy.codec.max_positions + beyond)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(module, tmp_path)
    said = [str(one.message) for one in caught if "positions" in str(one.message)]
    assert len(said) == (beyond == 0) and all("lower sampling.max_tokens" in one for one in said)


def test_load_from_checkpoint_gives_the_weights_of_the_checkpoint(make_module: Make, tmp_path: Path) -> None:
    module = make_module(PPO, max_rollouts=2, critic=SeparateCritic())
    fit(module, tmp_path, callbacks=[SaveAt(2, tmp_path / "two.ckpt")])
    parts: dict[str, Any] = {"policy": make_module().policy, "rewards": [EvenBytes()], "critic": SeparateCritic()}
    loaded = PPO.load_from_checkpoint(tmp_path / "two.ckpt", **parts)
    assert loaded.clock.count == 2
    theirs = dict(module.named_parameters())
    assert loaded.state_dict().keys() == module.state_dict().keys()
    assert all(torch.equal(ours, theirs[name]) for name, ours in loaded.named_parameters())


class Rows(GRPO):
    """Notes of each update the rollout, the rows and the rate."""

    def update_once(self, experience: Any, minibatch: Minibatch, *args: Any) -> float | None:
        self.updates: list[tuple[int, list[int], float]] = getattr(self, "updates", [])
        rate = self.optimizers().param_groups[0]["lr"]  # type: ignore[union-attr]
        self.updates.append((self.clock.count, minibatch.rows.tolist(), rate))
        return super().update_once(experience, minibatch, *args)


def test_rows_are_dealt_once_a_rollout_and_minibatches_come_in_another_order(make_module: Make, tmp_path: Path) -> None:
    """Two rollouts of twelve rows, five epochs of three minibatches."""
    module: Any = make_module(Rows, epochs=5, minibatches=3, max_rollouts=2)
    fit(module, tmp_path)
    assert [(step, len(rows)) for step, rows, _ in module.updates] == [(0, 4)] * 15 + [(1, 4)] * 15
    orders = []
    for rollout in range(2):
        updates = [tuple(rows) for _, rows, _ in module.updates[15 * rollout : 15 * (rollout + 1)]]
        first, *later = (updates[i : i + 3] for i in range(0, 15, 3))
        assert sorted(row for rows in first for row in rows) == list(range(12))
        assert all(sorted(epoch) == sorted(first) for epoch in later)
        orders.append(first)
        assert any(epoch != first for epoch in later)
    assert orders[0] != orders[1] and [row for rows in orders[0] for row in rows] != list(range(12))


def test_the_schedule_moves_once_a_rollout(make_module: Make, tmp_path: Path) -> None:
    """A rate of 0.5 / (1 + rollouts), the same for all four updates of a rollout."""
    schedule = partial(torch.optim.lr_scheduler.LambdaLR, lr_lambda=lambda step: 1 / (1 + step))
    module: Any = make_module(Rows, epochs=2, minibatches=2, max_rollouts=3, lr_scheduler=schedule)
    fit(module, tmp_path)
    found = [(rollout, rate) for rollout, _, rate in module.updates]
    assert found == [(rollout, 0.5 / (1 + rollout)) for rollout in range(3) for _ in range(4)]


def test_the_engine_is_told_of_every_update_and_the_policy_counts_them(make_module: Make, tmp_path: Path) -> None:
    told: list[int] = []

    class Told(InProcess):
        def mark_weights_stale(self) -> None:
            told.append(module.policy.version)

    module = make_module(engine=Told(), epochs=2, minibatches=2, max_rollouts=2)
    assert fit(module, tmp_path).global_step == 8
    assert told == list(range(1, 9))


def test_updates_end_before_the_first_one_that_starts_too_far_away(make_module: Make, tmp_path: Path) -> None:
    """One large step is further than the limit allows, so it is the only one; its own start is where it sampled."""
    options: dict[str, Any] = {"epochs": 3, "minibatches": 3, "max_rollouts": 1}
    options["optimizer"] = lambda params: torch.optim.SGD(params, lr=50.0)
    assert fit(make_module(**options), tmp_path).global_step == 9
    held = make_module(**options, max_kl=1e-6)
    trainer = fit(held, tmp_path)
    assert trainer.global_step == 1
    assert all(p.grad is None for p in held.policy.parameters()), "the next rollout would begin with these gradients"
    assert trainer.callback_metrics["policy/approximate_kl"] > 1e-6
