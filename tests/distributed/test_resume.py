"""Checkpoints of several ranks: resumed to the last bit, on as many ranks or on others; faults in one line."""

from __future__ import annotations

import os
import shutil
import signal
import warnings
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch.distributed as dist
from distributed.runs import KL, build, policy, sgd, trainer_of, whole_weights
from lightning.pytorch.callbacks import LambdaCallback
from support.ranks import on_ranks
from support.saved_runs import CrashAt, names
from support.slow_cases import slow_but
from support.small_runs import Words, adam
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.optim.lr_scheduler import LinearLR, OneCycleLR

from lit_rl.callbacks import Checkpointing, ExecutionEvaluation
from lit_rl.models import SeparateCritic, SharedCritic
from lit_rl.modules import GRPO, PPO, Objective, RolloutModule
from lit_rl.types import Sampling

PENALTY = Objective(kl_coef=0.05, kl_in="reward", kl_kind="k1")


def module(kind: str, tokenizer: str, rollouts: int, optimizer: Any = adam) -> RolloutModule:
    """Modules with state wherever there may be some; Adam's moments show every lost bit."""
    common: dict[str, Any] = {"optimizer": optimizer, "max_rollouts": rollouts, "microbatch_size": 8}
    common["lr_scheduler"] = lambda of: LinearLR(of, 1.0, 0.1, 12)
    if kind == "grpo":
        return build(GRPO, policy(tokenizer), objective=KL, refresh_reference_every=3, **common)
    if kind == "grpo-lora":
        return build(GRPO, policy(tokenizer, lora=True), objective=KL, refresh_reference_every=3, **common)
    common |= {"objective": PENALTY, "warmup_rollouts": 3}
    if kind == "ppo-shared":
        return build(PPO, policy(tokenizer, lora=True), critic=SharedCritic(), **common)
    return build(PPO, policy(tokenizer), critic=SeparateCritic(), **common)


def run(
    made: RolloutModule, name: str, callback: Checkpointing, *others: pl.Callback, devices: int, **kwargs: Any
) -> Any:
    """Start or go on, four problems a rollout on any number of ranks: an epoch has three rollouts."""
    batch_size = kwargs.pop("batch_size", 4 // devices)
    trainer = trainer_of(name, callback.run_folder.path, devices, callbacks=[callback, *others], **kwargs)
    trainer.fit(made, Words(batch_size=batch_size), ckpt_path=callback.lock_and_resolve_checkpoint(trainer))
    return whole_weights(made)


def same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return first.keys() == second.keys() and all(np.array_equal(first[n], second[n]) for n in first)


@pytest.mark.parametrize(
    ("strategy", "kind", "every"),
    slow_but(
        [("fsdp2", "grpo", 2), ("offload", "grpo", 2)],
        [
            *(("offload", "grpo", 2), ("offload", "ppo", 5), ("offload", "grpo-lora", 4)),
            *(("fsdp2", "grpo", 2), ("fsdp2", "grpo", 3), ("fsdp2", "ppo", 5), ("fsdp2", "ppo", 6)),
            *(("fsdp2", "grpo-lora", 4), ("ddp", "ppo-shared", 3)),
        ],
    ),
)
def test_two_ranks_that_crash_end_with_the_weights_of_two_that_do_not(
    byte_tokenizer: str, tmp_path: Path, strategy: str, kind: str, every: int
) -> None:
    """Items 55 to 57: within an epoch (2, 5), at its end (3, 6), while the critic warms up (2), validation between."""
    rollouts = every + 2

    def on_two() -> Any:
        validation = {"limit_val_batches": 1.0, "val_check_interval": 2, "check_val_every_n_epoch": None}
        first, crashing, second = (module(kind, byte_tokenizer, rollouts) for _ in range(3))
        whole = run(first, strategy, Checkpointing(str(tmp_path / "w"), None), devices=2)
        folder = str(tmp_path / "a")
        with pytest.raises(InterruptedError):
            run(crashing, strategy, Checkpointing(folder, every), CrashAt(every + 1), devices=2, **validation)
        resumed = run(second, strategy, Checkpointing(folder, every), devices=2, **validation)
        return same(resumed, whole), second.clock.count

    assert on_ranks(on_two) == [(True, rollouts)] * 2


@pytest.mark.parametrize("kind", slow_but(["grpo"], ["grpo", "ppo-shared"]))
def test_the_number_of_ranks_may_change_from_two_to_one_to_two(byte_tokenizer: str, tmp_path: Path, kind: str) -> None:
    """With the same global batch; the first checkpoint is made before the policy's first step (``ppo``)."""

    def on(ranks: int, rollouts: int) -> Any:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            made = module(kind, byte_tokenizer, rollouts, sgd)
            found = run(made, "fsdp2", Checkpointing(str(tmp_path), 1), devices=ranks)
        return found, [str(w.message) for w in told if "ranks, but this run has" in str(w.message)]

    on_ranks(on, 2, 1)
    ((_, told),) = on_ranks(on, 1, 2, ranks=1)
    assert told == [
        "the checkpoint was made by 2 ranks, but this run has 1: the same problems and samples follow, "
        "but dropout draws other numbers"
    ]
    (resumed, _), _ = on_ranks(on, 2, 4)

    def undisturbed() -> Any:
        made = module(kind, byte_tokenizer, 4, sgd)
        return run(made, "fsdp2", Checkpointing(str(tmp_path / "w"), None), devices=2)

    whole = on_ranks(undisturbed)[0]
    assert max(np.abs(resumed[name] - whole[name]).max() for name in whole) < 1e-10


@pytest.mark.slow
def test_two_ranks_continue_a_longer_schedule(byte_tokenizer: str, tmp_path: Path) -> None:
    """The checkpoint of shards is read after the model is set up: the run's count is known late."""

    def start(folder: str, rollouts: int, schedule: Any) -> Any:
        made = build(GRPO, policy(byte_tokenizer), optimizer=adam, max_rollouts=rollouts, lr_scheduler=schedule)
        run(made, "fsdp2", Checkpointing(str(tmp_path / folder), 1), devices=2)
        return [group["lr"] for group in made.trainer.optimizers[0].param_groups], made.clock.count

    def on_two() -> Any:
        start("cycle", 2, lambda of: OneCycleLR(of, 0.1, total_steps=3))
        whole = start("whole", 4, lambda of: OneCycleLR(of, 0.1, total_steps=6))
        return start("cycle", 4, lambda of: OneCycleLR(of, 0.1, total_steps=6)), whole

    assert all(longer == whole and whole[1] == 4 for longer, whole in on_ranks(on_two))


Saved = tuple[Path, set[str]]


@pytest.fixture(scope="module")
def saved(byte_tokenizer: str, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """Folder of the checkpoints of two rollouts of two ranks, and the names of what learned: adapters and a head."""
    folder = tmp_path_factory.mktemp("saved")

    def on_two() -> Any:
        return run(module("ppo-shared", byte_tokenizer, 2), "fsdp2", Checkpointing(str(folder), 1), devices=2)

    return folder, set(on_ranks(on_two)[0])


@pytest.fixture
def own(saved: Saved, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved[0], tmp_path / "own", symlinks=True))


def test_sharded_checkpoints_hold_only_what_configuration_cannot_rebuild(saved: Saved) -> None:
    """An adapter run: adapters and head, no frozen base."""
    metadata = FileSystemReader(saved[0] / "rollout_000001.ckpt").read_metadata()
    held = {n.removeprefix("state_dict.") for n in metadata.state_dict_metadata if n.startswith("state_dict.")}
    assert held == saved[1]
    assert all("lora" in name or name.startswith("critic.head") for name in held)


def test_another_global_batch_is_refused_with_what_to_set(byte_tokenizer: str, own: Path) -> None:
    def on_one() -> Any:
        made = module("ppo-shared", byte_tokenizer, 3)
        return run(made, "fsdp2", Checkpointing(str(own), 1), devices=1, batch_size=3)

    with pytest.raises(
        AssertionError, match=r"global batch of 4 problems, but this run has 3 .*set batch_size to 4 to"
    ):
        on_ranks(on_one, ranks=1)


def test_a_missing_shard_is_noticed_and_the_checkpoint_before_is_used(byte_tokenizer: str, own: Path) -> None:
    def on_two() -> list[str]:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            run(module("ppo-shared", byte_tokenizer, 2), "fsdp2", Checkpointing(str(own), 1), devices=2)
        return [str(w.message) for w in told if "broken" in str(w.message)]

    next((own / "rollout_000002.ckpt").glob("__1_*.distcp")).unlink()
    (told,), _ = on_ranks(on_two)
    assert "rollout_000002.ckpt is broken (__1_0.distcp does not have its " in told
    assert names(own) == ["rollout_000001.ckpt", "rollout_000002.ckpt", "rollout_000002.ckpt.broken"]


@pytest.mark.parametrize(
    ("strategy", "who"),
    slow_but([("fsdp2", (1,))], [(strategy, who) for strategy in ("fsdp2", "ddp") for who in ((0,), (1,), (0, 1))]),
)
def test_a_signal_to_any_rank_ends_all_at_the_same_rollout(
    byte_tokenizer: str, tmp_path: Path, strategy: str, who: tuple[int, ...]
) -> None:
    def signalled(trainer: pl.Trainer, pl_module: Any, *_: Any) -> None:
        if pl_module.clock.count == 1 and trainer.global_rank in who:
            os.kill(os.getpid(), signal.SIGTERM)

    def on_two() -> Any:
        made, callback = module("grpo", byte_tokenizer, 3), Checkpointing(str(tmp_path))
        run(made, strategy, callback, LambdaCallback(on_train_batch_start=signalled), devices=2)
        first = (made.clock.count, callback.exit_status)
        again = module("grpo", byte_tokenizer, 3)
        run(again, strategy, Checkpointing(str(tmp_path)), devices=2)
        return first, again.clock.count

    assert on_ranks(on_two) == [((2, 75), 3)] * 2


def test_pass_at_k_of_two_ranks_is_that_of_one(byte_tokenizer: str, tmp_path: Path) -> None:
    """Item 67: five problems in batches of two: the last batch leaves the second rank without a problem."""

    class Counted(ExecutionEvaluation):
        def on_validation_batch_end(self, *args: Any, **kwargs: Any) -> None:
            rollout = args[2].rollouts["sampled"]
            seen.extend(p.task_id for p in rollout.completions.problems[::2])
            super().on_validation_batch_end(*args, **kwargs)

    seen: list[str] = []

    def validate(strategy: str, devices: int) -> Any:
        made = build(
            GRPO, policy(byte_tokenizer), validation_sampling={"sampled": Sampling(num_samples=2, max_tokens=5)}
        )
        trainer = trainer_of(strategy, tmp_path, devices, callbacks=[Counted(ks=[1, 2])], limit_val_batches=1.0)
        data = Words(batch_size=2, validation_batch_size=2, max_validation_problems=5)
        (metrics,) = trainer.validate(made, data, verbose=False)
        return metrics, list(seen)

    alone, everyone = validate("auto", 1)
    assert alone["val/sampled/num_problems"] == 5.0
    for strategy in ("fsdp2", "ddp"):
        seen.clear()
        (first, some), (second, others) = on_ranks(validate, strategy, 2)
        assert first == second == alone
        assert sorted(some + others) == sorted(everyone)
        assert (len(some), len(others)) == (3, 2)


def test_a_rank_that_is_left_alone_says_where_it_waited(
    byte_tokenizer: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The second rank dies while sampling; the first one waits for it and says so."""

    def die(trainer: pl.Trainer, pl_module: Any, *_: Any) -> None:
        if pl_module.clock.count == 1 and trainer.global_rank == 1:
            os._exit(1)

    def on_two() -> Any:
        dying = LambdaCallback(on_train_batch_start=die)
        return run(module("grpo", byte_tokenizer, 4), "fsdp2", Checkpointing(str(tmp_path)), dying, devices=2)

    with pytest.raises(AssertionError, match="rank 0"):
        on_ranks(on_two, seconds=30)
    assert "rank 0 of 2, while sampling: " in capfd.readouterr().out
    assert not dist.is_initialized()
