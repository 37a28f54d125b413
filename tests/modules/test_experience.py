"""Experience is made once, complete, and holds nothing that was not measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_runs import fit
from support.two_turns import rows_of

from lit_rl.losses import PolicyGradient
from lit_rl.models import SeparateCritic
from lit_rl.modules import GRPO, PPO, REINFORCE, Objective, RolloutModule
from lit_rl.modules.minibatches import idle
from lit_rl.rollout import Rollout
from lit_rl.types import Experience

Make = Callable[..., RolloutModule]
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
