"""What PPO hands to its updates, against formulas written out here, token by token in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_runs import Brief, fit
from support.tiny_models import TINY_QWEN2
from torch import Tensor

from lit_rl.models import SeparateCritic
from lit_rl.modules import PPO, Objective, RolloutModule
from lit_rl.rewards import RewardOutput, RewardTerm, Span, TermScore
from lit_rl.rollout import Rollout
from lit_rl.types import Completions, Experience, Judgement, Sampling

Make = Callable[..., RolloutModule]
GAMMA, LAMBDA, KL_COEF = 0.9, 0.8, 0.05


class FirstToken(RewardTerm):
    """The last id over 100; a quarter of a point of it was lost by the first token."""

    default_name = "first"

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        ids = completions.completion_ids.gather(1, completions.lengths[:, None] - 1)[:, 0].tolist()
        firsts = [places[0] for places in completions.token_bytes]
        return [TermScore(i / 100, (Span(*place, -0.25),)) for i, place in zip(ids, firsts, strict=True)]


class Watched(PPO):
    """Keeps each rollout's experience, what it was made of, and its metrics."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seen: list[tuple[Experience, RewardOutput, tuple[Tensor, Tensor]]] = []
        self.metrics: list[dict[str, float]] = []
        self.coefs: list[float] = []

    def configure_model(self) -> None:
        """A critic with an opinion: its head starts at zero otherwise."""
        super().configure_model()
        generator = torch.Generator().manual_seed(1)
        weight: Tensor = self.critic.head.weight  # type: ignore[assignment,union-attr]
        with torch.no_grad():
            weight.copy_(0.1 * torch.randn(weight.shape, generator=generator, dtype=weight.dtype))

    def make_experience(self, rollout: Rollout, rewards: RewardOutput) -> Experience:
        self.coefs.append(self.kl_penalty.coef)
        experience = super().make_experience(rollout, rewards)
        self.seen.append((experience, rewards, self.critic(rollout.completions)))
        return experience

    def log_rollout(self, means: Any, *args: Any) -> None:
        super().log_rollout(means, *args)
        self.metrics.append(means.reduce(self.device))


def watched(make_module: Make, byte_tokenizer: str, tmp_path: Path, **kwargs: Any) -> Watched:
    options: dict[str, Any] = {
        "critic": SeparateCritic(),
        "rewards": [FirstToken()],
        "sampling": Sampling(num_samples=4, max_tokens=6),
        "microbatch_size": 5,
        "max_rollouts": 2,
    }
    module: Any = make_module(Watched, **(options | kwargs))
    module.policy = Brief(config=TINY_QWEN2, tokenizer=byte_tokenizer, dtype="float64")
    fit(module, tmp_path)
    return module  # type: ignore[no-any-return]


def expected_row(rewards: list[float], values: list[float], after: float) -> tuple[list[float], list[float]]:
    """Advantages and returns of one row's tokens, from the last to the first."""
    advantages: list[float] = []
    following, next_value = 0.0, after
    for reward, value in zip(reversed(rewards), reversed(values), strict=True):
        following = reward + GAMMA * next_value - value + GAMMA * LAMBDA * following
        next_value = value
        advantages.insert(0, following)
    return advantages, [a + v for a, v in zip(advantages, values, strict=True)]


@pytest.mark.parametrize("truncation", ["bootstrap", "zero", "mask"])
@pytest.mark.parametrize("credit", ["spans", "tokens", "terminal"])
def test_advantages_and_returns_are_those_of_the_formulas(
    make_module: Make, byte_tokenizer: str, tmp_path: Path, truncation: str, credit: str
) -> None:
    """Items 21, 24, 26, 29, 32: second rollout, so that policy and reference are apart; whitened once, returns not."""
    objective = Objective(kl_coef=KL_COEF, kl_in="reward", kl_kind="k1")
    module = watched(
        make_module,
        byte_tokenizer,
        tmp_path,
        objective=objective,
        gamma=GAMMA,
        gae_lambda=LAMBDA,
        bootstrap_truncated=truncation == "bootstrap",
        mask_truncated=truncation == "mask",
        credit=credit,
    )
    experience, rewards, (values, tails) = module.seen[1]
    rows = experience.completions
    assert 0 < rows.truncated.sum() < len(rows)
    kl = experience.old_logprobs - experience.ref_logprobs  # type: ignore[operator]
    assert kl.abs().max() > 1e-4
    places: list[tuple[int, int]] = []
    advantages, returns = [], []
    for i, length in enumerate(rows.lengths.tolist()):
        if truncation == "mask" and rows.truncated[i]:
            continue
        total = rewards.rewards[i].double()
        tokens = torch.zeros(length, dtype=torch.float64)
        if credit == "terminal":
            tokens[-1] = total
        else:
            decided = rewards.decided[i].nonzero()[:, 0]  # one token; none where EOS comes first
            tokens[decided] -= 0.25
            tokens[-1] += total + 0.25 * len(decided)
            if credit == "tokens":
                tokens = rewards.credit[i, :length].double()
        tokens -= KL_COEF * kl[i, :length]
        after = float(tails[i]) if truncation == "bootstrap" and rows.truncated[i] else 0.0
        of_row = expected_row(tokens.tolist(), values[i, :length].tolist(), after)
        places += [(i, t) for t in range(length)]
        advantages += of_row[0]
        returns += of_row[1]
    where = tuple(torch.tensor(places).T)
    mean = sum(advantages) / len(advantages)
    deviation = math.sqrt(sum((a - mean) ** 2 for a in advantages) / (len(advantages) - 1))
    whitened = torch.tensor([(a - mean) / deviation for a in advantages], dtype=torch.float64)
    found, targets = experience.advantages, experience.returns
    assert targets is not None
    torch.testing.assert_close(found[where], whitened, rtol=1e-5, atol=1e-5)  # rewards come in float32
    torch.testing.assert_close(targets[where], torch.tensor(returns, dtype=torch.float64), rtol=1e-6, atol=1e-6)
    assert found.count_nonzero() <= len(places)
    assert experience.loss_mask.sum() == len(places)


def test_with_one_reward_and_no_discount_the_critic_is_taught_the_reward_itself(
    make_module: Make, byte_tokenizer: str, tmp_path: Path
) -> None:
    """Item 25: plain 1/2 MSE to the reward, without GAE; explained variance is logged beside it."""
    module = watched(
        make_module, byte_tokenizer, tmp_path, credit="terminal", gamma=1.0, gae_lambda=1.0, max_rollouts=1
    )
    experience, rewards, (values, _) = module.seen[0]
    mask = experience.loss_mask
    targets = rewards.rewards.double()[:, None].expand_as(values)
    torch.testing.assert_close(experience.returns[mask], targets[mask])  # type: ignore[index]
    errors = (values - targets)[mask]
    assert module.metrics[0]["critic/value_loss"] == pytest.approx(float(0.5 * errors.square().mean()))
    explained = 1 - errors.var() / targets[mask].var()
    assert module.metrics[0]["critic/explained_variance"] == pytest.approx(float(explained), rel=1e-4)


def test_the_kl_coefficient_moves_towards_its_target(
    make_module: Make, byte_tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """12 completions over a horizon of 50: the KL is 0 in the first rollout, far above the target in the second."""
    monkeypatch.setattr("lit_rl.modules.objective.HORIZON_COMPLETIONS", 50)
    objective = Objective(kl_coef=KL_COEF, kl_in="reward", kl_kind="k1", target_kl=1e-7)
    module = watched(make_module, byte_tokenizer, tmp_path, objective=objective, max_rollouts=3)
    down, up = 1 - 0.2 * 12 / 50, 1 + 0.2 * 12 / 50
    assert module.coefs[:2] == pytest.approx([KL_COEF, KL_COEF * down])
    second = module.seen[1][0]
    far = float(((second.old_logprobs - second.ref_logprobs) * second.loss_mask).sum())  # type: ignore[operator]
    assert abs(far) / 12 > 1.2e-7
    assert module.coefs[2] == pytest.approx(KL_COEF * down * (up if far > 0 else down))
    taken = module.seen[1][1].rewards.double() - second.token_rewards.sum(-1)  # type: ignore[union-attr]
    kl = ((second.old_logprobs - second.ref_logprobs) * second.loss_mask).sum(-1)  # type: ignore[operator]
    torch.testing.assert_close(taken, KL_COEF * down * kl, rtol=1e-3, atol=1e-6)
    assert (taken - KL_COEF * kl).abs().max() > 1e-5, "the two coefficients cannot be told apart"
