"""Schedules of runs that resume or are made longer: in a script, by Lightning's trainer and by lit_rl's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_runs import SaveAt, fit, quiet_trainer
from torch.optim import Optimizer
from torch.optim.lr_scheduler import (
    ChainedScheduler,
    CosineAnnealingLR,
    CyclicLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    OneCycleLR,
    PolynomialLR,
    SequentialLR,
    StepLR,
)

from lit_rl.data import Sorting, SortingPolicy, SortingReward
from lit_rl.errors import UsageError
from lit_rl.modules import GRPO, UpdateConfig
from lit_rl.types import Sampling

RATE = 0.02


class Noted(GRPO):
    """Notes rates and first moments' decay of each rollout's updates."""

    rates: list[tuple[float, float]]

    def on_train_start(self) -> None:
        super().on_train_start()
        self.rates = []

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        optimizer: Any = self.optimizers()
        self.rates += [(group["lr"], group["betas"][0]) for group in optimizer.param_groups]


def module(schedule: Callable[[Optimizer], Any] | None, rollouts: int, lr: float = RATE) -> Noted:
    return Noted(
        SortingPolicy(init_seed=0),
        rewards=[SortingReward()],
        sampling=Sampling(num_samples=4, max_tokens=3),
        update=UpdateConfig(optimizer=lambda of: torch.optim.AdamW(of, lr=lr), lr_scheduler=schedule),
        max_rollouts=rollouts,
    )


def data() -> Sorting:
    return Sorting([[1, 0, 2], [3, 2, 4], [0, 4, 1]], batch_size=1)


def weights(of: Noted) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in of.policy.parameters()])


def warm_up_and_cosine(optimizer: Optimizer, length: int) -> SequentialLR:
    parts = [LinearLR(optimizer, 0.1, total_iters=2), CosineAnnealingLR(optimizer, length - 2)]
    return SequentialLR(optimizer, parts, milestones=[2])


def chained(optimizer: Optimizer, length: int) -> ChainedScheduler:
    return ChainedScheduler([LinearLR(optimizer, 1.0, 0.2, length), StepLR(optimizer, 3)], optimizer)


LENGTHS: dict[str, Callable[[Optimizer, int], Any]] = {
    "one cycle": lambda o, n: OneCycleLR(o, 0.1, total_steps=n + 1),
    "cosine": lambda o, n: CosineAnnealingLR(o, n),
    "lambda": lambda o, n: LambdaLR(o, lambda step: 1 - 0.9 * step / n),
    "factors": lambda o, n: MultiplicativeLR(o, lambda step: 1 - 1 / (n + step)),
    "sequential": warm_up_and_cosine,
    "chained": chained,
    "exponential": lambda o, n: ExponentialLR(o, 0.1 ** (1 / n)),
    "cyclic": lambda o, n: CyclicLR(o, 0.001, 0.1, 2, cycle_momentum=True),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_a_finished_run_made_longer_continues_on_the_longer_schedule(name: str, tmp_path: Path) -> None:
    """Rates, and momentum where a schedule moves it, are those of a run that was long from the start."""
    make = LENGTHS[name]
    whole = module(partial(make, length=7) if name in ("sequential", "chained") else lambda o: make(o, 7), 7)
    fit(whole, tmp_path, data=data())
    ended = SaveAt(4, tmp_path / "4.ckpt")
    fit(module(lambda o: make(o, 4), 4), tmp_path, data=data(), callbacks=[ended])
    longer = module(lambda o: make(o, 7), 7)
    fit(longer, tmp_path, data=data(), ckpt_path=str(ended.path))
    assert longer.clock.count == 7
    assert longer.rates == whole.rates[4:]


@pytest.mark.parametrize("name", LENGTHS)
def test_a_run_that_is_resumed_without_a_change_ends_with_the_same_bits(name: str, tmp_path: Path) -> None:
    def make() -> Noted:
        return module(lambda o: LENGTHS[name](o, 7), 7)

    whole, resumed, saved = make(), make(), SaveAt(3, tmp_path / "3.ckpt")
    fit(whole, tmp_path, data=data(), callbacks=[saved])
    fit(resumed, tmp_path, data=data(), ckpt_path=str(saved.path))
    assert resumed.rates == whole.rates[3:]
    assert torch.equal(weights(resumed), weights(whole))


UNFIT: dict[str, tuple[Callable[[Optimizer], Any], str]] = {
    "cosine": (lambda o: CosineAnnealingLR(o, 4), "fell from 0.02 to 0 in the 4 rollouts .* rise again to 0.01 in"),
    "sequential": (lambda o: warm_up_and_cosine(o, 4), "SequentialLR fell .* rise again to 0.02 in"),
    "polynomial": (lambda o: PolynomialLR(o, 4), "fell from 0.02 to 0 in the 4 rollouts .* stay there"),
    "line": (lambda o: LambdaLR(o, lambda step: 1 - step / 4), r"makes a rate negative \(-0.01.* after 7 rollouts"),
}


@pytest.mark.parametrize(("name", "in_script"), [*((name, False) for name in UNFIT), ("cosine", True)])
def test_a_schedule_that_does_not_last_is_refused_before_anything_is_learned(
    name: str, in_script: bool, tmp_path: Path
) -> None:
    """A new module with a checkpoint, and the module at hand in a second fit; the shorter run was right."""
    make, message = UNFIT[name]
    saved = SaveAt(4, tmp_path / "4.ckpt")
    first = module(make, 4)
    fit(first, tmp_path, data=data(), callbacks=[saved])
    longer = first if in_script else module(make, 7)
    longer.max_rollouts = 7
    options: dict[str, Any] = {} if in_script else {"ckpt_path": str(saved.path)}
    with pytest.raises(UsageError, match=rf"^update\.lr_scheduler: .*{message}"):
        fit(longer, tmp_path, data=data(), **options)
    assert longer.clock.count == 4
    assert torch.equal(weights(longer), torch.cat([v.flatten() for v in torch.load(saved.path)["state_dict"].values()]))


@pytest.mark.parametrize("longer", [False, True])
def test_a_second_fit_in_a_script_continues_the_schedule(longer: bool, tmp_path: Path) -> None:
    """The same trainer or another one, from what is in memory: optimizers are new, the run is not."""
    run = module(lambda o: LinearLR(o, 1.0, 0.1, 7), 4)
    trainer = quiet_trainer(tmp_path)
    trainer.fit(run, data())
    first, run.max_rollouts = run.rates, 7
    (quiet_trainer(tmp_path) if longer else trainer).fit(run, data())
    assert [rate for rate, _ in first + run.rates] == pytest.approx([RATE * (1 - 0.9 * i / 7) for i in range(7)])


def test_another_schedule_is_in_force_from_the_resume_on(tmp_path: Path) -> None:
    """A cycle's first rate, which torch keeps as initial_lr, is not taken for the optimizer's."""
    saved = SaveAt(2, tmp_path / "2.ckpt")
    fit(module(lambda o: OneCycleLR(o, 0.1, total_steps=9), 4), tmp_path, data=data(), callbacks=[saved])
    other = module(lambda o: StepLR(o, 3, 0.5), 5)
    fit(other, tmp_path, data=data(), ckpt_path=str(saved.path))
    assert [rate for rate, _ in other.rates] == [0.1, 0.05, 0.05]


def test_the_checkpoints_rate_stays_and_the_given_schedule_divides_it(tmp_path: Path) -> None:
    saved = SaveAt(2, tmp_path / "2.ckpt")
    fit(module(None, 2), tmp_path, data=data(), callbacks=[saved])
    later = module(lambda o: LambdaLR(o, lambda step: 1 / (1 + step)), 4, lr=0.5)
    fit(later, tmp_path, data=data(), ckpt_path=str(saved.path))
    assert [rate for rate, _ in later.rates] == pytest.approx([RATE / 3, RATE / 4])
