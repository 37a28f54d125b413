"""Between one rollout and the next: which rows, in which order, at which learning rate, with which callbacks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from support.small_runs import SaveAt, Scored, fit
from support.two_turns import rows_of

from lit_rl.engines.in_process import InProcess
from lit_rl.losses import PolicyGradient
from lit_rl.models import SeparateCritic
from lit_rl.modules import GRPO, PPO, REINFORCE, Objective, RolloutModule
from lit_rl.modules.minibatches import Minibatch, zero_weight_row
from lit_rl.rollout import FinishedRollout, Rollout
from lit_rl.types import Experience

Make = Callable[..., RolloutModule]


class Rows(GRPO):
    """Notes the rows and the learning rate of each update, by rollout."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rows: list[tuple[int, list[int]]] = []
        self.rates: list[tuple[int, float]] = []

    def update_once(self, experience: Any, minibatch: Minibatch, *args: Any) -> float | None:
        optimizer: Any = self.optimizers()
        self.rows.append((self.clock.count, minibatch.rows.tolist()))
        self.rates.append((self.clock.count, optimizer.param_groups[0]["lr"]))
        return super().update_once(experience, minibatch, *args)


def test_rows_are_dealt_once_a_rollout_and_minibatches_come_in_another_order(make_module: Make, tmp_path: Path) -> None:
    """Two rollouts of twelve rows, five epochs of three minibatches."""
    module: Any = make_module(Rows, epochs=5, minibatches=3, max_rollouts=2)
    fit(module, tmp_path)
    assert [(step, len(rows)) for step, rows in module.rows] == [(0, 4)] * 15 + [(1, 4)] * 15
    orders = []
    for rollout in range(2):
        updates = [tuple(rows) for _, rows in module.rows[15 * rollout : 15 * (rollout + 1)]]
        first, *later = (updates[i : i + 3] for i in range(0, 15, 3))
        assert sorted(row for rows in first for row in rows) == list(range(12))
        assert all(sorted(epoch) == sorted(first) for epoch in later)
        orders.append(first)
        assert any(epoch != first for epoch in later)
    assert orders[0] != orders[1] and [row for rows in orders[0] for row in rows] != list(range(12))


def test_the_schedule_moves_once_a_rollout(make_module: Make, tmp_path: Path) -> None:
    """A rate of 0.5 / (1 + rollouts), the same for all four updates of a rollout."""

    def schedule(optimizer: torch.optim.Optimizer) -> Any:
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))

    module: Any = make_module(Rows, epochs=2, minibatches=2, max_rollouts=3, lr_scheduler=schedule)
    fit(module, tmp_path)
    assert module.rates == [(rollout, 0.5 / (1 + rollout)) for rollout in range(3) for _ in range(4)]


def test_a_schedule_that_moves_before_the_first_update_is_not_warned_about(make_module: Make, tmp_path: Path) -> None:
    """The rollout had nothing to learn; torch would blame the order of calls."""
    module: Any = make_module(
        rewards=[Scored(1.0)],
        max_rollouts=1,
        lr_scheduler=lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda step: 1.0),
    )
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fit(module, tmp_path)
    assert module.lr_schedulers().last_epoch == 1
    assert not [str(one.message) for one in told if "lr_scheduler.step" in str(one.message)]


def test_the_engine_is_told_of_every_update_and_the_policy_counts_them(make_module: Make, tmp_path: Path) -> None:
    class Told(InProcess):
        def __init__(self) -> None:
            super().__init__()
            self.of: list[int] = []

        def mark_stale(self) -> None:
            self.of.append(module.policy.version)

    engine = Told()
    module = make_module(engine=engine, epochs=2, minibatches=2, max_rollouts=2)
    assert fit(module, tmp_path).global_step == 8
    assert engine.of == list(range(1, 9))


def test_a_resumed_run_goes_on_counting_its_weights(make_module: Make, tmp_path: Path) -> None:
    """Also from a checkpoint that was made before they were counted: then optimizer steps are what it has."""
    options: dict[str, Any] = {"minibatches": 2, "max_rollouts": 2}
    saved = SaveAt(1, tmp_path / "one.ckpt")
    fit(make_module(**options), tmp_path, callbacks=[saved])
    checkpoint = torch.load(saved.path, weights_only=False)
    assert checkpoint.pop("policy_version") == 2
    torch.save(checkpoint, tmp_path / "old.ckpt")
    for name in ("one.ckpt", "old.ckpt"):
        module = make_module(**options)
        fit(module, tmp_path, ckpt_path=str(tmp_path / name))
        assert module.policy.version == 4


def steps(make_module: Make, folder: Path, **options: Any) -> dict[str, torch.Tensor]:
    """Distance that policy and critic went in one rollout of plain SGD at a rate of 0.01."""
    common: dict[str, Any] = {"max_rollouts": 1, "critic_gradient_clip_norm": None}
    common["optimizer"] = lambda params: torch.optim.SGD(params, lr=0.01)
    module: Any = make_module(PPO, critic=SeparateCritic(), **(common | options))
    module.policy.load()
    module.critic.load(module.policy)

    def now() -> dict[str, torch.Tensor]:
        groups = module.parameter_groups()
        return {name: torch.cat([p.detach().flatten() for p in group]).clone() for name, group in groups.items()}

    before = now()
    fit(module, folder)
    return {name: value - before[name] for name, value in now().items()}


def test_the_critic_s_own_rate_moves_the_critic_alone(make_module: Make, tmp_path: Path) -> None:
    """Three times the rate is a step of three times the length."""
    usual, other = steps(make_module, tmp_path), steps(make_module, tmp_path, critic_learning_rate=0.03)
    assert usual["critic"].norm() > 0
    torch.testing.assert_close(other["critic"], 3 * usual["critic"])
    torch.testing.assert_close(other["policy"], usual["policy"])


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


class Watch(pl.Callback):
    """Keeps what the last rollout came to."""

    def on_rollout_end(self, trainer: Any, module: Any, finished: FinishedRollout) -> None:
        self.completions, self.experience = finished.rollout.completions, finished.experience
        self.seen = module.trace.found


def watch(make_module: Make, folder: Path, **options: Any) -> tuple[torch.Tensor, torch.Tensor, Watch]:
    """Log-probabilities that the sampler reported and that the last update saw, where tokens were trained."""
    watch = Watch()
    fit(make_module(max_rollouts=1, microbatch_size=5, **options), folder, callbacks=[watch])
    trained = watch.experience.loss_mask & (watch.experience.advantages != 0)
    assert trained.any() and watch.seen["logprobs"].shape == trained.shape
    return watch.completions.sampler_logprobs[trained], watch.seen["logprobs"][trained], watch


def test_in_the_first_update_every_trained_row_is_where_it_was_sampled(make_module: Make, tmp_path: Path) -> None:
    """Micro-batches are sorted by length: a row in another's place would show. Rows of advantage 0 are not passed."""
    sampled, seen, watched = watch(make_module, tmp_path)
    assert torch.allclose(sampled.double(), seen.double(), atol=1e-5)
    trained = (watched.experience.advantages != 0).any(-1)
    assert torch.equal(watched.seen["logprobs"].isfinite().any(-1), trained)


IN_LOSS, IN_REWARD = Objective(kl_coef=0.1), Objective(kl_coef=0.1, kl_in="reward", kl_kind="k1")
CASES: dict[str, tuple[type[RolloutModule], dict[str, Any], set[str]]] = {
    "grpo, two passes": (GRPO, {"epochs": 2, "mask_truncated": True}, {"old_logprobs"}),
    "grpo, KL in the loss": (GRPO, {"objective": IN_LOSS}, {"ref_logprobs"}),
    "grpo, KL in the reward": (GRPO, {"objective": IN_REWARD}, {"old_logprobs", "ref_logprobs", "token_rewards"}),
    "ppo, KL in the reward": (
        PPO,
        {"critic": SeparateCritic, "objective": IN_REWARD},
        {"old_logprobs", "ref_logprobs", "token_rewards", "old_values", "returns"},
    ),
    "reinforce": (REINFORCE, {}, set()),
    "reinforce, KL, two updates": (
        REINFORCE,
        {"objective": Objective(loss=PolicyGradient(), kl_coef=0.1), "minibatches": 2},
        {"old_logprobs", "ref_logprobs"},
    ),
}


def test_the_row_of_a_rank_with_nothing_to_do_has_no_weight() -> None:
    """The first row of the rollout, cut to its own length, even if another update learns from it."""
    rows = rows_of([[119], [119, 120]], [[[1, 2]], [[1, 2, 3]]])
    experience = Experience(rows, torch.ones(2), torch.tensor([True, True]), torch.ones(2, 3))
    row = zero_weight_row(experience)
    assert row.advantages.shape == (1, 2) and not row.loss_mask.any()


@pytest.mark.parametrize("case", CASES)
def test_experience_is_made_once_with_what_is_read_and_no_more(
    make_module: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    cls, options, expected = CASES[case]
    made: list[Experience] = []
    build = Experience.__init__

    def counting(self: Experience, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        made.append(self)

    class Watched(cls):  # type: ignore[misc, valid-type]
        def make_experience(self, rollout: Rollout, rewards: Any) -> Experience:
            with monkeypatch.context() as patch:
                patch.setattr(Experience, "__init__", counting)
                experience: Experience = super().make_experience(rollout, rewards)
            return experience

    given = {name: value() if isinstance(value, type) else value for name, value in options.items()}
    fit(make_module(Watched, max_rollouts=1, **given), tmp_path)
    (experience,) = made
    optional = ("old_logprobs", "ref_logprobs", "token_rewards", "old_values", "returns")
    assert {name for name in optional if getattr(experience, name) is not None} == expected
