"""Agreement of updates with advantages, and of these with rewards: the sign of each, from real runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support.ill_runs import FlippedAdvantages, FlippedLoss
from support.slow_cases import slow_but
from support.small_runs import build_module, fit

from lit_rl.modules import Objective
from lit_rl.modules.rollout_metrics import agreement_with_rewards, measure_move, moves_measured
from lit_rl.training.ranks import Means
from lit_rl.types import Experience

LOSS, ADVANTAGES = "update/advantage_agreement", "update/reward_agreement"


def measured(tokenizer: str, folder: Path, **options: Any) -> dict[str, float]:
    """Means over four rollouts."""
    settings = {"optimizer": partial(torch.optim.Adam, lr=1e-3), "gradient_clip_norm": 1.0} | options
    module: Any = build_module(tokenizer, max_rollouts=4, **settings)
    found: list[dict[str, float]] = []
    log = module.log_rollout
    module.log_rollout = lambda *given: found.append(log(*given)) or found[-1]
    fit(module, folder)
    return {name: sum(one[name] for one in found) / len(found) for name in (LOSS, ADVANTAGES)}


@pytest.mark.parametrize("updates", slow_but(({},), [{}, {"epochs": 2, "minibatches": 2}]), ids=["one update", "four"])
@pytest.mark.parametrize(
    ("options", "of_loss", "of_advantages"),
    [
        ({}, 1, 1),
        ({"objective": Objective(loss=FlippedLoss())}, -1, 1),
        ({"baseline": FlippedAdvantages()}, 1, -1),
        ({"optimizer": partial(torch.optim.SGD, lr=0.1, maximize=True)}, -1, 1),
    ],
    ids=["healthy", "loss", "advantages", "optimizer"],
)
def test_a_flipped_sign_is_measured_where_it_is(
    byte_tokenizer: str,
    tmp_path: Path,
    options: dict[str, Any],
    of_loss: int,
    of_advantages: int,
    updates: dict[str, int],
) -> None:
    found = measured(byte_tokenizer, tmp_path, **updates, **options)
    assert found[LOSS] * of_loss > 0.4
    assert found[ADVANTAGES] == pytest.approx(of_advantages), "a group's mean makes it exact"


def test_rows_are_compared_with_their_group_and_without_groups_with_all(
    experience_of: Any,
) -> None:
    """Group 0: rewards 0, 4 around 2 and advantages 1, 2, so (-2 + 4) / (2 + 4); group 1: (-1 * -3 + 1 * 1) / 4."""
    rewards, advantages = [0.0, 4.0, 5.0, 7.0], [1.0, 2.0, -3.0, 1.0]
    for groups, expected in (([0, 0, 1, 1], (2 + 4) / (6 + 4)), ([0, 1, 2, 3], (-4 + 0 + -3 + 3) / (4 + 0 + 3 + 3))):
        means = Means()
        agreement_with_rewards(means, experience_of(rewards, advantages, groups))
        assert means.local()[ADVANTAGES] == pytest.approx(expected)


def test_the_move_is_weighed_by_the_advantage(experience_of: Any) -> None:
    """Changes 0.5, -1, 2 and 1 under advantages 2, 3, -1 and 0: (1 - 3 - 2) / 6; the last row does not count."""
    micro: Experience = experience_of([0.0] * 4, [2.0, 3.0, -1.0, 0.0], [0] * 4)
    before = torch.tensor([[-3.0], [-2.0], [-4.0], [-1.0]])
    change = torch.tensor([[0.5], [-1.0], [2.0], [1.0]])

    class After:
        def logprobs(self, completions: Any, temperature: float) -> torch.Tensor:
            assert temperature == 0.7
            return before + change

    means = Means()
    measure_move(means, After(), micro, before, 0.7)  # type: ignore[arg-type]
    assert means.local()[LOSS] == pytest.approx(-4 / 6)


def test_later_only_one_rollout_in_four_is_measured() -> None:
    assert [moves_measured(number) for number in range(24)] == [True] * 17 + [False] * 3 + [True] + [False] * 3


@pytest.fixture
def experience_of() -> Any:
    """Rows of two tokens with the same advantage."""
    from support.completions import batch

    def build(rewards: list[float], advantages: list[float], groups: list[int]) -> Experience:
        from dataclasses import replace

        completions = batch(["a"] * len(rewards)).trim()
        completions = replace(completions, group_ids=torch.tensor(groups))
        column = torch.tensor(advantages)[:, None] * completions.completion_mask
        return Experience(completions, torch.tensor(rewards), torch.ones(len(rewards), dtype=torch.bool), column)

    return build
