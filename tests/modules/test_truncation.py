"""Completions that the token limit cut, under PPO with ``bootstrap_truncated``: simple worlds (item 26).

Every completion earns 1, so the value of every state is 1, and no policy is better than another.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support.late_verdicts import Late, Programs
from support.small_runs import Brief, Scored, Words, quiet_trainer
from support.tiny_models import TINY_QWEN2

from lit_rl.advantages import GAE
from lit_rl.models import CausalLM, SeparateCritic
from lit_rl.modules import PPO, CriticUpdate, Update
from lit_rl.rewards.places import place_before_end
from lit_rl.rewards.term import RewardOutput, Span, TermScore
from lit_rl.types import Completions, Experience, Judgement, Sampling


class Endless(CausalLM):
    """Ends no completion."""

    def load(self) -> None:
        super().load()
        self.codec.eos_ids = frozenset()


class Seen(PPO):
    """Keeps of each rollout the mean value and the share of rows that were cut."""

    start: float = 0.0

    def make_experience(self, *args: Any) -> Experience:
        experience = super().make_experience(*args)
        self.values_seen: list[float] = getattr(self, "values_seen", [])
        self.cut: list[float] = getattr(self, "cut", [])
        self.values_seen.append(float(experience.old_values[experience.loss_mask].mean()))
        self.cut.append(float(experience.completions.truncated.double().mean()))
        return experience

    def load_weights(self) -> None:
        super().load_weights()
        with torch.no_grad():
            self.critic.head.bias.fill_(self.start)  # type: ignore[union-attr]


def played(
    policy: CausalLM, folder: Path, rollouts: int, *, rate: float = 0.0, start: float = 0.0, max_tokens: int = 6
) -> Seen:
    module = Seen(
        policy,
        [Scored(1.0)],
        SeparateCritic(),
        estimator=GAE(whiten=False),  # whitened, the rounding of equal advantages would be a direction
        sampling=Sampling(num_samples=8, max_tokens=max_tokens),
        critic_update=CriticUpdate(bootstrap_truncated=True, learning_rate=1e-2),
        update=Update(optimizer=partial(torch.optim.Adam, lr=rate)),
        max_rollouts=rollouts,
    )
    module.start = start
    quiet_trainer(folder).fit(module, Words(batch_size=3))
    return module


def test_with_all_rows_cut_a_critic_that_is_right_stays_right(byte_tokenizer: str, tmp_path: Path) -> None:
    """Item 26: paid twice, values ran away to 100."""
    module = played(Endless(config=TINY_QWEN2, tokenizer=byte_tokenizer), tmp_path, 150, start=1.0)
    assert min(module.cut) == 1.0
    assert max(abs(value - 1) for value in module.values_seen) < 0.05


def test_where_some_rows_end_the_critic_learns_what_they_earned(byte_tokenizer: str, tmp_path: Path) -> None:
    module = played(Brief(config=TINY_QWEN2, tokenizer=byte_tokenizer), tmp_path, 60, max_tokens=3)
    assert 0.3 < sum(module.cut) / 60 < 0.7
    assert all(abs(value - 1) < 0.05 for value in module.values_seen[-10:])


@pytest.mark.slow
def test_a_policy_that_may_stop_stays_indifferent(byte_tokenizer: str, tmp_path: Path) -> None:
    """Paid twice, it learned never to stop: cut rows went from a fifth to all of them."""
    module = played(Brief(config=TINY_QWEN2, tokenizer=byte_tokenizer), tmp_path, 150, rate=3e-3)
    first, last = (sum(part) / 30 for part in (module.cut[:30], module.cut[-30:]))
    assert abs(last - first) < 0.15 and last < 0.5
    assert abs(module.values_seen[-1] - 1) < 0.05


class Halves(Scored):
    """1 for a row whose program passed, and a place that was decided before the end in every row."""

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        return [TermScore(float(one.outcome.passed), (Span(0, 1, -0.25),)) for one in judgements]


def test_a_cut_row_keeps_its_outcome_only_if_its_program_passed(byte_tokenizer: str, tmp_path: Path) -> None:
    """A cut row that passed returns its 1; one that did not returns the critic's value and what was decided before."""
    module = Seen(
        Endless(config=TINY_QWEN2, tokenizer=byte_tokenizer),
        [Halves(0.0)],
        SeparateCritic(),
        sandbox=Late,
        sampling=Sampling(num_samples=4, max_tokens=5),
        critic_update=CriticUpdate(bootstrap_truncated=True),
        max_rollouts=1,
    )
    module.start = 0.7
    kept: list[Any] = []
    make = module.make_experience
    module.make_experience = lambda rollout, rewards: kept.append((rollout, make(rollout, rewards))) or kept[-1][1]  # type: ignore[method-assign]
    quiet_trainer(tmp_path).fit(module, Programs(batch_size=3))
    rollout, experience = kept[0]
    assert experience.completions.truncated.all()
    passed = torch.tensor([one.outcome.passed for one in rollout.judgements])
    assert 0 < passed.sum() < len(passed)
    lengths = experience.completions.lengths
    for row, ok in enumerate(passed.tolist()):
        n = int(lengths[row])
        rewards = experience.token_rewards[row, :n].tolist()
        assert rewards[1] == pytest.approx(-0.25) and rewards[-1] == pytest.approx(1.25 if ok else 0.0)
        assert float(experience.returns[row, 0]) == pytest.approx(1.0 if ok else 0.7 - 0.25, abs=1e-5)


def test_what_the_end_decides_is_no_part_of_an_open_row() -> None:
    """Of -0.5 at the second token, 2 at the last and a rest of 1, with credit on spans, -0.5 was decided before."""
    decided = torch.tensor([[0.0, -0.5, 2.0, 9.0]])
    mask = torch.tensor([[True, True, True, False]])
    rewards = RewardOutput(torch.tensor([2.5]), torch.ones(1).bool(), decided, decided, {}, {})
    assert place_before_end(rewards, mask, "spans").tolist() == [[0.0, -0.5, 0.0, 0.0]]
    assert not place_before_end(rewards, mask, "terminal").any()
