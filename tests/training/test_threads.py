"""Threads of a run on a CPU: how they wait, how many there are, and that a resumed run has as many."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from support.saved_runs import run
from support.small_runs import Words, adam, build_module, fit, quiet_trainer
from support.tiny_models import TINY_QWEN2

import lit_rl.evaluation
from lit_rl import evaluate
from lit_rl.callbacks import Checkpointing
from lit_rl.models import CausalLM
from lit_rl.modules import Distil, Distillation
from lit_rl.training.threads import LARGE, number_of_threads, threads_of_run

ROOT = Path(__file__).parents[2]
VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def started(code: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A Python process in which nothing about threads is set but these variables."""
    env = {name: value for name, value in os.environ.items() if name not in VARIABLES} | variables
    command = [sys.executable, *(["-c", code] if code else ["-m", "lit_rl"]), *arguments]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done


@pytest.mark.parametrize("command", [("import lit_rl, torch",), ("from lit_rl import GRPO",), ("", "fit", "--help")])
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


NOTICE = "torch was imported before lit_rl"
RUNS = f"""
import {{first}}, lit_rl, torch
torch.set_num_threads({{threads}})
from lit_rl.training.threads import threads_of_run
for _ in range(2):
    with threads_of_run(torch.nn.Linear(1, {LARGE}, device="meta"), torch.device({{device!r}})):
        pass
"""


@pytest.mark.parametrize(
    ("first", "threads", "device", "variables", "times"),
    [
        ("torch", 3, "cpu", {}, 1),
        ("torch", 1, "cpu", {}, 0),  # one thread waits for none
        ("torch", 3, "cuda", {}, 0),
        ("torch", 3, "cpu", {"GOMP_SPINCOUNT": "7"}, 0),
        ("torch", 3, "cpu", {"OMP_WAIT_POLICY": "ACTIVE"}, 0),
        ("lit_rl", 3, "cpu", {}, 0),
    ],
)
def test_torch_imported_first_gets_one_notice_where_it_matters(
    first: str, threads: int, device: str, variables: dict[str, str], times: int
) -> None:
    code = RUNS.format(first=first, threads=threads, device=device)
    assert started(code, **variables).stderr.count(NOTICE) == times


@pytest.mark.parametrize(
    ("parameters", "chosen", "expected"),
    [(0, False, 1), (LARGE - 1, False, 1), (LARGE, False, 6), (LARGE - 1, True, 6)],
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
    monkeypatch.setattr("lit_rl.training.threads.default_numbers", lambda: {6})
    torch.set_num_threads(6)
    return torch.set_num_threads


class Seen(pl.Callback):
    """Numbers of threads while batches run."""

    def __init__(self) -> None:
        self.numbers: set[int] = set()

    def look(self, *_: Any) -> None:
        self.numbers.add(torch.get_num_threads())

    on_train_batch_start = on_train_batch_end = on_validation_batch_start = look
    on_test_batch_start = on_predict_batch_start = look


@pytest.mark.parametrize("verb", ["fit", "validate", "test", "predict"])
def test_every_verb_has_the_threads_of_its_policy_and_gives_them_back(
    verb: str, threads: Callable[[int], None], byte_tokenizer: str, tmp_path: Path
) -> None:
    for mine, expected in ((6, 1), (2, 2)):  # by default, and chosen by the user
        threads(mine)
        seen = Seen()
        trainer = quiet_trainer(tmp_path, callbacks=[seen], limit_val_batches=1)
        kept = {"return_predictions": False} if verb == "predict" else {}
        getattr(trainer, verb)(build_module(byte_tokenizer, max_rollouts=1), datamodule=Words(batch_size=3), **kept)
        assert seen.numbers == {expected}
        assert torch.get_num_threads() == mine


def test_evaluate_has_the_threads_of_its_policy_and_gives_them_back(
    threads: Callable[[int], None], tiny_policy: CausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        seen.append(torch.get_num_threads())
        raise InterruptedError

    seen: list[int] = []
    monkeypatch.setattr(lit_rl.evaluation, "write_rows", fails)
    with pytest.raises(InterruptedError):
        evaluate(tiny_policy, Words().problems("validation"))
    assert (seen, torch.get_num_threads()) == ([1], 6)


def test_a_large_teacher_of_a_small_policy_counts(
    threads: Callable[[int], None], byte_tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = CausalLM(config=TINY_QWEN2, tokenizer=byte_tokenizer, dtype="float64")
    made = build_module(byte_tokenizer, Distillation, teacher=teacher, distil=Distil(), max_rollouts=1)
    seen = Seen()
    made.policy.load()
    monkeypatch.setattr("lit_rl.training.threads.LARGE", 1 + sum(p.numel() for p in made.policy.parameters()))
    fit(made, tmp_path, callbacks=[seen])
    assert seen.numbers == {6}


def saved_and_resumed(
    tokenizer: str, folder: Path, threads: Callable[[int], None], first: int, then: int
) -> tuple[set[int], set[int]]:
    """Numbers of threads of a run of one rollout, and of its continuation."""
    found = []
    for rollouts, number in ((1, first), (2, then)):
        seen = Seen()
        threads(number)
        run(build_module(tokenizer, max_rollouts=rollouts, optimizer=adam), Checkpointing(str(folder), 1), seen)
        assert torch.get_num_threads() == number
        found.append(seen.numbers)
    return found[0], found[1]


@pytest.mark.parametrize(
    ("first", "then", "expected", "lines"),
    [(3, 2, {3}, 1), (6, 2, {1}, 1), (3, 6, {3}, 1), (3, 3, {3}, 0), (6, 6, {1}, 0)],
)
def test_a_resumed_run_has_the_threads_of_its_checkpoint(
    threads: Callable[[int], None],
    byte_tokenizer: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    first: int,
    then: int,
    expected: set[int],
    lines: int,
) -> None:
    with caplog.at_level("INFO"):
        assert saved_and_resumed(byte_tokenizer, tmp_path, threads, first, then) == (expected, expected)
    assert sum("as before" in record.getMessage() for record in caplog.records) == lines


def test_a_gpu_s_run_keeps_the_number_of_threads() -> None:
    before = torch.get_num_threads()
    with threads_of_run(torch.nn.Identity(), torch.device("cuda"), saved=before + 1) as number:
        assert (number, torch.get_num_threads()) == (None, before)


def test_a_checkpoint_that_is_saved_after_the_run_has_the_run_s_threads(
    threads: Callable[[int], None], byte_tokenizer: str, tmp_path: Path
) -> None:
    trainer = fit(build_module(byte_tokenizer, max_rollouts=1), tmp_path)
    trainer.save_checkpoint(tmp_path / "after.ckpt")
    seen = Seen()
    threads(4)
    fit(
        build_module(byte_tokenizer, max_rollouts=2), tmp_path, ckpt_path=str(tmp_path / "after.ckpt"), callbacks=[seen]
    )
    assert seen.numbers == {1}
