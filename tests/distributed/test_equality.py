"""One process, two with copies, two with shards: the same completions give the same weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from distributed.runs import MODULES, build, fit, policy, trainer_of, whole_weights
from support.asking import AsksAgain, WatchedGRPO
from support.ranks import on_ranks
from support.slow_cases import slow_but
from support.small_runs import Words
from support.two_turns import LastTurn
from torch.overrides import TorchFunctionMode

from lit_rl.models import FSDP2Strategy, SeparateCritic
from lit_rl.modules import GRPO, PPO, minibatches, rollout_module
from lit_rl.modules.minibatches import equalize_microbatch_count
from lit_rl.training.ranks import unsharded_weights


def difference(first: dict[str, Any], second: dict[str, Any]) -> float:
    assert first.keys() == second.keys()
    return max(float(np.abs(first[name] - second[name]).max()) for name in first)


@pytest.mark.parametrize("kind", slow_but(["grpo-lora"], sorted(MODULES)))
def test_two_ranks_learn_what_one_process_learns(byte_tokenizer: str, tmp_path: Path, kind: str) -> None:
    """Items 3, 6, 20, 21, 46, 49, 52: uneven lengths, idle ranks, clipping; whole rows alone, shared prompts on two."""
    make = MODULES[kind]

    def on_two(strategy: Any) -> Any:
        zero_weight_row, idled = rollout_module.zero_weight_row, []
        rollout_module.zero_weight_row = lambda experience: idled.append(1) or zero_weight_row(experience)
        return fit(make(byte_tokenizer), strategy, tmp_path, devices=2), len(idled)

    module = make(byte_tokenizer)
    assert module.policy.share_prompts
    module.policy.share_prompts = False
    alone = fit(module, "auto", tmp_path, devices=1)
    start = make(byte_tokenizer)
    start.policy.load()
    moved = [np.abs(alone[n] - p.detach().numpy()).max() for n, p in start.named_parameters() if n in alone]
    assert max(moved) > 1e-3
    for strategy in ("ddp", "fsdp2", FSDP2Strategy(whole_gradients=True, timeout_minutes=0.3)):
        (first, idled), (second, idled_too) = on_ranks(on_two, strategy)
        assert idled + idled_too > 0  # a rank had less to do than the other
        assert difference(first, second) == 0.0
        assert difference(first, alone) < 1e-10


@pytest.mark.parametrize(
    ("kind", "strategy"), slow_but([("grpo", "fsdp2")], [("ppo-shared", "ddp"), ("grpo", "fsdp2")])
)
def test_a_budget_of_tokens_changes_nothing_on_two_ranks(
    byte_tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, strategy: str
) -> None:
    """Ranks have other lengths, so other numbers of micro-batches: none waits for one that the other does not have."""

    def run(name: str, devices: int, budget: int | None) -> tuple[dict[str, Any], list[int]]:
        module = MODULES[kind](byte_tokenizer)
        module.update = replace(module.update, microbatch_size=None, microbatch_tokens=budget)
        module.clock.limit = 2
        parts: list[int] = []

        def counted(*given: Any) -> Any:
            parts.append(len(microbatches := equalize_microbatch_count(*given)))
            return microbatches

        for place in (minibatches, rollout_module):
            monkeypatch.setattr(place, "equalize_microbatch_count", counted)
        return fit(module, name, tmp_path, devices=devices), parts

    alone, parts = run("auto", 1, None)
    assert set(parts) <= {0, 1}
    (first, of_first), (second, of_second) = on_ranks(run, strategy, 2, 20)
    assert of_first == of_second and max(of_first) > 1
    assert difference(first, second) == 0.0
    assert difference(first, alone) < 1e-10


def test_ranks_end_the_updates_of_a_rollout_together(byte_tokenizer: str, tmp_path: Path) -> None:
    """The KL that ends them is that of all ranks: one that decided by its own would leave the other waiting."""

    def run(strategy: str, devices: int) -> tuple[dict[str, Any], int]:
        module = build(PPO, policy(byte_tokenizer), critic=SeparateCritic(), epochs=6, max_kl=4e-3)
        found = fit(module, strategy, tmp_path, devices=devices)
        return found, module.trainer.global_step

    alone, updates = run("auto", 1)
    assert 5 < updates < 5 * 6
    for weights, steps in on_ranks(lambda: run("ddp", 2)):
        assert steps == updates
        assert difference(weights, alone) < 1e-10


@pytest.mark.parametrize("kind", slow_but(["ppo"], ["ppo", "ppo-shared"]))
def test_weights_that_only_rank_0_loads_train_like_weights_that_all_load(
    byte_tokenizer: str, tmp_path: Path, kind: str
) -> None:
    """Built on the meta device elsewhere: tied weights, rotary frequencies, adapters and the end-of-text ids too."""
    base = policy(byte_tokenizer)
    base.load()
    base.model.generation_config.eos_token_id = [256, 65]
    base.save_pretrained(tmp_path / "base")

    def on_two(from_zero: bool) -> Any:
        module = MODULES[kind](byte_tokenizer)
        module.policy.config, module.policy.source, module.clock.limit = None, str(tmp_path / "base"), 2
        trainer = trainer_of(FSDP2Strategy(timeout_minutes=0.3, load_on_rank_zero=from_zero), tmp_path, 2)
        trainer.fit(module, Words(batch_size=1))
        model = module.policy.model
        ids = module.policy.model.generation_config.eos_token_id
        inner = model.get_base_model() if hasattr(model, "get_base_model") else model
        tied = inner.lm_head.weight is inner.model.embed_tokens.weight
        return whole_weights(module), ids, tied

    expected, found = on_ranks(on_two, False), on_ranks(on_two, True)
    assert found[0][1:] == found[1][1:] == ([256, 65], True)
    assert difference(expected[0][0], found[1][0]) == 0.0


class Moved(TorchFunctionMode):
    """Bytes that are copied between the CPU and a device, if that is another one; here both are the CPU."""

    def __init__(self) -> None:
        self.bytes = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if (func is torch.empty and "pin_memory" in kwargs) or (func is torch.Tensor.to and "non_blocking" in kwargs):
            self.bytes += result.nbytes  # torch 2.10 copies activations without the argument, but makes room with it
        return result


@pytest.mark.parametrize("kind", slow_but(["grpo"], ["grpo", "ppo-shared", "ppo"]))
def test_weights_and_activations_that_wait_on_the_cpu_learn_the_same_bits(
    byte_tokenizer: str, tmp_path: Path, kind: str
) -> None:
    """Also for adapters, which must be the same ones in the second computation, and a frozen reference."""

    def on_two(weights: bool, activations: Any) -> Any:
        module = MODULES[kind](byte_tokenizer)
        module.policy.gradient_checkpointing = activations
        module.clock.limit = 2
        trainer = trainer_of(FSDP2Strategy(timeout_minutes=0.3, offload=weights), tmp_path, 2)
        with Moved() as moved:
            trainer.fit(module, Words(batch_size=1))
        shares = sum(p.to_local().nbytes for p in module.parameters())
        return whole_weights(module), moved.bytes, shares

    ((plain, nothing, shares), _) = on_ranks(on_two, False, False)
    assert nothing == 0
    ((again, nothing, _), _) = on_ranks(on_two, False, True)
    assert nothing == 0 and difference(again, plain) < 1e-12
    for weights, activations, same, copies in ((True, False, plain, 4), (False, "offload", again, 0)):
        ((found, moved, _), _) = on_ranks(on_two, weights, activations)
        assert difference(found, same) == 0.0
        assert moved > copies * shares  # weights to sample and to learn in two rollouts, and their gradients


def test_two_ranks_in_bfloat16_move_their_masters_as_one_process_does(byte_tokenizer: str, tmp_path: Path) -> None:
    """Each micro-batch adds to float32 masters, which are averaged over ranks before the step."""

    def masters(strategy: str, devices: int, rate: float = 1.0) -> list[Any]:
        actor = policy(byte_tokenizer, dtype="bfloat16")
        module = build(
            PPO,
            actor,
            critic=SeparateCritic(),
            critic_learning_rate=rate,
            optimizer=lambda groups: torch.optim.SGD(groups, lr=rate),
            gradient_clip_norm=None,
            microbatch_size=1,
            max_rollouts=1,
            epochs=1,
        )
        trainer_of(strategy, tmp_path, devices).fit(module, Words(batch_size=2 // devices))
        optimizer: Any = module.optimizers()
        weights = [p for group in optimizer.param_groups for p in group["params"]]
        assert {p.dtype for p in weights} == {torch.float32} != {p.dtype for p in module.parameters()}
        return [p.detach().numpy().copy() for p in weights]

    alone, start = masters("auto", 1), masters("auto", 1, rate=1e-30)
    moved = [float(np.linalg.norm(one - first)) for one, first in zip(alone, start, strict=True)]
    for found in on_ranks(lambda: masters("ddp", 2)):
        gaps = [float(np.linalg.norm(one - other)) for one, other in zip(found, alone, strict=True)]
        assert sum(moved) > 0.01 and sum(gaps) < 0.05 * sum(moved)


def test_gathered_weights_are_bfloat16_and_the_masters_stay_float32(byte_tokenizer: str, tmp_path: Path) -> None:
    """With a learning rate below bfloat16's resolution the masters still move."""
    seen = []

    class Watch(GRPO):
        def collect(self, *args: Any) -> Any:
            with unsharded_weights(self.policy):
                seen.append(str(next(self.policy.model.parameters()).dtype))
            return super().collect(*args)

    def on_two() -> Any:
        tiny = {"optimizer": lambda p: torch.optim.Adam(p, lr=1e-6), "gradient_clip_norm": None}
        module = build(Watch, policy(byte_tokenizer, dtype="float32"), **tiny)
        trainer = trainer_of(FSDP2Strategy("bfloat16", timeout_minutes=0.3), tmp_path, 2)
        trainer.fit(module, Words(batch_size=2))
        return seen[0], whole_weights(module)

    dtype, weights = on_ranks(on_two)[0]
    start = policy(byte_tokenizer, dtype="float32")
    start.load()
    before = {f"policy.{name}": p.detach().numpy() for name, p in start.named_parameters()}
    assert dtype == "torch.bfloat16"
    assert {str(w.dtype) for w in weights.values()} == {"float32"}
    assert 1e-7 < difference(weights, before) < 1e-4


@pytest.mark.parametrize("strategy", slow_but(["ddp"], ["ddp", "fsdp2"]))
def test_two_ranks_learn_from_answers_what_one_process_learns(
    byte_tokenizer: str, tmp_path: Path, strategy: str
) -> None:
    def trained(name: str, devices: int) -> tuple[dict[str, Any], list[list[int]]]:
        options = {"environment": AsksAgain("02468"), "rewards": [LastTurn()], "max_rollouts": 6}
        module: Any = build(WatchedGRPO, policy(byte_tokenizer), **options)
        return fit(module, name, tmp_path, devices=devices), module.seen

    alone, seen = trained("auto", 1)
    (first, of_first), (second, of_second) = on_ranks(lambda: trained(strategy, 2))
    assert [sorted(a + b) for a, b in zip(of_first, of_second, strict=True)] == [sorted(turns) for turns in seen]
    pairs = zip(of_first, of_second, strict=True)
    assert any((max(a) == 1) != (max(b) == 1) for a, b in pairs), (of_first, of_second)
    assert difference(first, second) == 0.0
    assert difference(first, alone) < 1e-10


def in_replicas(replicas: int, **options: Any) -> FSDP2Strategy:
    return FSDP2Strategy(replicas=replicas, timeout_minutes=0.3, **options)


def trained(kind: str, tokenizer: str, folder: Path, *, ranks: int, strategy: Any) -> tuple[dict[str, Any], int]:
    """Whole weights after a run on four problems per rollout, and how many numbers of them this rank holds."""
    module = MODULES[kind](tokenizer)
    module.clock.limit = 2
    trainer_of(strategy, folder, ranks).fit(module, Words(batch_size=4 // ranks))
    held = sum(p.to_local().numel() for p in module.parameters() if hasattr(p, "to_local"))
    return whole_weights(module), held


def test_two_replicas_on_two_ranks_learn_what_one_process_learns(byte_tokenizer: str, tmp_path: Path) -> None:
    module = MODULES["grpo"](byte_tokenizer)
    module.clock.limit = 2
    alone = fit(module, "auto", tmp_path, devices=1, global_batch=4)
    size = sum(p.numel() for p in module.parameters())

    def on_two() -> Any:
        return trained("grpo", byte_tokenizer, tmp_path, ranks=2, strategy=in_replicas(2))

    for weights, held in on_ranks(on_two):
        assert difference(weights, alone) < 1e-10
        assert held == size


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options"),
    [("grpo", {}), ("ppo-shared", {"load_on_rank_zero": True}), ("ppo-shared", {"whole_gradients": True})],
)
def test_four_ranks_as_two_by_two_learn_what_one_process_learns(
    byte_tokenizer: str, tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    """Each rank holds half of every copy; both copies are equal to the last bit."""
    module = MODULES[kind](byte_tokenizer)
    module.clock.limit = 2
    alone = fit(module, "auto", tmp_path, devices=1, global_batch=4)
    size = sum(p.numel() for p in module.parameters())

    def on_four() -> Any:
        strategy = in_replicas(2, **options)
        return trained(kind, byte_tokenizer, tmp_path, ranks=4, strategy=strategy)

    answers = on_ranks(on_four, ranks=4, seconds=180)
    for weights, _ in answers:
        assert difference(weights, answers[0][0]) == 0.0
        assert difference(weights, alone) < 1e-10
    shares = [held for _, held in answers]
    assert shares[0] + shares[1] == shares[2] + shares[3] == size
    assert max(shares) < 0.6 * size
