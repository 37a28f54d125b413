"""Rows of several turns: what the environment said is read and never learned from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.asking import AsksAgain, WatchedGRPO
from support.small_runs import Brief, EvenBytes, Words, fit
from support.tiny_models import TINY_QWEN2, loaded
from support.two_turns import LastTurn, PlaysPPO, apart, cut_out, drawn, rows_of
from torch import Tensor

from lit_rl.data.toys.toy_models import CorridorCritic
from lit_rl.models import CausalLM, SeparateCritic
from lit_rl.models.codecs.text_codec import TemplateRewritesHistoryError
from lit_rl.models.critic import ValueHead, values_and_tail_values
from lit_rl.models.padding import completion_hidden_states
from lit_rl.modules import GRPO, RolloutConfig, RolloutModule
from lit_rl.types import Completions, Experience, Problem, Sampling

Make = Callable[..., RolloutModule]
PROMPTS = [[119], [119, 120, 121]]
GAMMA, LAMBDA = 0.9, 0.8
ROWS = [[[10, 12, 14], [65, 66, 67, 68], [16, 18]], [[20, 22], [70], [24, 26, 28, 30]]]


def expected_row(rewards: list[float], values: list[float], after: float) -> tuple[list[float], list[float]]:
    """Advantages and returns of one row's tokens, from the last to the first."""
    advantages: list[float] = []
    following, next_value = 0.0, after
    for reward, value in zip(reversed(rewards), reversed(values), strict=True):
        following = reward + GAMMA * next_value - value + GAMMA * LAMBDA * following
        next_value = value
        advantages.insert(0, following)
    return advantages, [a + v for a, v in zip(advantages, values, strict=True)]


def test_a_turn_is_scored_as_a_row_whose_prompt_is_all_that_was_said_before(byte_tokenizer: str) -> None:
    """Log-probabilities, entropies and values, with different lengths and left padding."""
    policy = loaded(byte_tokenizer, dtype="float64").eval()
    said = [drawn(str(i)) for i in range(6)]
    rows = rows_of([[119] * (1 + i % 3) for i in range(6)], said)
    head = ValueHead(32, torch.float64)
    torch.nn.init.normal_(head.weight)

    def values(part: Completions) -> tuple[Tensor, Tensor]:
        return values_and_tail_values(completion_hidden_states(policy.model, part), head, part)

    with torch.no_grad():
        logprobs, entropy = policy(rows, 0.7, True)
        valued, tails = values(rows)
        assert not logprobs[~rows.completion_mask].any() and not entropy[~rows.completion_mask].any()
        for row, turn, alone in apart(policy, rows):
            here = slice(turn.start, turn.end)
            expected, spread = policy(alone, 0.7, True)
            assert (logprobs[row, here] - expected[0]).abs().max() < 1e-10
            assert (entropy[row, here] - spread[0]).abs().max() < 1e-10
            worth, tail = values(alone)
            assert (valued[row, here] - worth[0]).abs().max() < 1e-10
            if turn is rows.turns[row][-1]:
                assert abs(tails[row] - tail[0]) < 1e-10


@pytest.mark.parametrize("credit", ["spans", "tokens"])
def test_advantages_are_those_of_rows_with_the_gaps_cut_out(
    make_module: Make, byte_tokenizer: str, tmp_path: Path, credit: str
) -> None:
    """Items 25, 27, by hand: rewards stand on the last turn, and what follows a cut row after its last token."""
    module: Any = make_module(
        PlaysPPO,
        rewards=[LastTurn()],
        critic=SeparateCritic(),
        credit=credit,
        bootstrap_truncated=True,
        gamma=GAMMA,
        gae_lambda=LAMBDA,
        whiten=False,
        max_rollouts=1,
    )
    fit(module, tmp_path)
    experience, output = module.seen
    rows = experience.completions
    assert 0 < rows.truncated.sum() < len(rows) and max(map(len, rows.turns)) == 3
    for i, columns in enumerate(cut_out(rows)):
        last = rows.turns[i][-1]
        token_rewards = torch.zeros(len(columns), dtype=torch.float64)
        total, length = float(output.rewards[i]), last.end - last.start
        if credit == "spans" and length == 1:
            token_rewards[-1] = total
        elif credit == "spans":
            token_rewards[len(columns) - length + 1] -= 0.25  # decided by the token after the place
            token_rewards[-1] += total + 0.25
        else:
            token_rewards[-length:] += (total + 0.25) / length
            token_rewards[-length] -= 0.25
        (values,), (tail,) = module.alone[i]
        after = float(tail) if rows.truncated[i] else 0.0
        if rows.truncated[i]:  # only what was decided before the last token counts
            token_rewards = torch.zeros_like(token_rewards)
            if length > 2:
                token_rewards[len(columns) - length + 1] -= 0.25
        advantages, returns = expected_row(token_rewards.tolist(), values[columns].tolist(), after)
        assert experience.advantages[i, columns].tolist() == pytest.approx(advantages, abs=1e-6)
        assert experience.returns[i, columns].tolist() == pytest.approx(returns, abs=1e-6)
    assert not experience.advantages[~rows.completion_mask].any()


def test_trimming_keeps_what_the_environment_said(byte_tokenizer: str) -> None:
    """Nine tokens, of which the policy chose five; the row of seven is alone as wide as itself."""
    rows = rows_of(PROMPTS, ROWS)
    assert rows.lengths.tolist() == [5, 6] and rows.token_counts.tolist() == [9, 7]
    assert rows.trim().completion_ids.shape == (2, 9)
    experience = Experience(rows, torch.zeros(2), torch.ones(2).bool(), torch.zeros(2, 9))
    alone = experience.select([1]).trim()
    assert alone.advantages.shape == alone.loss_mask.shape == alone.completions.token_mask.shape == (1, 7)
    assert alone.completions.completion_ids[0].tolist() == [20, 22, 70, 24, 26, 28, 30]


def test_a_corridor_critics_tail_stands_after_the_last_choice() -> None:
    """A walk from cell 3: the row of two choices has three tokens, after which the goal is reached."""
    critic = CorridorCritic(5)
    with torch.no_grad():
        critic.weights.weight.copy_(torch.arange(6.0)[:, None])
    rows = replace(rows_of([[5, 3], [5, 3]], [[[1], [1], [1]], [[1]]]), prompt_mask=torch.ones(2, 2).bool())
    assert critic(rows)[1].tolist() == [0.0, 2.0]


def test_rows_whose_last_turn_was_cut_leave_the_loss(make_module: Make, tmp_path: Path) -> None:
    """A row whose first turn was cut and whose last ended by itself stays."""
    options = {"mask_truncated": True, "max_rollouts": 1, "sampling": Sampling(num_samples=20, max_tokens=6)}
    module: Any = make_module(WatchedGRPO, environment=AsksAgain(), rewards=[LastTurn()], **options)
    module.policy.__class__ = Brief
    fit(module, tmp_path)
    rows, kept = module.rollout.completions, module.experience.row_mask
    cut = [[turn.stop_reason == "length" for turn in turns] for turns in rows.turns]
    assert kept.tolist() == [not of_row[-1] for of_row in cut]
    assert [True, False] in cut and [False, True] in cut


class Chats(Words):
    def load_problems(self, split: Any) -> list[Problem]:
        return [replace(one, prompt=({"role": "user", "content": "w"},)) for one in super().load_problems(split)]


@pytest.mark.parametrize("train", [Words, Chats])
def test_a_template_that_rewrites_history_is_refused_before_the_first_rollout(
    byte_tokenizer: str, tmp_path: Path, train: Any
) -> None:
    """Also where validation alone has chats, and where no row of this rank gets a second turn."""
    template = "{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}"
    policy = CausalLM(config=TINY_QWEN2, tokenizer=byte_tokenizer, chat_template=template)
    settings: dict[str, Any] = {"sampling": Sampling(num_samples=2, max_tokens=2), "max_rollouts": 2}
    module = GRPO(policy, [EvenBytes()], collect=RolloutConfig(environment=AsksAgain("")), **settings)
    data = train(batch_size=2, validation_tasks=[Chats()])
    with pytest.raises(TemplateRewritesHistoryError):
        fit(module, tmp_path, data=data, limit_val_batches=1, val_check_interval=2, check_val_every_n_epoch=None)
    assert module.clock.count == 0
