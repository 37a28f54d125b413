"""PPO: policy and critic, apart where they must be, together where they may be; completions that were cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support.asking import Watches
from support.late_verdicts import Late, Programs
from support.slow_cases import slow_but
from support.small_runs import Scored, Words, at_start, fit
from support.tiny_models import TINY_QWEN2, loaded

from lit_rl.data import Corridor, CorridorCritic, CorridorPolicy, CorridorReward
from lit_rl.execution import TokenTarget
from lit_rl.math.advantages import GAE
from lit_rl.models import CausalLM, LoRA, SeparateCritic, SharedCritic
from lit_rl.models.critic import ValueHead, values_and_tail_values
from lit_rl.modules import PPO, CriticConfig, Objective, RolloutModule, UpdateConfig
from lit_rl.modules.ppo import clipped_value_loss, explained_variance
from lit_rl.rewards.term import RewardOutput, Span, TermScore
from lit_rl.rewards.token_credit import credit_decided_before_end
from lit_rl.training.ranks import eval_mode
from lit_rl.types import Completions, Judgement, Problem, Sampling

Make = Callable[..., RolloutModule]
KL = Objective(kl_coef=0.05, kl_in="reward", kl_kind="k1")


def part(module: Any, name: str) -> torch.Tensor:
    return torch.cat([p.detach().flatten().clone() for p in module.trained_parameters_by_group()[name]])


def test_the_policy_stands_still_while_the_critic_warms_up(make_module: Make, tmp_path: Path) -> None:
    """Item 31."""

    def adamw(params: Any) -> torch.optim.Optimizer:
        return torch.optim.AdamW(params, lr=1e-2, weight_decay=0.1)

    module = make_module(PPO, critic=SeparateCritic(), critic_warmup_rollouts=2, max_rollouts=2, optimizer=adamw)
    fit(module, tmp_path)
    fresh = at_start(make_module(PPO, critic=SeparateCritic()))
    assert torch.equal(part(module, "policy"), part(fresh, "policy"))
    assert not torch.equal(part(module, "critic"), part(fresh, "critic"))


def test_policy_and_critic_are_clipped_by_norms_of_their_own(make_module: Make, tmp_path: Path) -> None:
    """Item 49: with plain SGD of rate 1 a step is as long as its clipped gradient; the critic's rate is its own."""
    options: dict[str, Any] = {"gradient_clip_norm": 1e-3, "critic_gradient_clip_norm": 2e-3, "max_rollouts": 1}
    options |= {"critic_learning_rate": 3.0, "optimizer": lambda params: torch.optim.SGD(params, lr=1.0)}
    module = at_start(make_module(PPO, critic=SeparateCritic(), **options))
    before = {name: part(module, name) for name in ("policy", "critic")}
    fit(module, tmp_path)
    for name, step in (("policy", 1e-3), ("critic", 3 * 2e-3)):
        assert (part(module, name) - before[name]).norm().item() == pytest.approx(step, rel=1e-3)


def test_a_shared_base_gives_three_heads_that_do_not_disturb_each_other(
    make_module: Make, byte_tokenizer: str, tmp_path: Path
) -> None:
    """Items 46, 47, 50: policy and critic adapters both learn, the base does not, the reference is the base."""
    module = make_module(PPO, critic=SharedCritic(), objective=KL, max_rollouts=2)
    module.policy.lora = LoRA(rank=2)
    fit(module, tmp_path)
    policy: CausalLM = module.policy
    learning = {n: p for n, p in policy.named_parameters() if p.requires_grad}
    assert all(".policy." in n or ".critic." in n for n in learning)
    for name in (".policy.", ".critic."):
        ends = [p for n, p in learning.items() if name in n and "lora_B" in n]  # these start at zero
        assert ends and all(p.abs().sum() > 0 for p in ends)
    groups = module.trained_parameters_by_group()
    assert not {id(p) for p in groups["policy"]} & {id(p) for p in groups["critic"]}
    base = loaded(byte_tokenizer, dtype="float64")
    with eval_mode(policy, base), torch.no_grad():
        problems = module.trainer.datamodule.problems("train")[:2]  # type: ignore[attr-defined]
        done = base.codec.completions_from_texts(problems, ["abc", "d"])
        assert torch.allclose(policy.make_reference().logprobs(done), base.logprobs(done), atol=1e-12)
        assert not torch.allclose(policy.logprobs(done), base.logprobs(done), atol=1e-12)


@pytest.mark.parametrize(
    ("value", "clip", "want", "slope"),
    [  # old value 0, return 1: near is clamp(value, -0.25, 0.25)
        (0.1, 0.25, 0.5 * 0.9**2, -0.9),  # within the clip: plain
        (0.5, 0.25, 0.5 * 0.75**2, 0.0),  # moved further towards the return than allowed: silent
        (-0.5, 0.25, 0.5 * 1.5**2, -1.5),  # moved away: the plain error is the larger one and lives
        (3.0, 0.25, 0.5 * 2.0**2, 2.0),  # overshot: |3 - 1| > |0.25 - 1|, lives and comes back
        (0.5, None, 0.5 * 0.5**2, -0.5),  # no clip: half the squared error, as in actor-critic without GAE
    ],
)
def test_clipped_value_loss_by_hand(value: float, clip: float | None, want: float, slope: float) -> None:
    """Item 28: around old values, the max of two losses, and 1/2 once."""
    values = torch.tensor([[value]], dtype=torch.float64, requires_grad=True)
    old, returns = torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)
    loss = clipped_value_loss(values, old, returns, value_clip=clip)
    loss.sum().backward()
    assert loss.item() == pytest.approx(want)
    assert values.grad.item() == pytest.approx(slope)


def test_returns_that_do_not_vary_leave_nothing_to_explain() -> None:
    returns = torch.tensor([[0.0, 2.0, 4.0, 99.0]], dtype=torch.float64)
    mask = torch.tensor([[True, True, True, False]])
    for constant, counted in ((torch.full_like(returns, 0.7), mask), (returns, ~mask & mask)):
        assert explained_variance(returns, constant, counted).item() == 0.0


@pytest.mark.parametrize("critic", [SeparateCritic, SharedCritic])
def test_the_value_head_starts_at_zero_learns_and_is_saved(make_module: Make, tmp_path: Path, critic: Any) -> None:
    """Item 30: equal on every rank without a word between them; in the critic's group; in the checkpoint."""
    module: Any = make_module(PPO, critic=critic(), max_rollouts=2)
    module.policy.lora = LoRA(rank=2) if critic is SharedCritic else None
    at_start(module)
    assert module.critic.head.weight.abs().sum() == module.critic.head.bias.abs().sum() == 0
    fit(module, tmp_path)
    assert module.critic.head.weight.abs().sum() > 0
    assert any(parameter is module.critic.head.weight for parameter in module.trained_parameters_by_group()["critic"])
    assert torch.equal(module.state_dict()["critic.head.weight"], module.critic.head.weight)


def test_a_head_beside_adapters_is_float32_on_a_narrower_trunk(make_module: Make) -> None:
    """At a learning rate of 1e-5 a head in bfloat16 would hardly move."""
    for critic in (SeparateCritic(lora=LoRA(rank=2), dtype="bfloat16"), SharedCritic()):
        policy: Any = make_module().policy
        policy.dtype, policy.lora = "bfloat16", LoRA(rank=2)
        policy.load()
        critic.load(policy)
        assert critic.head.weight.dtype is torch.float32
        values, tails = critic(policy.codec.completions_from_texts(Words().load_problems("train")[:2], ["abc", "d"]))
        assert values.dtype is tails.dtype is torch.float32


def test_a_value_is_read_before_its_token_and_the_tail_after_the_last_one(byte_tokenizer: str) -> None:
    """Item 26: hidden state s of row i is the number 100 i + s, and the head hands it on."""
    policy = loaded(byte_tokenizer)
    rows = policy.codec.completions_from_texts([Problem(p, p, TokenTarget()) for p in ("abc", "a")], ["xyzw", "x"])
    num_prompt, num_tokens = rows.prompt_ids.shape[1], rows.completion_ids.shape[1]
    assert (num_prompt, num_tokens, rows.lengths.tolist()) == (3, 5, [5, 2])
    state = 100 * torch.arange(2)[:, None] + torch.arange(num_prompt + num_tokens)
    head = ValueHead(1, torch.float32)
    with torch.no_grad():
        head.weight.fill_(1.0)
        values, tails = values_and_tail_values(state.float()[..., None], head, rows)
    assert values[0].tolist() == [2, 3, 4, 5, 6]  # the last prompt token is state 2
    assert values[1, :2].tolist() == [102, 103]
    assert tails.tolist() == [7, 104]  # after the last real token: states 3 - 1 + 5 and 3 - 1 + 2


class Endless(CausalLM):
    def load(self) -> None:
        super().load()
        self.codec.eos_ids = frozenset()


class Seen(Watches, PPO):
    """Its critic begins with a value of 0.7 everywhere."""

    def load_models(self) -> None:
        super().load_models()
        with torch.no_grad():
            self.critic.head.bias.fill_(0.7)


class Halves(Scored):
    """1 for a row whose program passed, and a place that was decided before the end in every row."""

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        return [TermScore(float(one.outcome.passed), (Span(0, 1, -0.25),)) for one in judgements]


def test_a_cut_row_keeps_its_outcome_only_if_its_program_passed(byte_tokenizer: str, tmp_path: Path) -> None:
    """Item 26: it returns its 1; one that did not pass, the critic's value and what was decided before."""
    module = Seen(
        Endless(config=TINY_QWEN2, tokenizer=byte_tokenizer),
        [Halves(0.0)],
        SeparateCritic(),
        sandbox=Late,
        sampling=Sampling(num_samples=4, max_tokens=5),
        critic_update=CriticConfig(bootstrap_truncated=True),
        max_rollouts=1,
    )
    fit(module, tmp_path, data=Programs(batch_size=3))
    rollout, experience = module.rollout, module.experience
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
    rewards = RewardOutput(torch.tensor([2.5]), torch.ones(1).bool(), {}, {}, lambda: (decided, decided))
    assert credit_decided_before_end(rewards, mask, "spans").tolist() == [[0.0, -0.5, 0.0, 0.0]]
    assert not credit_decided_before_end(rewards, mask, "terminal").any()


@pytest.mark.parametrize(
    ("rate", "given", "expected"), [(1e-6, None, 1e-5), (3e-4, None, 3e-4), (3e-4, 2e-6, 2e-6), (1e-6, 0.5, 0.5)]
)
def test_a_critic_learns_as_fast_as_its_policy_but_not_at_a_policys_tiny_rate(
    rate: float, given: float | None, expected: float
) -> None:
    policy, critic = CorridorPolicy(3), CorridorCritic(3)
    update = UpdateConfig(optimizer=adam(rate), lr_scheduler=partial(torch.optim.lr_scheduler.ConstantLR, factor=0.5))
    module = PPO(policy, critic=critic, rewards=[CorridorReward()], update=update, critic_update=CriticConfig(given))
    module.load_models()
    built = module.configure_optimizers()
    rates = {group["name"]: group["initial_lr"] for group in built["optimizer"].param_groups}
    assert rates == {"policy": rate, "critic": expected}  # before the schedule, which has seen them


SEEDS = pytest.mark.parametrize("seed", slow_but((0,), range(3)))


def adam(lr: float) -> Any:
    return partial(torch.optim.Adam, lr=lr)


class OfRows(GAE):
    def estimate(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        advantages, returns = super().estimate(*tensors)
        return advantages, returns[:, :1]


def test_an_estimator_that_returns_rows_for_tokens_is_refused(make_module: Make, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="returns must be"):
        fit(make_module(PPO, critic=SeparateCritic(), estimator=OfRows(), max_rollouts=1), tmp_path)


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
        update=UpdateConfig(epochs=4, optimizer=adam(0.05), gradient_clip_norm=None),
        critic_update=CriticConfig(gradient_clip_norm=None),
    )
    fit(module, tmp_path, data=Corridor(5, seed=seed))
    table: Any = policy.weights
    assert bool((table.weight[1:].softmax(-1)[:, 1] > 0.98).all())
    assert critic.weights.weight[1:, 0].tolist() == pytest.approx([0.9**d for d in range(5)], rel=0.05)
