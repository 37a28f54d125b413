"""Rows sampled by older weights are compared with the sampler's own log-probabilities."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.slow_cases import slow_but
from support.small_runs import Scored, fit, weights

from lit_rl.advantages import NoBaseline
from lit_rl.data import Corridor
from lit_rl.data.toys.toy_models import CorridorPolicy
from lit_rl.engines import Engine, InProcess, Session
from lit_rl.losses import (
    CISPO,
    Clipped,
    Correction,
    ImportanceSampling,
    Loss,
    MaskedBand,
    PolicyGradient,
    SequenceMask,
    Tokens,
    TruncatedWeights,
    Unclipped,
)
from lit_rl.models import Policy, SeparateCritic
from lit_rl.modules import GRPO, PPO, REINFORCE, Collect, Objective, RolloutModule, Update
from lit_rl.rollout import Rollout
from lit_rl.types import Experience, Sampling

Make = Callable[..., RolloutModule]
ONES = Scored(lambda rows: (float(text == "1") for text in rows.texts))
"""1 for each completion that is the number one."""


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


def two_tokens(folder: Path, engine: Engine, loss: Loss, rate: float, **more: Any) -> Watched:
    """Two rollouts of a policy that says one of two tokens, by plain SGD, without a baseline."""
    module = Watched(
        CorridorPolicy(num_cells=1),
        sampling=Sampling(num_samples=20, max_tokens=1),
        objective=Objective(loss=loss, correction=more.pop("correction", None)),
        baseline=NoBaseline(),
        rewards=[ONES],
        collect=Collect(engine=engine),
        update=Update(optimizer=lambda params: torch.optim.SGD(params, lr=rate), gradient_clip_norm=None, **more),
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


CORRECTIONS: dict[str, tuple[Correction, Callable[[torch.Tensor], torch.Tensor]]] = {
    "truncated": (TruncatedWeights(1.05), lambda weight: weight.clamp(max=1.05)),
    "masked": (MaskedBand(0.97, 9.0), lambda weight: weight * (weight >= 0.97)),
}


@pytest.mark.parametrize("loss", [Clipped(), Unclipped(), PolicyGradient(), CISPO(0.2, 0.2)], ids=repr)
@pytest.mark.parametrize("kind", CORRECTIONS)
def test_a_correction_weighs_every_loss_alike(tmp_path: Path, kind: str, loss: Loss) -> None:
    """With one update a rollout all of these losses have the gradient weight * reward * d log p; see step_by_hand."""
    correction, bounded = CORRECTIONS[kind]
    rate = 2.0
    module = two_tokens(tmp_path, Behind(renew_every=9), loss, rate, correction=correction)
    (_, start), (second, now) = module.seen
    assert second.completions.weights_versions == (0,) * 20 and second.old_logprobs is None
    p, q = now.softmax(0), start.softmax(0)
    weights = bounded(p / q)
    assert not torch.allclose(weights, p / q), "nothing was bounded"
    chosen = second.completions.completion_ids[:, 0].tolist()
    step = torch.stack([weights[a] * float(a == 1) * (torch.eye(2)[a] - p) for a in chosen]).mean(0)
    assert torch.allclose(module.table() - now, rate * step, atol=1e-6)


def test_later_updates_of_a_rollout_keep_the_weights_of_its_beginning(tmp_path: Path) -> None:
    """Two epochs: the ratio leads back to the rollout's beginning, and the weight from there to the sampler."""
    rate = 1.0
    module = two_tokens(tmp_path, Behind(renew_every=9), Unclipped(), rate, correction=TruncatedWeights(9.0), epochs=2)
    (_, start), (second, now) = module.seen
    assert second.old_logprobs is not None
    chosen = second.completions.completion_ids[:, 0]
    rewarded = chosen == 1  # the others move nothing, and no log-probability of theirs is computed
    assert torch.allclose(second.old_logprobs[rewarded, 0], now.log_softmax(0)[1].expand(int(rewarded.sum())))
    table = now
    for _ in range(2):
        p = table.softmax(0)
        # weight (now / start) times ratio (table / now): together the whole way from the sampler
        ratio = (now.softmax(0) / start.softmax(0)) * (p / now.softmax(0))
        terms = [ratio[a] * float(a == 1) * (torch.eye(2)[a] - p) for a in chosen.tolist()]
        table = table + rate * torch.stack(terms).mean(0)
    assert torch.allclose(module.table(), table, atol=1e-6)


@pytest.mark.parametrize("cls", slow_but((GRPO,), [GRPO, PPO, REINFORCE]))
def test_a_correction_of_fresh_rows_changes_nothing(
    make_module: Make, tmp_path: Path, cls: type[RolloutModule]
) -> None:
    """Up to the difference between sampling and the training forward, here in float64."""

    def learned(correction: Correction | None) -> torch.Tensor:
        options: dict[str, Any] = {"critic": SeparateCritic()} if cls is PPO else {}
        module = make_module(cls, objective=Objective(correction=correction), max_rollouts=2, epochs=2, **options)
        fit(module, tmp_path)
        return weights(module)

    plain = learned(None)
    assert torch.allclose(learned(TruncatedWeights()), plain, atol=1e-5)
    assert torch.allclose(learned(SequenceMask()), plain, atol=1e-9)


def test_a_correction_beside_a_loss_that_corrects_is_refused() -> None:
    with pytest.raises(ValueError, match=r"ImportanceSampling weighs by .*beside the correction MaskedBand: leave"):
        Objective(loss=ImportanceSampling(), correction=MaskedBand())


class Wrong(Correction):
    def weights(self, tokens: Tokens) -> torch.Tensor:
        return tokens.logprobs.new_ones(len(tokens.logprobs))


def test_a_correction_of_another_shape_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Wrong\.weights: expected one weight per token, \((\d+), 1\), got \(\1,\)"):
        two_tokens(tmp_path, InProcess(), PolicyGradient(), 1.0, correction=Wrong())


@pytest.mark.parametrize("filters", [{"top_k": 5}, {"top_p": 0.9}])
def test_a_correction_of_a_filtered_distribution_is_refused(make_module: Make, filters: dict[str, Any]) -> None:
    sampling = Sampling(num_samples=4, max_tokens=6, **filters)
    with pytest.raises(ValueError, match="MaskedBand compares the sampler's probabilities with the policy's, got top_"):
        make_module(objective=Objective(correction=MaskedBand()), sampling=sampling)


KLS = [(GRPO, Objective()), (PPO, Objective(kl_coef=0.1, kl_in="reward")), (REINFORCE, Objective(kl_coef=0.1))]


@pytest.mark.parametrize(
    ("cls", "kl"),
    slow_but(KLS[:1], KLS),
)
def test_fresh_copies_of_the_weights_change_nothing(
    make_module: Make, tmp_path: Path, cls: type[RolloutModule], kl: Objective
) -> None:
    """Bit for bit; weights that are one step behind do."""
    options: dict[str, Any] = {"critic": SeparateCritic()} if cls is PPO else {}

    def learned(engine: Engine) -> torch.Tensor:
        module = make_module(cls, engine=engine, objective=kl, max_rollouts=2, **copy.deepcopy(options))
        fit(module, tmp_path)
        return weights(module)

    shared = learned(InProcess())
    assert torch.equal(learned(Behind(renew_every=1)), shared)
    assert not torch.equal(learned(Behind(renew_every=2)), shared)


def test_old_rows_and_fresh_ones_in_one_rollout(make_module: Make, tmp_path: Path) -> None:
    """Fresh rows are scored by the training forward, old ones as the sampler reported them."""
    kept: list[Experience] = []

    class Mixed(GRPO):
        def collect(self, *args: Any) -> Rollout:
            rollout = super().collect(*args)
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
