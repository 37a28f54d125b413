"""Objectives that are not what they are called: refused where the gradient is wrong, told where it is hardly meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.two_turns import rows_of

from lit_rl import GRPO, PPO, REINFORCE, CausalLM, Objective, RolloutConfig, SeparateCritic, TestsReward, UpdateConfig
from lit_rl.engines import InProcess
from lit_rl.errors import UsageError
from lit_rl.math.losses import (
    CISPO,
    Clipped,
    Correction,
    ImportanceSampling,
    Loss,
    MaskedBand,
    Tokens,
    TruncatedWeights,
)
from lit_rl.math.masking import aggregate, loss_denominator
from lit_rl.modules import RolloutModule
from lit_rl.types import Experience, Sampling

TERMS: Any = [TestsReward()]


class Own(Loss):
    def token_losses(self, tokens: Tokens) -> torch.Tensor:
        return -tokens.logprobs


@pytest.mark.parametrize("kind", ["k1", "k2", "k3", None])
def test_a_kl_is_where_the_algorithm_has_it_in_python_as_on_the_command_line(kind: Any) -> None:
    """Item 75: Objective(kl_coef=0.1) leaves the rest to PPO, as ``objective: {kl_coef: 0.1}`` does."""

    def objective_of(algorithm: Any, **given: Any) -> tuple[Any, ...]:
        critic = {"critic": SeparateCritic()} if algorithm is PPO else {}
        found = algorithm(CausalLM("folder"), TERMS, **critic, objective=Objective(kl_coef=0.1, **given)).objective
        return found.kl_in, found.effective_kl_estimator, found.subtracts_kl_from_rewards

    if kind in ("k1", None):
        assert objective_of(PPO, kl_kind=kind) == ("reward", "k1", True)
    if kind != "k1":
        for algorithm in (GRPO, REINFORCE):
            assert objective_of(algorithm, kl_kind=kind) == ("loss", kind or "k3_weighted", False)
    assert objective_of(PPO, kl_in="loss") == ("loss", "k3_weighted", False)


@pytest.mark.parametrize(
    ("objective", "mode"),
    [
        (Objective(kl_coef=0.1, kl_kind="k1"), "token_mean"),
        (Objective(kl_coef=0.1, kl_kind="k1", kl_in="loss"), "sequence_mean"),
        (Objective(ratio_level="sequence_product"), "token_mean"),
        (Objective(ratio_level="sequence_product", loss=CISPO(clip_high=1.0)), "sequence_mean"),
        (Objective(ratio_level="sequence_product", loss=ImportanceSampling()), "sequence_sum_constant"),
        (Objective(ratio_level="sequence_product", loss=Own()), "token_mean"),
    ],
)
def test_an_objective_with_another_gradient_than_its_name_says_is_refused(objective: Objective, mode: Any) -> None:
    with pytest.raises(UsageError, match=r"objective\."):
        GRPO(CausalLM("folder"), TERMS, objective=objective, update=UpdateConfig(aggregate=mode))


@pytest.mark.parametrize("kind", ["k2", "k3", "k3_weighted"])
def test_an_estimate_without_meaning_in_the_reward_is_refused(kind: Any) -> None:
    with pytest.raises(UsageError, match=f"kl_kind {kind} in the reward"):
        Objective(kl_coef=0.1, kl_kind=kind, kl_in="reward")


@pytest.mark.parametrize(
    ("loss", "mode", "times"),
    [
        (Clipped(), "sequence_mean", 1.0),
        (Clipped(), "sequence_sum", 3.0),
        (ImportanceSampling(), "sequence_sum", 1.0),
        (ImportanceSampling(), "sequence_mean", 1 / 3),
    ],
)
def test_the_ratio_of_a_whole_completion_has_its_gradient_under_the_aggregate_that_is_asked_for(
    loss: Loss, mode: Any, times: float
) -> None:
    """The gradient of ratio * A is ratio * A for each of the three tokens: by hand, at ratio e^0.06."""
    old = torch.tensor([[-1.0, -0.5, -2.0]], dtype=torch.float64)
    logprobs = (old + torch.tensor([[0.03, -0.01, 0.04]])).requires_grad_()
    mask, advantage = torch.ones(1, 3, dtype=torch.bool), 0.7
    tokens = Tokens(logprobs, old, old, torch.full((1, 1), advantage, dtype=torch.float64), mask, "sequence_product")
    denominator = loss_denominator(mask, mode)
    aggregate(loss.token_losses(tokens), mask, mode=mode, denominator=denominator).backward()
    expected = -torch.tensor(0.06, dtype=torch.float64).exp() * advantage * times
    assert torch.allclose(logprobs.grad, expected.expand(1, 3), rtol=1e-6)


def losses_of_two_rows(**given: Any) -> torch.Tensor:
    """Token losses of two rows of three tokens with advantages of 1, at -0.3 nats where the old weights had 0."""
    rows = rows_of([[119], [119]], [[[1, 2, 3]], [[1, 2, 3]]])
    micro = Experience(rows, torch.ones(2), torch.tensor([True, True]), torch.ones(2, 3))
    logprobs = torch.full((2, 3), -0.3, requires_grad=True)
    return Objective(**given).token_losses_and_metrics(logprobs, torch.zeros(2, 3), None, micro)[0]


@pytest.mark.parametrize(
    ("losses", "said"),
    [
        (lambda t: -t.advantages * t.logprobs.detach(), r"Given.token_losses: expected losses .* without a gradient"),
        (lambda t: (-t.advantages * t.logprobs).sum(), r"expected losses \(2, 3\).*, got \(\) with a gradient"),
    ],
)
def test_a_loss_of_ones_own_that_cannot_teach_is_refused(losses: Any, said: str) -> None:
    class Given(Loss):
        def token_losses(self, tokens: Tokens) -> Any:
            return losses(tokens)

    with pytest.raises(UsageError, match=said):
        losses_of_two_rows(loss=Given())


@pytest.mark.parametrize("shape", [(2, 3), (2, 1), (3,), (1,), (1, 3), (2,)])
def test_weights_of_a_correction_are_one_for_each_token_or_row(shape: tuple[int, ...]) -> None:
    class Given(Correction):
        def weights(self, tokens: Tokens) -> torch.Tensor:
            return torch.full(shape, 0.5)

    if shape in ((2, 3), (2, 1)):
        assert torch.allclose(losses_of_two_rows(loss=Own(), correction=Given()), torch.full((2, 3), 0.15))
    else:
        with pytest.raises(UsageError, match=r"Given.weights: expected \(2, 3\) or \(2, 1\)"):
            losses_of_two_rows(loss=Own(), correction=Given())


@pytest.mark.parametrize(
    ("objective", "filters"),
    [(Objective(loss=ImportanceSampling()), {"top_k": 5}), (Objective(correction=MaskedBand()), {"top_p": 0.9})],
)
def test_filters_are_refused_where_probabilities_are_compared(
    make_module: Callable[..., RolloutModule], objective: Objective, filters: dict[str, Any]
) -> None:
    sampling = Sampling(num_samples=4, max_tokens=6, **filters)
    with pytest.raises(ValueError, match="compares the sampler's probabilities with the policy's, but top_k="):
        make_module(objective=objective, sampling=sampling)
    make_module(objective=objective, sampling=Sampling(num_samples=4, max_tokens=6))
    make_module(sampling=sampling)


class Other(InProcess):
    shares_weights = False


@pytest.mark.parametrize(
    ("engine", "options", "weighs"),
    [
        (InProcess(), {}, None),
        (Other(), {}, TruncatedWeights()),
        (Other(), {"objective": Objective(correction=None)}, None),
        (Other(), {"objective": Objective(correction=MaskedBand())}, MaskedBand()),
        (Other(), {"objective": Objective(loss=ImportanceSampling())}, None),
        (Other(), {"sampling": Sampling(num_samples=4, top_p=0.9)}, None),
    ],
)
def test_rows_of_an_engine_with_its_own_weights_are_corrected_by_default(
    engine: Any, options: dict[str, Any], weighs: Any
) -> None:
    module = GRPO(CausalLM("folder"), TERMS, collect=RolloutConfig(engine=engine), **options)
    assert module.objective.correction == weighs
