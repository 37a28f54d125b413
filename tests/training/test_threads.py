"""Threads, time and memory of a run: chosen, measured, and the same in a resumed run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from support.saved_runs import run
from support.small_runs import Clock, Words, adam, build_module, quiet_trainer

from lit_rl import evaluate
from lit_rl.callbacks import Checkpointing
from lit_rl.execution import Outcome, Verdict
from lit_rl.reports.summary import add_times_and_memory
from lit_rl.training import host_memory
from lit_rl.training.progress import RolloutProgress
from lit_rl.training.ranks import Means
from lit_rl.training.threads import LARGE_MODEL_PARAMETERS, number_of_threads

ROOT = Path(__file__).parents[2]
VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def started(code: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A Python process in which nothing about threads is set but these variables."""
    env = {name: value for name, value in os.environ.items() if name not in VARIABLES} | variables
    command = [sys.executable, *(["-c", code] if code else ["-m", "lit_rl"]), *arguments]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done


@pytest.mark.parametrize("command", [("import lit_rl, torch",), ("", "fit", "--help")])
def test_openmp_is_told_to_wait_passively_before_it_loads(command: tuple[str, ...]) -> None:
    """OpenMP prints how long its threads spin, as it has read the settings, when torch loads it."""
    if "OpenMP" not in torch.__config__.parallel_info():
        pytest.skip("this build of torch has no OpenMP")
    shown = started(*command, OMP_DISPLAY_ENV="VERBOSE").stderr
    assert re.search(r"GOMP_SPINCOUNT ?= ?'0'|KMP_BLOCKTIME ?= ?'0", shown)


@pytest.mark.parametrize(
    ("name", "value"), [("OMP_WAIT_POLICY", "ACTIVE"), ("GOMP_SPINCOUNT", "7"), ("KMP_BLOCKTIME", "3")]
)
def test_what_the_user_set_about_waiting_stands(name: str, value: str) -> None:
    code = f"import lit_rl, os; print(*(os.environ.get(name) for name in {VARIABLES[:3]}))"
    expected = [value if name == one else "None" for one in VARIABLES[:3]]
    assert started(code, **{name: value}).stdout.split() == expected


@pytest.mark.parametrize(
    ("parameters", "chosen", "expected"),
    [
        (0, False, 1),
        (LARGE_MODEL_PARAMETERS - 1, False, 1),
        (LARGE_MODEL_PARAMETERS, False, 6),
        (LARGE_MODEL_PARAMETERS - 1, True, 6),
    ],
)
def test_a_small_model_has_one_thread_unless_the_user_chose(parameters: int, chosen: bool, expected: int) -> None:
    assert number_of_threads(parameters, 6, chosen=chosen) == expected


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Torch's number of threads as a plain number: real ones would stay, and later tests fork."""
    now = [1]
    monkeypatch.setattr(torch, "get_num_threads", lambda: now[0])
    monkeypatch.setattr(torch, "set_num_threads", lambda number: now.__setitem__(0, number))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("lit_rl.training.threads.default_thread_counts", lambda: {6})
    torch.set_num_threads(6)
    return torch.set_num_threads


class Seen(pl.Callback):
    def __init__(self) -> None:
        self.numbers: set[int] = set()

    def look(self, *_: Any) -> None:
        self.numbers.add(torch.get_num_threads())

    on_train_batch_start = on_train_batch_end = on_validation_batch_start = look


@pytest.mark.parametrize("verb", ["fit", "validate"])
def test_every_verb_has_the_threads_of_its_policy_and_gives_them_back(
    verb: str, threads: Callable[[int], None], byte_tokenizer: str, tmp_path: Path
) -> None:
    for mine, expected in ((6, 1), (2, 2)):  # by default, and chosen by the user
        threads(mine)
        seen = Seen()
        trainer = quiet_trainer(tmp_path, callbacks=[seen], limit_val_batches=1)
        getattr(trainer, verb)(build_module(byte_tokenizer, max_rollouts=1), datamodule=Words(batch_size=3))
        assert seen.numbers == {expected}
        assert torch.get_num_threads() == mine


@pytest.mark.parametrize("case", [(3, 2, 3, 1), (6, 2, 1, 1), (3, 3, 3, 0)])
def test_a_resumed_run_has_the_threads_of_its_checkpoint(
    threads: Any, byte_tokenizer: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, case: tuple[int, ...]
) -> None:
    first, then, expected, lines = case
    caplog.set_level("INFO")
    for rollouts, number in ((1, first), (2, then)):
        seen = Seen()
        threads(number)
        run(build_module(byte_tokenizer, max_rollouts=rollouts, optimizer=adam), Checkpointing(str(tmp_path), 1), seen)
        assert (seen.numbers, torch.get_num_threads()) == ({expected}, number)
    assert sum("as before" in record.getMessage() for record in caplog.records) == lines


def test_seconds_are_told_by_phase_and_add_up() -> None:
    clock = Clock()
    progress = RolloutProgress(clock)
    clock.move(100)  # before the first rollout: nothing was waiting for it
    progress.begin("training")
    clock.move(3)
    progress.enter_phase("judging")
    clock.move(1)
    progress.enter_phase("sampling")  # a second turn
    clock.move(2)
    progress.enter_phase("updating")
    clock.move(4)
    assert progress.elapsed == 10
    assert progress.end_and_take_seconds() == {"waiting": 0, "sampling": 5, "judging": 1, "updating": 4}
    clock.move(7)
    progress.begin("training")
    clock.move(1)
    assert progress.end_and_take_seconds() == {"waiting": 7, "sampling": 1}


def test_time_in_the_queue_is_what_a_program_did_not_run() -> None:
    clock = Clock()
    progress = RolloutProgress(clock)
    progress.begin("training")
    waited, cached = Future[Outcome](), Future[Outcome]()
    cached.set_result(Outcome(Verdict.PASSED, wall_seconds=9.0))
    progress.add_turn(1, waited)
    progress.add_turn(1, cached)
    clock.move(3)
    waited.set_result(Outcome(Verdict.PASSED, wall_seconds=1.0))
    means = Means()
    add_times_and_memory(means, progress.end_and_take_seconds(), progress)
    found = means.reduce(torch.device("cpu"))
    assert found["sandbox/queue_seconds"] == 2.0 and progress.num_judged == 2
    assert found["time/sampling_seconds"] == found["time/step_seconds"] == 3.0 and found["time/idle_seconds"] == 0.0
    assert found["memory/peak_gigabytes"] > 0.01


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Options that the C library is told, by number."""
    options: dict[int, int] = {}
    libc = SimpleNamespace(mallopt=options.__setitem__)
    monkeypatch.setattr(host_memory, "ctypes", SimpleNamespace(CDLL=lambda _: libc))
    for name in [one for one in os.environ if one.startswith("MALLOC_") or one == "GLIBC_TUNABLES"]:
        monkeypatch.delenv(name)
    return options


@pytest.mark.parametrize(("verb", "user_set"), [("fit", False), ("validate", True), ("evaluate", False)])
def test_memory_of_freed_tensors_is_kept_unless_the_user_set_the_allocator(
    verb: str,
    user_set: bool,
    told: dict[int, int],
    byte_tokenizer: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if user_set:
        monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    module = build_module(byte_tokenizer, max_rollouts=1)
    if verb == "evaluate":
        evaluate(module.policy, Words().problems("validation"))
    else:
        getattr(quiet_trainer(tmp_path, limit_val_batches=1), verb)(module, datamodule=Words())
    assert told == ({} if user_set else {-3: 32 * 2**20, -1: 512 * 2**20})
