"""The penalty of each failed turn is put on that turn, and credit sums to the reward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_runs import fit
from support.two_turns import LastTurn, PlaysGRPO, PlaysPPO, drawn, rows_of

from lit_rl.advantages import GroupMean
from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.models import SeparateCritic
from lit_rl.rewards import Composite, RewardTerm, TermScore, TurnPenalty
from lit_rl.rewards.places import Credit, place_rewards
from lit_rl.types import Completions, Judgement

ROWS = rows_of([[1]] * 20, [drawn(str(i)) for i in range(20)])
JUDGEMENTS = [Judgement(problem, None, Outcome(Verdict.NO_PROGRAM)) for problem in ROWS.problems]


@pytest.mark.parametrize("limits", [{}, {"clip_low": -0.1}, {"clip_high": 0.3}])
@pytest.mark.parametrize("credit", ["spans", "tokens", "terminal"])
def test_credit_sums_to_the_reward(credit: Credit, limits: dict[str, float]) -> None:
    rewards = Composite([LastTurn(), TurnPenalty(weight=0.2)], **limits)(ROWS, JUDGEMENTS)
    placed = place_rewards(rewards, ROWS.completion_mask, credit)
    assert torch.allclose(placed.sum(-1), rewards.rewards, atol=1e-6)
    assert torch.allclose(rewards.credit.sum(-1), rewards.rewards, atol=1e-6)
    assert not placed[~ROWS.completion_mask].any()


def test_each_penalty_stands_on_its_own_turn() -> None:
    assert sorted({len(turns) for turns in ROWS.turns}) == [1, 2, 3]
    rewards = Composite([LastTurn(), TurnPenalty(weight=0.2)])(ROWS, JUDGEMENTS)
    without = Composite([LastTurn()])(ROWS, JUDGEMENTS)
    spans = place_rewards(rewards, ROWS.completion_mask, "spans").tolist()
    for i, turns in enumerate(ROWS.turns):
        assert rewards.rewards[i] == pytest.approx(float(without.rewards[i]) - 0.2 * (len(turns) - 1), abs=1e-6)
        assert rewards.term_values["turn_penalty"][i] == 1 - len(turns)
        for turn in turns[:-1]:
            length = turn.end - turn.start
            assert spans[i][turn.start : turn.end] == pytest.approx([0.0] * (length - 1) + [-0.2])
            assert rewards.credit[i, turn.start : turn.end].tolist() == pytest.approx([-0.2 / length] * length)
        last = slice(turns[-1].start, turns[-1].end)
        before = place_rewards(without, ROWS.completion_mask, "spans")[i, last].tolist()
        assert spans[i][last] == pytest.approx(before, abs=1e-6)


def test_ppo_charges_a_turn_and_those_before_it(make_module: Callable[..., Any], tmp_path: Path) -> None:
    """With gamma and lambda 1 an advantage is what is rewarded from the token on, less its value."""
    module = make_module(
        PlaysPPO,
        rewards=[LastTurn(), TurnPenalty(weight=0.2)],
        critic=SeparateCritic(),
        gae_lambda=1.0,
        whiten=False,
        max_rollouts=1,
    )
    fit(module, tmp_path)
    experience, output = module.seen
    worth = experience.advantages + experience.old_values
    for i, turns in enumerate(experience.completions.turns):
        for number, turn in enumerate(turns):
            if turn is not turns[-1]:  # on all of it: this turn's penalty and those to come
                share = float(output.term_values["last"][i])
                expected = share - 0.2 * (len(turns) - 1 - number)
                assert worth[i, turn.start : turn.end].tolist() == pytest.approx([expected] * (turn.end - turn.start))


def test_grpo_compares_rewards_with_the_penalty(make_module: Callable[..., Any], tmp_path: Path) -> None:
    module = make_module(
        PlaysGRPO, rewards=[LastTurn(), TurnPenalty(weight=0.2)], baseline=GroupMean(normalize="none"), max_rollouts=1
    )
    fit(module, tmp_path)
    experience, output = module.seen
    turns = torch.tensor([len(of_row) for of_row in experience.completions.turns])
    rewards = (output.term_values["last"] - 0.2 * (turns - 1)).view(-1, 4)
    expected = (rewards - rewards.mean(-1, keepdim=True)).flatten()[:, None] * experience.completions.completion_mask
    assert turns.unique().tolist() == [1, 2, 3]
    assert torch.allclose(experience.advantages, expected, atol=1e-6)


def test_more_values_than_turns_are_refused() -> None:
    class Generous(RewardTerm):
        default_name = "generous"

        def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
            return [TermScore(1.0, turn_values=(0.5, 0.5)) for _ in judgements]

    single = rows_of([[1]], [[[2, 4]]])
    with pytest.raises(ValueError, match="Generous gave row 0 2 turn_values for 1 turns: give each turn one at most"):
        Composite([Generous()])(single, JUDGEMENTS[:1])
