"""Importance weights divide by the sampler's probabilities, so nothing may filter what is sampled."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lit_rl.losses import ImportanceSampling
from lit_rl.models import SeparateCritic
from lit_rl.modules import GRPO, PPO, REINFORCE, Objective, RolloutModule
from lit_rl.types import Sampling

WEIGHTED = Objective(loss=ImportanceSampling())


@pytest.mark.parametrize("filters", [{"top_k": 5}, {"top_p": 0.9}, {"top_k": 5, "top_p": 0.9}])
@pytest.mark.parametrize("cls", [GRPO, PPO, REINFORCE])
def test_filters_are_refused_beside_importance_sampling(
    make_module: Callable[..., RolloutModule], cls: type[RolloutModule], filters: dict[str, float]
) -> None:
    extra = {"critic": SeparateCritic()} if cls is PPO else {}
    sampling = Sampling(num_samples=4, max_tokens=6, **filters)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match="ImportanceSampling compares the sampler's probabilities with the policy's, got top_k="
    ):
        make_module(cls, objective=WEIGHTED, sampling=sampling, **extra)
    make_module(cls, objective=WEIGHTED, sampling=Sampling(num_samples=4, max_tokens=6), **extra)
    make_module(cls, sampling=sampling, **extra)
