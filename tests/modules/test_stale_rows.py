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


Bound = Callable[[torch.Tensor], torch.Tensor]
TRUNCATED: tuple[Correction, Bound] = TruncatedWeights(1.05), lambda weight: weight.clamp(max=1.05)
MASKED: tuple[Correction, Bound] = MaskedBand(0.97, 9.0), lambda weight: weight * (weight >= 0.97)
UNBOUND: tuple[Correction, Bound] = TruncatedWeights(9.0), lambda weight: weight


@pytest.mark.parametrize(
    ("loss", "correction", "epochs"),
    [
        (Unclipped(), None, 1),
        (Clipped(), None, 1),
        *((loss, TRUNCATED, 1) for loss in (Clipped(), PolicyGradient())),
        *((loss, MASKED, 1) for loss in (Unclipped(), CISPO(0.2, 0.2))),
        (Unclipped(), UNBOUND, 2),
    ],
    ids=lambda one: str(one[0] if isinstance(one, tuple) else one),
)
def test_gradients_carry_the_ratio_to_the_weights_that_sampled(
    tmp_path: Path, loss: Loss, correction: tuple[Correction, Bound] | None, epochs: int
) -> None:
    """By hand: minus the gradient of -mean(weight * ratio * reward); d log p(a) is one-hot(a) - p.

    Without a correction the ratio leads back to the sampler. With one it leads to the rollout's beginning, and the
    weight from there to the sampler, whatever the loss and in later updates too.
    """
    rate = 1.0 if epochs > 1 else 2.0
    given = None if correction is None else correction[0]
    module = two_tokens(tmp_path, Behind(renew_every=9), loss, rate, correction=given, epochs=epochs)
    (first, start), (second, now) = module.seen
    versions = {first.completions.weights_versions, second.completions.weights_versions}
    assert versions == {(0,) * 20} and (second.old_logprobs is None) == (correction is not None and epochs == 1)
    q, begin = start.softmax(0), now.softmax(0)
    assert abs((begin / q)[1] - 1) > 0.2, "the weights have moved"
    chosen, table = second.completions.completion_ids[:, 0].tolist(), now
    for _ in range(epochs):
        p = table.softmax(0)
        if correction is None:
            ratio = p / q * (0 if isinstance(loss, Clipped) else 1)  # beyond 1.2: the clip holds it
        else:
            ratio = correction[1](begin / q) * p / begin
        step = torch.stack([ratio[a] * float(a == 1) * (torch.eye(2)[a] - p) for a in chosen]).mean(0)
        table = table + rate * step
    assert torch.allclose(module.table(), table, atol=1e-6)


def test_a_correction_of_fresh_rows_changes_nothing(make_module: Make, tmp_path: Path) -> None:
    """Up to the difference between sampling and the training forward, here in float64."""

    def learned(correction: Correction | None) -> torch.Tensor:
        module = make_module(objective=Objective(correction=correction), max_rollouts=2, epochs=2)
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


KLS = [
    (GRPO, Objective(correction=None)),
    (PPO, Objective(kl_coef=0.1, kl_in="reward", correction=None)),
    (REINFORCE, Objective(kl_coef=0.1, correction=None)),
]


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


def test_old_rows_of_a_filtered_distribution_are_refused(make_module: Make, tmp_path: Path) -> None:
    def module(engine: Engine) -> RolloutModule:
        sampling = Sampling(num_samples=4, max_tokens=6, top_k=200)
        return make_module(engine=engine, sampling=sampling, max_rollouts=2)

    fit(module(Behind(renew_every=1)), tmp_path)
    with pytest.raises(ValueError, match=r"12 rows were sampled by older weights.*leave both out"):
        fit(module(Behind(renew_every=2)), tmp_path)
