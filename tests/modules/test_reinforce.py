"""REINFORCE: reward-to-go, baselines, and the deltas of the lecture, in numbers one can check by eye."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_runs import EvenBytes, fit, grouped, weights, whole_and_resumed

from lit_rl.advantages import BatchMean, GroupMean, NoBaseline, RunningMean
from lit_rl.data import Sorting
from lit_rl.models import SortingPolicy
from lit_rl.modules import GRPO, REINFORCE, Objective, RolloutModule
from lit_rl.rewards.term import RewardTerm, Span, TermScore
from lit_rl.rollout import Rollout
from lit_rl.training.ranks import sum_over_ranks
from lit_rl.types import Completions, Experience, Judgement, Sampling

Make = Callable[..., RolloutModule]

CENTRED, BATCH_MEAN = GroupMean(normalize="none"), BatchMean(normalize="none")


class Given(RewardTerm):
    """The next of some lists of rewards, one list per rollout."""

    default_name = "given"

    def __init__(self, *rollouts: Sequence[float | None]) -> None:
        super().__init__()
        self.rollouts = list(rollouts)

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        return [TermScore(value) for value in self.rollouts.pop(0)]


class Places(RewardTerm):
    """Each of three numbers earns what was given for its place."""

    default_name = "places"

    def __init__(self, values: list[list[float]]) -> None:
        super().__init__()
        self.values = values

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        return [
            TermScore(sum(values), tuple(Span(*place, v) for place, v in zip(places, values, strict=True)))
            for places, values in zip(completions.token_bytes, self.values, strict=True)
        ]


class Watched(REINFORCE):
    """Keeps the advantages of each rollout."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seen: list[torch.Tensor] = []
        self.rollouts: list[Rollout] = []

    def make_experience(self, rollout: Rollout, rewards: Any) -> Experience:
        experience = super().make_experience(rollout, rewards)
        self.seen.append(experience.advantages)
        self.rollouts.append(rollout)
        return experience


def toy(tmp_path: Path, reward: RewardTerm, *, samples: int = 2, **kwargs: Any) -> Watched:
    """Run on two prompts of three numbers; a rollout has ``2 * samples`` rows of three tokens."""
    options: dict[str, Any] = {"max_rollouts": 1, "sampling": Sampling(num_samples=samples, max_tokens=3)}
    module = Watched(SortingPolicy(), rewards=[reward], **grouped(Watched, **(options | kwargs)))
    fit(module, tmp_path, data=Sorting([[1, 0, 2], [3, 2, 4]]))
    return module


def test_a_token_is_credited_with_the_discounted_rewards_from_it_on(tmp_path: Path) -> None:
    """Backwards with gamma 1/2: r3, r2 + r3 / 2, r1 + r2 / 2 + r3 / 4."""
    module = toy(tmp_path, Places([[1, 0, 0], [0, 0, 4], [0, 2, 4], [1, 2, 4]]), gamma=0.5, credit="tokens")
    shuffled = module.rollouts[0].completions
    assert shuffled.completion_mask.all()
    expected = [[1, 0, 0], [1, 2, 4], [2, 4, 4], [3, 4, 4]]
    torch.testing.assert_close(module.seen[0], torch.tensor(expected, dtype=torch.float32))


def test_the_exponential_baseline_is_that_of_the_rows_with_a_reward_in_the_rollouts_before(tmp_path: Path) -> None:
    """Decay 3/4, means 4 (of 4, 8 and 0), 8, 0: the baselines are none, 4, and 3/4 * 4 + 1/4 * 8 = 5."""
    rewards = Given([4.0, 8.0, None, 0.0], [8.0] * 4, [0.0] * 4)
    module = toy(tmp_path, rewards, baseline=RunningMean(0.75), max_rollouts=3)
    assert module.seen[0][:, 0].tolist() == [4.0, 8.0, 0.0, 0.0]
    first_tokens = [float(seen[0, 0]) for seen in module.seen]
    assert first_tokens == pytest.approx([4.0, 8.0 - 4.0, 0.0 - 5.0])
    assert module.baseline.mean == pytest.approx(0.75 * 5.0)


@pytest.mark.parametrize("cls", [REINFORCE, GRPO])
def test_a_resumed_run_ends_with_the_weights_of_an_undisturbed_one(
    make_module: Make, tmp_path: Path, cls: type[RolloutModule]
) -> None:
    """Items 55 to 57, with the running baseline."""
    whole, second = whole_and_resumed(lambda: make_module(cls, baseline=RunningMean(), max_rollouts=6), tmp_path, 3)
    assert torch.equal(weights(second), weights(whole))


def test_baselines_and_deltas_sum_over_ranks() -> None:
    """Item 21."""
    for cls, name in ((REINFORCE, "baseline"), (REINFORCE, "deltas"), (GRPO, "baseline")):
        compares = BatchMean(normalize="none")
        cls(SortingPolicy(), rewards=[EvenBytes()], **{name: compares})  # type: ignore[arg-type]
        assert compares.sum_over_ranks is sum_over_ranks


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deltas": NoBaseline(), "baseline": BATCH_MEAN}, "deltas=NoBaseline and baseline=BatchMean: give one"),
        ({"baseline": GroupMean(), "sampling": Sampling(num_samples=2)}, "the baseline GroupMean with normalize=std"),
        ({"objective": Objective(kl_coef=0.1, kl_in="reward")}, r"objective\.kl_in: expected loss"),
        ({"deltas": CENTRED}, "num_samples must be 2 or more, got 1"),
    ],
)
def test_what_cannot_be_compared_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        REINFORCE(SortingPolicy(), rewards=[EvenBytes()], **options)
