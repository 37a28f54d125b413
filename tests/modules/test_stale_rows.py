"""Rows sampled by older weights are compared with the sampler's own log-probabilities."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_runs import fit, weights

from lit_rl.data import Corridor
from lit_rl.engines import Engine, InProcess, Session
from lit_rl.losses import Clipped, Unclipped
from lit_rl.models import OwnTrunk, Policy
from lit_rl.models.toy_models import CorridorPolicy
from lit_rl.modules import GRPO, PPO, REINFORCE, Objective, RolloutModule
from lit_rl.rewards.term import RewardTerm, TermScore
from lit_rl.rollout import Rollout
from lit_rl.types import Completions, Experience, Judgement, Sampling

Make = Callable[..., RolloutModule]


class Behind(Engine):
    """Samples with a copy of the weights, which is renewed after some optimizer steps only."""

    def __init__(self, renew_every: int) -> None:
        self.renew_every = renew_every
        self.copy: Policy | None = None

    @contextmanager
    def session(self, policy: Policy, sampling: Sampling) -> Iterator[Session]:
        if self.copy is None or policy.version - self.copy.version >= self.renew_every:
            self.copy = copy.deepcopy(policy)
        with InProcess().session(self.copy, sampling) as session:
            yield session


class Ones(RewardTerm):
    """1 for each completion that is the number one."""

    default_name = "ones"

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        return [TermScore(float(text == "1")) for text in completions.texts]


class Watched(GRPO):
    """Keeps what it learned from and the weights that it learned with."""

    def make_experience(self, *args: Any) -> Experience:
        self.seen: list[tuple[Experience, torch.Tensor]] = getattr(self, "seen", [])
        self.seen.append((super().make_experience(*args), self.table()))
        return self.seen[-1][0]

    def table(self) -> torch.Tensor:
        """The two logits of the one cell."""
        policy: Any = self.policy
        logits: torch.Tensor = policy.weights.weight[1].detach().clone()
        return logits


def two_tokens(folder: Path, engine: Engine, loss: Any, rate: float) -> Watched:
    """Two rollouts of a policy that says one of two tokens, by plain SGD, without a baseline."""
    module = Watched(
        CorridorPolicy(num_cells=1),
        sampling=Sampling(num_samples=20, max_tokens=1),
        objective=Objective(loss=loss),
        baseline="none",
        rewards=[Ones()],
        engine=engine,
        optimizer=lambda params: torch.optim.SGD(params, lr=rate),
        gradient_clip_norm=None,
        max_rollouts=2,
    )
    fit(module, folder, data=Corridor(num_cells=1, batch_size=1))
    return module


def step_by_hand(experience: Experience, now: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    """Minus the gradient of -mean(ratio * reward) in the two logits: d log p(a) is one-hot(a) - p."""
    p, q = now.softmax(0), before.softmax(0)
    chosen = experience.completions.completion_ids[:, 0]
    terms = [(p[a] / q[a]) * float(a == 1) * (torch.eye(2)[a] - p) for a in chosen.tolist()]
    return torch.stack(terms).mean(0)


def test_gradients_carry_the_ratio_to_the_weights_that_sampled(tmp_path: Path) -> None:
    rate = 2.0
    module = two_tokens(tmp_path, Behind(renew_every=9), Unclipped(), rate)
    (first, start), (second, now) = module.seen
    assert first.old_logprobs is None and first.completions.weights_versions == (0,) * 20
    assert second.completions.weights_versions == (0,) * 20
    assert torch.allclose(now - start, rate * step_by_hand(first, start, start), atol=1e-6)
    ratio = now.softmax(0) / start.softmax(0)
    assert abs(ratio[1] - 1) > 0.3
    assert torch.allclose(module.table() - now, rate * step_by_hand(second, now, start), atol=1e-6)
    naive = rate * step_by_hand(second, now, now)  # as if the present weights had sampled
    assert (module.table() - now - naive).abs().max() > 0.05


def test_the_clip_holds_what_has_left_its_range(tmp_path: Path) -> None:
    """The first update moved the ratio of the rewarded token beyond 1.2, so the second moves nothing."""
    module = two_tokens(tmp_path, Behind(renew_every=9), Clipped(), 2.0)
    (_, start), (_, now) = module.seen
    assert (now.softmax(0) / start.softmax(0))[1] > 1.2
    assert torch.equal(module.table(), now) and not torch.equal(now, start)


@pytest.mark.parametrize(
    ("cls", "kl"),
    [(GRPO, Objective()), (PPO, Objective(kl_coef=0.1, kl_in="reward")), (REINFORCE, Objective(kl_coef=0.1))],
)
def test_fresh_copies_of_the_weights_change_nothing(
    make_module: Make, tmp_path: Path, cls: type[RolloutModule], kl: Objective
) -> None:
    """Bit for bit; weights that are one step behind do."""
    options: dict[str, Any] = {"critic": OwnTrunk()} if cls is PPO else {}

    def learned(engine: Engine) -> torch.Tensor:
        module = make_module(cls, engine=engine, objective=kl, max_rollouts=3, **copy.deepcopy(options))
        fit(module, tmp_path)
        return weights(module)

    shared = learned(InProcess())
    assert torch.equal(learned(Behind(renew_every=1)), shared)
    assert not torch.equal(learned(Behind(renew_every=2)), shared)


def test_old_rows_and_fresh_ones_in_one_rollout(make_module: Make, tmp_path: Path) -> None:
    """Fresh rows are scored by the training forward, old ones as the sampler reported them."""
    kept: list[Experience] = []

    class Mixed(GRPO):
        def collect_training(self, *args: Any) -> Rollout:
            rollout = super().collect_training(*args)
            rows = rollout.completions
            versions = tuple(version - i % 2 for i, version in enumerate(rows.weights_versions))
            logprobs = rows.sampler_logprobs - 0.5 * rows.completion_mask
            rows = replace(rows, weights_versions=versions, sampler_logprobs=logprobs)
            return replace(rollout, completions=rows)

        def make_experience(self, *args: Any) -> Experience:
            kept.append(super().make_experience(*args))
            return kept[-1]

    module: Any = make_module(Mixed, max_rollouts=1, objective=Objective(kl_coef=0.1))
    fit(module, tmp_path)
    experience = kept[0]
    rows, old = experience.completions, experience.old_logprobs
    assert old is not None and experience.ref_logprobs is not None
    assert torch.equal(old[1::2], rows.sampler_logprobs[1::2].to(old.dtype))
    assert torch.equal(old[::2], experience.ref_logprobs[::2])  # nothing has moved yet


@pytest.mark.parametrize("filters", [{"top_k": 200}, {"top_p": 0.9}])
def test_old_rows_of_a_filtered_distribution_are_refused(
    make_module: Make, tmp_path: Path, filters: dict[str, Any]
) -> None:
    def module(engine: Engine) -> RolloutModule:
        sampling = Sampling(num_samples=4, max_tokens=6, **filters)
        return make_module(engine=engine, sampling=sampling, max_rollouts=2)

    fit(module(Behind(renew_every=1)), tmp_path)
    with pytest.raises(ValueError, match=r"12 rows were sampled by older weights.*leave both out"):
        fit(module(Behind(renew_every=2)), tmp_path)
