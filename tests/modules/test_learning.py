"""Each algorithm learns what it is for, in seconds. One seed; two more are marked slow."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from support.sampling import sample
from support.slow_cases import slow_but
from support.small_runs import fit, grouped

from lit_rl.advantages import GAE, GroupMean
from lit_rl.callbacks import ExecutionEvaluation, PreferenceWriter
from lit_rl.data import Basics, Corridor, PreferencePairs, Sorting
from lit_rl.execution import Sandbox
from lit_rl.losses import PolicyGradient
from lit_rl.models import CausalLM, CorridorCritic, CorridorPolicy, SortingPolicy
from lit_rl.models.sampling import StreamKey
from lit_rl.modules import (
    DPO,
    GRPO,
    PPO,
    REINFORCE,
    SFT,
    CriticUpdate,
    Evaluate,
    Objective,
    Optimization,
    RolloutModule,
    Update,
)
from lit_rl.rewards import CorridorReward, SortingReward, TestsReward
from lit_rl.types import Sampling

CENTRED = GroupMean(normalize="none")
SEEDS = pytest.mark.parametrize("seed", slow_but((0,), range(3)))


def adam(lr: float) -> Any:
    return partial(torch.optim.Adam, lr=lr)


def mean_reward(policy: SortingPolicy) -> float:
    """Of 100 fresh samples of each prompt that was trained on."""
    problems = Sorting().problems("test")
    completions = sample(policy, problems, StreamKey(0, "test", 0), num_samples=100, max_tokens=3)
    scores = [score.value for score in SortingReward().score(completions, [])]
    return sum(value or 0.0 for value in scores) / len(scores)


def sorting(cls: type[RolloutModule], seed: int, **kwargs: Any) -> tuple[SortingPolicy, RolloutModule]:
    """A policy and a module that learns to sort three numbers; the largest reward is 3 included + 2 ordered = 5.

    Without the entropy bonus a place settles on a number before it has seen a better one.
    """
    policy = SortingPolicy(init_seed=seed)
    module = cls(
        policy,
        sampling=Sampling(num_samples=32, max_tokens=3),
        rewards=[SortingReward()],
        seed=seed,
        **grouped(cls, gradient_clip_norm=None, **kwargs),
    )
    return policy, module


@SEEDS
def test_grpo_learns_to_sort_three_numbers(tmp_path: Path, seed: int) -> None:
    objective = Objective(entropy_coef=0.2)
    policy, module = sorting(
        GRPO,
        seed,
        baseline=CENTRED,
        objective=objective,
        epochs=2,
        optimizer=adam(7e-3),
        max_rollouts=100,
    )
    fit(module, tmp_path, data=Sorting(seed=seed))
    assert mean_reward(policy) >= 0.95 * 5


@pytest.mark.slow
@SEEDS
def test_reinforce_learns_to_sort_three_numbers(tmp_path: Path, seed: int) -> None:
    objective = Objective(loss=PolicyGradient(), entropy_coef=0.2)
    policy, module = sorting(
        REINFORCE, seed, deltas=CENTRED, objective=objective, optimizer=adam(1e-2), max_rollouts=120
    )
    fit(module, tmp_path, data=Sorting(seed=seed))
    assert mean_reward(policy) >= 0.95 * 5


@SEEDS
def test_ppo_finds_the_way_and_its_critic_the_value_of_every_cell(tmp_path: Path, seed: int) -> None:
    """With reward 1 at the goal and gamma 0.9 a cell d steps away is worth 0.9^(d - 1)."""
    policy, critic = CorridorPolicy(5), CorridorCritic(5)
    module = PPO(
        policy,
        critic=critic,
        sampling=Sampling(num_samples=16, max_tokens=40),
        rewards=[CorridorReward()],
        max_rollouts=40,
        seed=seed,
        estimator=GAE(gamma=0.9, gae_lambda=0.95),
        update=Update(epochs=4, optimizer=adam(0.05), gradient_clip_norm=None),
        critic_update=CriticUpdate(gradient_clip_norm=None, learning_rate=None),
    )
    fit(module, tmp_path, data=Corridor(5, seed=seed))
    assert all(probability > 0.98 for probability in policy.table().values())
    assert critic.table() == pytest.approx({d: 0.9 ** (d - 1) for d in range(1, 6)}, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_dpo_raises_margin_and_pass_rate_on_basics(tmp_path: Path, seed: int) -> None:
    """Imitate demonstrations with bugs, write, run, compare, learn from the pairs; nothing else is given."""
    small = {
        "model_type": "llama",
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "max_position_embeddings": 256,
        "tie_word_embeddings": True,
        "initializer_range": 0.04,
    }
    policy = CausalLM(config=small, tokenizer="package:lit_rl.data/basics/tokenizer", init_seed=seed)
    sft = SFT(policy, max_updates=220, seed=seed, update=Optimization(optimizer=adam(3e-3)))
    fit(sft, tmp_path, data=Basics(batch_size=32, seed=seed, draw_seed=seed))
    held_out = Basics(num_validation_problems=100, validation_batch_size=100, seed=seed, draw_seed=seed)
    module = DPO(
        policy,
        max_updates=60,
        rewards=[TestsReward()],
        sandbox=Sandbox,
        seed=seed,
        update=Optimization(optimizer=adam(1e-4)),
        evaluate=Evaluate(
            predict=Sampling(num_samples=8, max_tokens=40),
            sampling={"greedy": Sampling(temperature=0.0, max_tokens=40)},
        ),
    )
    pairs, writer = tmp_path / "pairs.jsonl", PreferenceWriter(str(tmp_path / "pairs.jsonl"), max_pairs=4)
    quiet: dict[str, Any] = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False}
    predicting = pl.Trainer(callbacks=[writer], inference_mode=False, **quiet)
    predicting.predict(module, Basics(max_train_problems=160, seed=seed, draw_seed=seed), return_predictions=False)
    validating = pl.Trainer(callbacks=[ExecutionEvaluation()], inference_mode=False, **quiet)
    before = validating.validate(module, held_out, verbose=False)[0]["val/greedy/pass@1"]
    trainer = fit(module, tmp_path, data=PreferencePairs(str(pairs), batch_size=16, seed=seed))
    after = validating.validate(module, held_out, verbose=False)[0]["val/greedy/pass@1"]
    assert trainer.callback_metrics["dpo/margin"] > 0.2  # it starts at exactly 0
    assert after > before + 0.1
