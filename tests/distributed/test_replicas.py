"""Whole copies of the weights, each spread over some of the ranks (HSDP)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from distributed.runs import MODULES, fit, trainer_of, whole_weights
from distributed.test_equality import difference
from support.ranks import on_ranks
from support.small_runs import Words

from lit_rl.callbacks import Checkpointing
from lit_rl.models import FSDP2Strategy


def in_replicas(replicas: int, **options: Any) -> FSDP2Strategy:
    return FSDP2Strategy(replicas=replicas, timeout_minutes=0.3, **options)


def trained(kind: str, tokenizer: str, folder: Path, *, ranks: int, strategy: Any) -> tuple[dict[str, Any], int]:
    """Whole weights after a run on four problems per rollout, and how many numbers of them this rank holds."""
    module = MODULES[kind](tokenizer)
    trainer_of(strategy, folder, ranks).fit(module, Words(batch_size=4 // ranks))
    held = sum(p.to_local().numel() for p in module.parameters() if hasattr(p, "to_local"))
    return whole_weights(module), held


def test_two_replicas_on_two_ranks_learn_what_one_process_learns(byte_tokenizer: str, tmp_path: Path) -> None:
    module = MODULES["grpo"](byte_tokenizer)
    alone = fit(module, "auto", tmp_path, devices=1, global_batch=4)
    size = sum(p.numel() for p in module.parameters())

    def on_two() -> Any:
        return trained("grpo", byte_tokenizer, tmp_path, ranks=2, strategy=in_replicas(2))

    for weights, held in on_ranks(on_two):
        assert difference(weights, alone) < 1e-8
        assert held == size


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize("load_on_rank_zero", [False, True])
def test_four_ranks_as_two_by_two_learn_what_one_process_learns(
    byte_tokenizer: str, tmp_path: Path, kind: str, load_on_rank_zero: bool
) -> None:
    """Each rank holds half of every copy; both copies are equal to the last bit."""
    module = MODULES[kind](byte_tokenizer)
    alone = fit(module, "auto", tmp_path, devices=1, global_batch=4)
    size = sum(p.numel() for p in module.parameters())

    def on_four() -> Any:
        strategy = in_replicas(2, load_on_rank_zero=load_on_rank_zero)
        return trained(kind, byte_tokenizer, tmp_path, ranks=4, strategy=strategy)

    answers = on_ranks(on_four, ranks=4, seconds=180)
    for weights, _ in answers:
        assert difference(weights, answers[0][0]) == 0.0
        assert difference(weights, alone) < 1e-8
    shares = [held for _, held in answers]
    assert shares[0] + shares[1] == shares[2] + shares[3] == size
    assert max(shares) < 0.6 * size


@pytest.mark.slow
def test_a_checkpoint_of_two_by_two_ranks_goes_on_on_two(byte_tokenizer: str, tmp_path: Path) -> None:
    def run(folder: str, ranks: int, replicas: int, rollouts: int) -> Any:
        module = MODULES["ppo"](byte_tokenizer)
        module.clock.limit = rollouts
        saving = Checkpointing(str(tmp_path / folder), 2)
        trainer = trainer_of(in_replicas(replicas), tmp_path, ranks, callbacks=[saving])
        last = saving.prepare(trainer, None)
        trainer.fit(module, Words(batch_size=4 // ranks), ckpt_path=last)
        return whole_weights(module), last

    on_ranks(lambda: run("stopped", 4, 2, 2), ranks=4, seconds=120)
    resumed = on_ranks(lambda: run("stopped", 2, 1, 5), seconds=120)
    whole = on_ranks(lambda: run("whole", 2, 1, 5), seconds=120)
    assert whole[0][1] is None and "rollout_000002" in resumed[0][1]
    assert difference(resumed[0][0], whole[0][0]) < 1e-8


def test_ranks_that_cannot_be_divided_are_refused_in_one_line(byte_tokenizer: str, tmp_path: Path) -> None:
    def on_two() -> str:
        with pytest.raises(ValueError, match=r"replicas=3 does not divide the number of ranks, 1 nodes x 2") as raised:
            fit_with(3)
        return str(raised.value)

    def fit_with(replicas: int) -> None:
        trainer_of(in_replicas(replicas), tmp_path, 2).fit(MODULES["grpo"](byte_tokenizer), Words(batch_size=2))

    assert all("\n" not in message for message in on_ranks(on_two))
    with pytest.raises(ValueError, match="replicas"):
        FSDP2Strategy(replicas=0)
