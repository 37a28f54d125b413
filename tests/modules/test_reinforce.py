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


def test_a_reward_on_the_last_token_is_what_every_token_has_to_come(tmp_path: Path) -> None:
    """Item 25: undiscounted all of 7; with gamma 1/2 halves of it backwards."""
    places = [[1.0, 2.0, 4.0]] * 4
    torch.testing.assert_close(toy(tmp_path, Places(places)).seen[0], torch.full((4, 3), 7.0))
    halved = toy(tmp_path, Places(places), gamma=0.5).seen[0]
    torch.testing.assert_close(halved, torch.tensor([[1.75, 3.5, 7.0]] * 4))


def test_the_mean_of_the_rollout_is_taken_off_every_reward_to_go(tmp_path: Path) -> None:
    """Rewards 7, 7, 7, 3 have the mean 6."""
    module = toy(tmp_path, Places([[1, 2, 4]] * 3 + [[0, 0, 3]]), baseline=BATCH_MEAN, credit="tokens")
    torch.testing.assert_close(module.seen[0], torch.tensor([[1.0, 0.0, -2.0]] * 3 + [[-3.0, -3.0, -3.0]]))


def test_a_row_without_a_reward_is_in_no_baseline(tmp_path: Path) -> None:
    """Rewards 4, 8, 0 and none have the mean 4, not 3; the running mean takes the same one."""
    rewards = [4.0, 8.0, None, 0.0]
    module = toy(tmp_path, Given(rewards), baseline=BATCH_MEAN)
    assert module.seen[0][:, 0].tolist() == [0.0, 4.0, 0.0, -4.0]
    module = toy(tmp_path, Given(rewards), baseline=RunningMean())
    assert module.baseline.mean == pytest.approx(4.0)


def test_the_exponential_baseline_is_that_of_the_rollouts_before(tmp_path: Path) -> None:
    """Decay 3/4, means 4, 8, 0: the baselines are none, 4, and 3/4 * 4 + 1/4 * 8 = 5."""
    rewards = Given([4.0] * 4, [8.0] * 4, [0.0] * 4)
    module = toy(tmp_path, rewards, baseline=RunningMean(0.75), max_rollouts=3)
    first_tokens = [float(seen[0, 0]) for seen in module.seen]
    assert first_tokens == pytest.approx([4.0, 8.0 - 4.0, 0.0 - 5.0])
    assert module.baseline.mean == pytest.approx(0.75 * 5.0)


SGD: dict[str, Any] = {"optimizer": lambda params: torch.optim.SGD(params, lr=0.1), "gradient_clip_norm": None}


@pytest.mark.parametrize("cls", [REINFORCE, GRPO])
def test_a_resumed_run_ends_with_the_weights_of_an_undisturbed_one(
    make_module: Make, tmp_path: Path, cls: type[RolloutModule]
) -> None:
    """Items 55 to 57, with the running baseline."""
    whole, second = whole_and_resumed(lambda: make_module(cls, baseline=RunningMean(), max_rollouts=6), tmp_path, 3)
    assert torch.equal(weights(second), weights(whole))


def test_deltas_and_a_baseline_are_not_both_taken() -> None:
    with pytest.raises(ValueError, match="deltas=NoBaseline and baseline=BatchMean: give one"):
        REINFORCE(SortingPolicy(), rewards=[EvenBytes()], deltas=NoBaseline(), baseline=BATCH_MEAN)


def test_baselines_and_deltas_sum_over_ranks() -> None:
    """Item 21."""
    for given in ({"baseline": RunningMean()}, {"deltas": BatchMean()}):
        module = REINFORCE(SortingPolicy(), rewards=[EvenBytes()], **given)  # type: ignore[arg-type]
        assert (module.deltas or module.baseline).sum_over_ranks is sum_over_ranks


def test_a_normalized_baseline_of_rewards_to_go_is_refused() -> None:
    message = "rewards-to-go are not normalized, got the baseline GroupMean with normalize=std"
    with pytest.raises(ValueError, match=message):
        REINFORCE(SortingPolicy(), rewards=[EvenBytes()], baseline=GroupMean(), sampling=Sampling(num_samples=2))


def test_a_kl_in_the_reward_is_refused() -> None:
    with pytest.raises(ValueError, match=r"objective\.kl_in: expected loss"):
        REINFORCE(SortingPolicy(), rewards=[EvenBytes()], objective=Objective(kl_coef=0.1, kl_in="reward"))


def test_deltas_of_a_group_of_one_are_refused() -> None:
    with pytest.raises(ValueError, match="num_samples must be 2 or more, got 1"):
        REINFORCE(SortingPolicy(), rewards=[EvenBytes()], deltas=CENTRED)


def test_a_checkpoint_written_before_baselines_were_classes_gives_its_running_mean(make_module: Make) -> None:
    module: Any = make_module(REINFORCE, baseline=RunningMean())
    kept: dict[str, Any] = {}
    module.baseline.mean = 2.5
    module.on_save_checkpoint(kept)
    assert kept.pop("baseline") == {"mean": 2.5}
    again: Any = make_module(REINFORCE, baseline=RunningMean())
    again.on_load_checkpoint(kept | {"running_baseline": 1.5})
    assert again.baseline.mean == 1.5
