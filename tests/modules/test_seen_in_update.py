"""What an update saw of each token is kept for callbacks, row by row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from support.small_runs import fit
from support.two_turns import rows_of

from lit_rl.losses import PolicyGradient
from lit_rl.models import SeparateCritic
from lit_rl.modules import GRPO, PPO, REINFORCE, Objective, RolloutModule
from lit_rl.modules.minibatches import idle
from lit_rl.rollout import FinishedRollout, Rollout
from lit_rl.types import Experience

Make = Callable[..., RolloutModule]


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


def test_in_the_first_update_every_row_is_where_it_was_sampled(make_module: Make, tmp_path: Path) -> None:
    """Micro-batches are sorted by length: a row in another's place would show."""
    sampled, seen, _ = watch(make_module, tmp_path)
    assert torch.allclose(sampled.double(), seen.double(), atol=1e-5)


def test_in_the_second_epoch_the_policy_has_moved(make_module: Make, tmp_path: Path) -> None:
    sampled, seen, _ = watch(make_module, tmp_path, epochs=2)
    assert (sampled - seen).abs().max() > 1e-3


def test_rows_that_were_not_trained_were_not_seen(make_module: Make, tmp_path: Path) -> None:
    """Three problems of four rows; those whose advantage is 0 skip the forward pass."""
    _, _, watched = watch(make_module, tmp_path)
    trained = (watched.experience.advantages != 0).any(-1)
    seen = watched.seen["logprobs"].isfinite().any(-1)
    assert torch.equal(seen, trained)


def test_entropy_is_kept_where_it_is_computed(make_module: Make, tmp_path: Path) -> None:
    _, _, watched = watch(make_module, tmp_path, objective=Objective(entropy_coef=0.01))
    entropy, mask = watched.seen["entropy"], watched.experience.loss_mask
    assert (entropy[mask] > 0).all()


IN_LOSS, IN_REWARD = Objective(kl_coef=0.1), Objective(kl_coef=0.1, kl_in="reward", kl_kind="k1")
CASES: dict[str, tuple[type[RolloutModule], dict[str, Any], set[str]]] = {
    "grpo": (GRPO, {}, set()),
    "grpo, two passes": (GRPO, {"epochs": 2, "mask_truncated": True}, {"old_logprobs"}),
    "grpo, KL in the loss": (GRPO, {"objective": IN_LOSS}, {"ref_logprobs"}),
    "grpo, KL in the reward": (GRPO, {"objective": IN_REWARD}, {"old_logprobs", "ref_logprobs", "token_rewards"}),
    "ppo": (PPO, {"critic": SeparateCritic}, {"token_rewards", "old_values", "returns"}),
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
    row = idle(experience)
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
