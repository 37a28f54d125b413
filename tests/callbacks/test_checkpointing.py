"""A run that is interrupted ends like one that is not, and nothing that was saved is ever lost."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import LambdaCallback
from support.saved_runs import CrashAt, Curves, names, run
from support.slow_cases import slow_but
from support.small_runs import Clock, adam, build_module, everything
from support.tiny_models import TINY_QWEN2

from lit_rl.callbacks import Checkpointing
from lit_rl.callbacks.checkpointing import gather_random_states, restore_random_state
from lit_rl.execution import SandboxError
from lit_rl.models import CausalLM, SeparateCritic
from lit_rl.modules import GRPO, PPO, SFT, Optimization, RolloutModule
from lit_rl.training.checkpoints import RunFolder, RunIsLiveError

Make = Callable[..., RolloutModule]
ALGORITHMS: dict[type[RolloutModule], Callable[[], dict[str, Any]]] = {
    GRPO: dict,
    PPO: lambda: {"critic": SeparateCritic(), "critic_warmup_rollouts": 3},
}


def schedule(optimizer: torch.optim.Optimizer) -> Any:
    return torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 10)


@pytest.fixture(scope="module")
def build(byte_tokenizer: str) -> Callable[..., RolloutModule]:
    """A module of ten rollouts with state wherever there may be some."""

    def make(cls: type[RolloutModule] = GRPO, **kwargs: Any) -> RolloutModule:
        common: dict[str, Any] = {"optimizer": adam, "lr_scheduler": schedule, "epochs": 2, "minibatches": 2}
        return build_module(byte_tokenizer, cls, **(common | {"max_rollouts": 10} | ALGORITHMS[cls]() | kwargs))

    return make


@pytest.fixture(scope="module")
def undisturbed(build: Make, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of six rollouts, each saved, that nothing disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run(build(max_rollouts=6), Checkpointing(str(folder), 1, keep=9))
    return folder


def ends_as(module: RolloutModule, undisturbed: Path) -> bool:
    """Check that weights are those of the undisturbed run after as many rollouts, to the last bit."""
    path = undisturbed / f"rollout_{module.clock.count:06d}.ckpt"
    saved = torch.load(path, weights_only=True)["state_dict"]
    return all(torch.equal(value, saved[name]) for name, value in module.named_parameters())


WITHOUT_VALIDATION: dict[str, Any] = {}
BETWEEN = {"limit_val_batches": 1.0, "val_check_interval": 3, "check_val_every_n_epoch": None}
AT_THE_SAVED_ROLLOUT = {"limit_val_batches": 1.0, "val_check_interval": 5, "check_val_every_n_epoch": None}
AT_EPOCHS_END = {"limit_val_batches": 1.0}


MARKS = LambdaCallback(on_validation_epoch_end=lambda _, module: module.log("val/mark", float(module.clock.count)))
"""Something to see of each validation in the curves."""


@pytest.mark.parametrize(
    ("cls", "every", "validation"),
    slow_but(
        ((GRPO, 5, AT_THE_SAVED_ROLLOUT), (PPO, 4, AT_EPOCHS_END)),
        [
            *[(GRPO, 5, AT_THE_SAVED_ROLLOUT), (GRPO, 4, BETWEEN), (GRPO, 4, AT_EPOCHS_END)],
            (PPO, 5, BETWEEN),
            (PPO, 4, AT_EPOCHS_END),
            (PPO, 2, WITHOUT_VALIDATION),
        ],
    ),
)
def test_a_resumed_run_has_the_weights_and_the_curves_of_an_undisturbed_one(
    build: Make, tmp_path: Path, cls: type[RolloutModule], every: int, validation: dict[str, Any]
) -> None:
    """Items 55 to 57: epochs of four rollouts; a crash one rollout after the checkpoint, which is done again.

    Mid-epoch, at an epoch's end, while the critic warms up; validation never, elsewhere, at the saved rollout.
    """
    whole, curves = build(cls), Curves()
    run(whole, Checkpointing(str(tmp_path / "whole"), None), MARKS, logger=curves, **validation)

    resumed = Curves()
    with pytest.raises(InterruptedError):
        run(build(cls), Checkpointing(str(tmp_path / "a"), every), CrashAt(every + 1), **validation)
    second = build(cls)
    run(second, Checkpointing(str(tmp_path / "a"), every), MARKS, logger=resumed, **validation)

    assert second.clock.count == 10
    assert torch.equal(everything(second), everything(whole))
    after = [row for row in curves.rows if row[0] > every]
    assert len(after) >= 10 - every
    assert resumed.rows == after


def test_a_machine_that_runs_no_program_stops_the_run_with_a_checkpoint(
    build: Make, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rollouts are saved though no save was due; resumed, the run ends as an undisturbed one."""
    stopped, resumed = build(), build(max_rollouts=4)
    collect = stopped.collect

    def fail_in_the_third(batch: Any) -> Any:
        if stopped.clock.count == 2:
            raise SandboxError("this machine cannot run programs at present")
        return collect(batch)

    monkeypatch.setattr(stopped, "collect", fail_in_the_third)
    with pytest.raises(SandboxError):
        run(stopped, Checkpointing(str(tmp_path / "a"), 50))
    assert (tmp_path / "a" / "last.ckpt").resolve().name == "rollout_000002.ckpt"
    run(resumed, Checkpointing(str(tmp_path / "a"), 50))
    assert resumed.clock.count == 4 and ends_as(resumed, undisturbed)


def test_dropout_goes_on_with_the_numbers_it_would_have_drawn(byte_tokenizer: str, tmp_path: Path) -> None:
    """Supervised fine-tuning trains with dropout, so the random generators are state."""

    def module(updates: int) -> SFT:
        policy = CausalLM(config=TINY_QWEN2 | {"attention_dropout": 0.5}, tokenizer=byte_tokenizer, attention="eager")
        return SFT(policy, max_updates=updates, update=Optimization(optimizer=adam))

    def demonstrate(trainer: pl.Trainer, module: Any, batch: Any, number: int) -> None:
        for problem in batch:
            problem.fields["demonstration"] = "demonstrated"

    shown = LambdaCallback(on_train_batch_start=demonstrate)
    whole, second = module(6), module(6)
    torch.manual_seed(1)
    run(whole, Checkpointing(str(tmp_path / "whole"), None), shown)
    torch.manual_seed(1)
    run(module(3), Checkpointing(str(tmp_path / "a"), 3), shown)
    torch.manual_seed(2)
    run(second, Checkpointing(str(tmp_path / "a"), 3), shown)
    assert torch.equal(everything(second), everything(whole))
    assert names(tmp_path / "a") == ["update_000003.ckpt", "update_000006.ckpt"]


class Scores(GRPO):
    """A metric with a given value after each rollout."""

    of_rollout: ClassVar[list[float]] = []

    def on_validation_epoch_end(self) -> None:
        self.log("val/score", self.of_rollout[self.clock.count])


ALGORITHMS[Scores] = dict
NAN = float("nan")
EACH = {"limit_val_batches": 1.0, "val_check_interval": 1, "check_val_every_n_epoch": None}


def test_the_newest_checkpoints_and_the_best_are_kept_and_linked(
    build: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A metric that peaks at rollout 2; its checkpoint outlives the newer ones."""
    monkeypatch.setattr(Scores, "of_rollout", [-float((count - 2) ** 2) for count in range(8)])
    callback = Checkpointing(str(tmp_path), 1, monitor="val/score", keep=2)
    run(build(Scores, max_rollouts=6), callback, **EACH)
    assert names(tmp_path) == ["rollout_000002.ckpt", "rollout_000005.ckpt", "rollout_000006.ckpt"]
    assert (tmp_path / "best.ckpt").resolve().name == "rollout_000002.ckpt"
    assert os.readlink(tmp_path / "last.ckpt") == "rollout_000006.ckpt"
    assert callback.best_model_path.endswith("rollout_000002.ckpt")

    later = Checkpointing(str(tmp_path), 1, monitor="val/score", keep=2)
    run(build(Scores, max_rollouts=7), later, **EACH)
    assert later.best_value == 0.0
    assert (tmp_path / "best.ckpt").resolve().name == "rollout_000002.ckpt"


@pytest.mark.parametrize(
    ("values", "mode", "best"),
    [([0, 0.5, 0.25, 0.75, 0.5], "min", 2), ([0, NAN, 0.5, 0.25, NAN], "max", 2)],
    ids=["the smallest", "the largest, never NaN, above which no number is"],
)
def test_the_best_is_the_largest_or_the_smallest_as_mode_says(
    build: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: list[float], mode: Any, best: int
) -> None:
    monkeypatch.setattr(Scores, "of_rollout", values)
    callback = Checkpointing(str(tmp_path), 1, monitor="val/score", mode=mode)
    run(build(Scores, max_rollouts=4), callback, **EACH)
    assert callback.best_value == values[best]
    assert (tmp_path / "best.ckpt").resolve().name == f"rollout_{best:06d}.ckpt"


def test_a_best_that_could_not_be_saved_is_not_the_one_to_beat(
    build: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full at rollout 2 alone; of what is on it, rollout 3 is the best."""
    monkeypatch.setattr(Scores, "of_rollout", [0, 0.25, 1.0, 0.5, 0.0])
    write = Checkpointing._write_checkpoint

    def full_at_two(self: Checkpointing, trainer: pl.Trainer, part: Path, final: Path) -> str:
        return "no space left" if "000002" in part.name else write(self, trainer, part, final)

    monkeypatch.setattr(Checkpointing, "_write_checkpoint", full_at_two)
    callback = Checkpointing(str(tmp_path), 1, monitor="val/score")
    with pytest.warns(UserWarning, match="rollout 2 could not be saved"):
        run(build(Scores, max_rollouts=4), callback, **EACH)
    assert (callback.best_value, (tmp_path / "best.ckpt").resolve().name) == (0.5, "rollout_000003.ckpt")


def test_a_broken_checkpoint_is_skipped_and_the_one_before_is_used(
    build: Make, undisturbed: Path, tmp_path: Path
) -> None:
    """Of three checkpoints one was cut, and one has a bit that flipped; one more is half written."""
    folder = tmp_path / "a"
    shutil.copytree(undisturbed, folder, symlinks=True)
    (folder / "rollout_000006.ckpt").write_bytes((folder / "rollout_000006.ckpt").read_bytes()[:-1000])
    content = bytearray((folder / "rollout_000005.ckpt").read_bytes())
    content[len(content) // 2] ^= 255
    (folder / "rollout_000005.ckpt").write_bytes(bytes(content))
    (folder / ".rollout_000007.ckpt.part").write_bytes(b"half")
    second = build(max_rollouts=6)
    with pytest.warns(UserWarning, match=r"rollout_00000[56]\.ckpt is broken") as told:
        run(second, Checkpointing(str(folder), 2))
    assert sum("is broken" in str(one.message) for one in told) == 2
    assert ends_as(second, undisturbed) and not list(folder.glob("*.part"))
    assert {"rollout_000004.ckpt", "rollout_000005.ckpt.broken", "rollout_000006.ckpt"} <= {*names(folder)}


@pytest.fixture
def small_files() -> Iterator[Callable[[], None]]:
    """A file system that refuses to take more: the system's own limit on the size of a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_the_last_checkpoint_and_the_end_says_so(
    build: Make, undisturbed: Path, tmp_path: Path, small_files: Callable[[], None]
) -> None:
    fill = LambdaCallback(on_train_batch_start=lambda _, module, *__: module.clock.count == 1 and small_files())
    folder = tmp_path / "a"
    with (
        pytest.warns(UserWarning, match=r"rollout 2 could not be saved .*rollout_000001\.ckpt, stays; trying again"),
        pytest.raises(OSError, match=r"rollout 4 could not be saved .*make room and start again"),
    ):
        run(build(max_rollouts=4), Checkpointing(str(folder), 1), fill)
    assert names(folder) == ["rollout_000001.ckpt"]
    assert not list(folder.glob(".*.part"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    second = build(max_rollouts=4)
    run(second, Checkpointing(str(folder), 1))
    assert second.clock.count == 4 and ends_as(second, undisturbed)


def hold(folder: Path, held: Any) -> None:
    RunFolder(folder).lock()
    held.set()
    signal.pause()


def test_a_folder_of_a_living_run_is_refused_and_that_of_a_killed_one_is_taken(build: Make, tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    held = fork.Event()
    holder = fork.Process(target=hold, args=(tmp_path, held))
    holder.start()
    try:
        assert held.wait(30)
        with pytest.raises(RunIsLiveError, match=rf"belongs to a run that is alive \(process {holder.pid} on "):
            run(build(), Checkpointing(str(tmp_path)))
    finally:
        holder.kill()
        holder.join()
    assert (tmp_path / "run.lock").exists()
    run(build(max_rollouts=1), Checkpointing(str(tmp_path)))
    assert names(tmp_path) == ["rollout_000001.ckpt"]


def test_time_is_a_reason_to_save(build: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake clock that moves 40 s a rollout: with a limit of a minute every second rollout is saved."""
    clock = Clock()
    tick = LambdaCallback(on_train_batch_start=lambda *_: clock.move(40.0))
    monkeypatch.setattr("lit_rl.callbacks.checkpointing.time.monotonic", clock)
    callback = Checkpointing(str(tmp_path), every_n_rollouts=None, every_minutes=1.0, keep=9)
    for _ in range(2):  # a finished run that is started again does nothing
        run(build(max_rollouts=5), callback, tick)
        assert names(tmp_path) == [f"rollout_00000{i}.ckpt" for i in (2, 4, 5)]


DRAWS: dict[str, Callable[[], float]] = {
    "python": random.random,
    "python, in pairs": lambda: random.gauss(0, 1),
    "numpy": np.random.rand,
    "numpy, in pairs": np.random.randn,
    "torch": lambda: float(torch.rand(())),
}


def test_restored_generators_draw_the_same_again() -> None:
    for draw in DRAWS.values():
        draw()  # of a pair of normal numbers the second is kept for the next call
    states = gather_random_states()
    drawn = {name: [draw() for _ in range(5)] for name, draw in DRAWS.items()}
    assert all([draw() for _ in range(5)] != drawn[name] for name, draw in DRAWS.items())
    restore_random_state(states[0])
    assert {name: [draw() for _ in range(5)] for name, draw in DRAWS.items()} == drawn
