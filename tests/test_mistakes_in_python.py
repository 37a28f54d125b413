"""Mistakes of people who write Python: each is refused in one line where the object is built, not in rollout 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from lit_rl import DPO, GRPO, PPO, SFT, CausalLM, Sampling, TestsReward
from lit_rl.modules import Evaluate, Optimization, Update
from lit_rl.rewards import RewardTerm
from lit_rl.rewards.term import TermScore


class NoInit(RewardTerm):
    """Forgets the constructor of its base."""

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    def score(self, completions: Any, judgements: Any) -> list[TermScore]:
        return []


WEIGHTS = [torch.nn.Parameter(torch.zeros(()))]
ADAM = torch.optim.AdamW(WEIGHTS)
POLICY = CausalLM("folder")


def grpo(policy: Any = POLICY, **given: Any) -> GRPO:
    return GRPO(policy, **({"rewards": [TestsReward()]} | given))


# what is written, and what the answer must say
MISTAKES: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "a term without a list": (
        lambda: grpo(rewards=TestsReward()),
        ("rewards: expected a list of reward terms such as [TestsReward()], got <lit_rl.",),
    ),
    "a term by name": (lambda: grpo(rewards="TestsReward"), ("rewards: expected a list", "got 'TestsReward'")),
    "terms in a set": (lambda: grpo(rewards={TestsReward()}), ("rewards: expected a list", "got {<lit_rl.")),
    "a term that forgets its base": (
        lambda: grpo(rewards=[NoInit()]),
        ("NoInit has no name and weight: have NoInit.__init__ call super().__init__(",),
    ),
    "sampling as a dict": (
        lambda: grpo(sampling={"num_samples": 4}),
        ("sampling: expected an object such as Sampling(num_samples=8), got {'num_samples': 4}",),
    ),
    "sampling of PPO": (lambda: PPO(POLICY, [], POLICY, sampling={}), ("sampling: expected an object", "got {}")),  # type: ignore[arg-type]
    "validation by a dict": (
        lambda: Evaluate({"greedy": {"temperature": 0}}),
        ("sampling['greedy']: expected an object such as Sampling(temperature=0.0), got {'temperature': 0}",),
    ),
    "validation without a name": (
        lambda: Evaluate(Sampling()),
        ('sampling: expected an object such as {"greedy": Sampling(temperature=0.0)}, got Sampling(',),
    ),
    "an objective as a dict": (
        lambda: grpo(objective={"kl_coef": 0.1}),
        ("objective: expected an object such as Objective(kl_coef=0.01), got {'kl_coef': 0.1}",),
    ),
    "no objective": (lambda: grpo(objective=None), ("objective: expected an object", "got None")),
    "a folder for a policy": (
        lambda: grpo("folder"),
        ("policy: expected an object such as CausalLM(\"folder\"), got 'folder'",),
    ),
    "a model for a policy": (
        lambda: SFT(torch.nn.Sequential(torch.nn.Linear(1, 1))),  # type: ignore[arg-type]
        ("policy: expected", "got Sequential( (0): Linear"),
    ),
    "a built optimizer": (
        lambda: Update(optimizer=ADAM),
        ("optimizer: expected a function of the parameters",),
    ),
    "a built schedule": (
        lambda: SFT(POLICY, update=Optimization(lr_scheduler=torch.optim.lr_scheduler.LinearLR(ADAM))),  # type: ignore[arg-type]
        ("lr_scheduler: expected a function of the optimizer", "got <torch"),
    ),
    "a critic by name": (
        lambda: PPO(POLICY, critic="folder", rewards=[TestsReward()]),  # type: ignore[arg-type]
        ("critic: expected an object such as SeparateCritic(), got 'folder'",),
    ),
    "adapters as a dict": (
        lambda: CausalLM("folder", lora={"rank": 8}),  # type: ignore[arg-type]
        ("lora: expected an object such as LoRA(rank=16), got {'rank': 8}",),
    ),
    "another library's group": (
        lambda: grpo(num_generations=8),
        ("GRPO has no argument num_generations: give sampling=Sampling(num_samples=...)",),
    ),
    "a field of the sampling": (lambda: grpo(max_tokens=8), ("give sampling=Sampling(max_tokens=...)",)),
    "a field of the objective": (lambda: grpo(kl_coef=0.1), ("give objective=Objective(kl_coef=...)",)),
    "a bound of the loss": (
        lambda: grpo(clip_low=0.1),
        ("GRPO has no argument clip_low: give objective=Objective(loss=Clipped(clip_low=...))",),
    ),
    "an argument of 0.3": (lambda: grpo(num_epochs=2), ("give update=Update(epochs=...)",)),
    "a switch of 0.3 in two groups": (
        lambda: PPO(POLICY, truncation="mask"),  # type: ignore[call-arg]
        ("give critic_update=CriticUpdate(bootstrap_truncated=...) or update=Update(mask_truncated=...)",),
    ),
    "an argument that is gone": (lambda: grpo(token_weights=True), ("token_weights: version 0.4 has removed it",)),
    "a field of the update": (lambda: grpo(epochs=2), ("give update=Update(epochs=...)",)),
    "an update of texts": (
        lambda: SFT(POLICY, optimizer=ADAM),  # type: ignore[call-arg]
        ("give update=Optimization(optimizer=...)",),
    ),
    "a mistyped argument": (lambda: grpo(max_rollout=3), ("no argument max_rollout; did you mean max_rollouts?",)),
    "an argument of another method": (
        lambda: DPO(POLICY, num_generations=8),  # type: ignore[call-arg]
        ("DPO has no argument num_generations: it takes policy, kind, beta, rewards, ",),
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_in_one_line_when_it_is_built(mistake: str) -> None:
    build, parts = MISTAKES[mistake]
    with pytest.raises((ValueError, TypeError)) as refused:
        build()
    line = str(refused.value)
    assert "\n" not in line and [part for part in parts if part not in line] == [], line


def test_any_sequence_of_terms_will_do() -> None:
    rewards = grpo(rewards=(TestsReward(),)).rewards
    assert rewards is not None and [term.name for term in rewards.terms] == ["tests"]
