"""Losses as classes: gradients of every name as before, what each logs and reads, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lit_rl.functional.policy_losses import (
    cispo_loss,
    clipped_surrogate_loss,
    importance_sampling_loss,
    policy_gradient_loss,
    unclipped_loss,
)
from lit_rl.losses import CISPO, Clipped, ImportanceSampling, Loss, PolicyGradient, Tokens, Unclipped
from lit_rl.modules import Objective

LEVELS: tuple[Any, ...] = ("token", "sequence", "sequence_product")
BOUNDS = {"clip_low": 0.1, "clip_high": 0.3}


def tokens(level: Any = "token") -> Tokens:
    """Three rows of five tokens, ratios from about 0.3 to 3."""
    generator = torch.Generator().manual_seed(0)
    new, old, sampler, advantages = torch.randn(4, 3, 5, generator=generator, dtype=torch.float64) * 0.5
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 1, 0], [1, 0, 0, 0, 0]], dtype=torch.bool)
    return Tokens((new - 2).requires_grad_(), old - 2, sampler - 2, advantages * mask, mask, level)


def slope(loss: Tensor, of: Tokens) -> Tensor:
    (gradient,) = torch.autograd.grad((loss * of.mask).sum(), of.logprobs)
    return gradient


def before(name: str, t: Tokens) -> Tensor:
    """What the objective called for each name when losses were names only."""
    shared: dict[str, Any] = {"level": t.level, "mask": t.mask}
    match name:
        case "clipped":
            return clipped_surrogate_loss(t.logprobs, t.old_logprobs, t.advantages, **BOUNDS, dual_clip=1.5, **shared)
        case "unclipped":
            return unclipped_loss(t.logprobs, t.old_logprobs, t.advantages, **shared)
        case "naive":
            return policy_gradient_loss(t.logprobs, t.advantages)
        case "cispo":
            return cispo_loss(t.logprobs, t.old_logprobs, t.advantages, **BOUNDS, **shared)
        case _:
            weights: dict[str, Any] = {"cap": 1.2, "beyond_cap": "mask"}
            return importance_sampling_loss(t.logprobs, t.sampler_logprobs, t.advantages, **weights, **shared)


NAMED: dict[str, tuple[dict[str, Any], Loss]] = {
    "clipped": ({**BOUNDS, "dual_clip": 1.5}, Clipped(**BOUNDS, dual_clip=1.5)),
    "unclipped": ({}, Unclipped()),
    "naive": ({}, PolicyGradient()),
    "cispo": (BOUNDS, CISPO(**BOUNDS)),
    "importance_sampling": (
        {"importance_cap": 1.2, "beyond_cap": "mask"},
        ImportanceSampling(cap=1.2, beyond_cap="mask"),
    ),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", NAMED)
def test_a_loss_by_name_by_class_and_before_has_one_gradient(name: Any, level: Any) -> None:
    knobs, by_class = NAMED[name]
    t = tokens(level)
    expected = slope(before(name, t), t)
    assert expected.abs().max() > 0.01
    for surrogate in (Objective(loss=name, **knobs).surrogate, Objective(loss=by_class).surrogate):
        assert torch.equal(slope(surrogate.token_losses(t), t), expected)


def test_names_take_the_bounds_they_always_took() -> None:
    clipped: Any = Objective().surrogate
    cispo: Any = Objective(loss="cispo").surrogate
    assert (clipped.clip_low, clipped.clip_high, clipped.dual_clip) == (0.2, 0.2, None)
    assert (cispo.clip_low, cispo.clip_high) == (0.2, 0.2)


def test_cispo_of_the_paper_has_no_lower_bound() -> None:
    """Ratios 0.01 and 9 with clip_high 4: the weights are 0.01, not 0.8, and 5."""
    new = torch.tensor([[0.01, 9.0]], dtype=torch.float64).log().requires_grad_()
    zeros, ones = torch.zeros(1, 2, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64)
    t = Tokens(new, zeros, zeros, ones, ones.bool())
    torch.testing.assert_close(slope(CISPO(clip_high=4).token_losses(t), t), -torch.tensor([[0.01, 5.0]]).double())
    held = slope(Objective(loss="cispo").surrogate.token_losses(t), t)
    torch.testing.assert_close(held, -torch.tensor([[0.8, 1.2]]).double())


def test_clip_low_of_1_is_no_lower_bound() -> None:
    """At the ratio 0.01 with A = -1 the clip takes the gradient away; with 1 the slope of -ratio * A is 0.01."""
    new = torch.tensor([[0.01]], dtype=torch.float64).log().requires_grad_()
    zero, minus = torch.zeros(1, 1, dtype=torch.float64), -torch.ones(1, 1, dtype=torch.float64)
    t = Tokens(new, zero, zero, minus, torch.ones(1, 1, dtype=torch.bool))
    assert slope(Clipped().token_losses(t), t).item() == 0
    unheld: Any = Objective(clip_low=1.0).surrogate
    assert slope(unheld.token_losses(t), t).item() == pytest.approx(0.01)
    assert unheld.metrics(t)["policy/clip_fraction"] == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Clipped(clip_low=1.5), "clip_low must be above 0 and at most 1, got 1.5"),
        (lambda: CISPO(clip_high=1, clip_low=0), "clip_low must be above 0 and at most 1, got 0"),
        (lambda: Clipped(clip_high=0), "clip_high must be above 0, got 0"),
        (lambda: Clipped(dual_clip=1.1), "dual_clip must be above 1.2, got 1.1"),
        (lambda: ImportanceSampling(cap=0), "cap must be above 0, got 0"),
        (lambda: Objective(loss="naive", clip_low=0.3), "clip_low .* clipped and cispo, got 0.3 beside loss naive"),
        (lambda: Objective(importance_cap=2.0), "importance_cap .* importance_sampling, got 2.0 beside loss clipped"),
        (
            lambda: Objective(loss=CISPO(clip_high=4), clip_low=0.2),
            "clip_low goes with a loss .* by name, got it beside the class CISPO: .* {class_path: CISPO, init_arg",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        make()
    assert "\n" not in str(refused.value)


def test_a_configuration_written_before_there_were_classes_is_read() -> None:
    """It holds the default of every argument beside every loss."""
    written: dict[str, Any] = {"clip_low": 0.2, "clip_high": 0.2, "beyond_cap": "truncate"}
    assert isinstance(Objective(loss="naive", **written).surrogate, PolicyGradient)
    assert isinstance(Objective(loss="importance_sampling", **written).surrogate, ImportanceSampling)


def test_a_loss_says_what_it_reads_and_logs() -> None:
    t = tokens()
    assert {name: sorted(loss.metrics(t)) for name, (_, loss) in NAMED.items() if loss.metrics(t)} == {
        "clipped": ["policy/clip_fraction"]
    }
    assert [name for name, (_, loss) in NAMED.items() if loss.reads_sampler_logprobs] == ["importance_sampling"]
    assert not Objective().pulls_on_every_token

    class Everywhere(PolicyGradient):
        pulls_on_every_token = True

    assert Objective(loss=Everywhere()).pulls_on_every_token
