"""Work of a run around its updates: counting and timing, modes of its parts, garbage collections."""

from __future__ import annotations

import copy
import gc
import pickle
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
from support.small_runs import build_module, fit
from torch import nn

from lit_rl.execution import Outcome, Verdict
from lit_rl.modules.rollout_metrics import add_times
from lit_rl.training.progress import Progress
from lit_rl.training.ranks import Means, evaluating


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def move(self, seconds: float) -> None:
        self.now += seconds


def test_seconds_are_told_by_phase_and_add_up() -> None:
    clock = Clock()
    progress = Progress(clock)
    clock.move(100)  # before the first rollout: nothing was waiting for it
    progress.begin("training")
    clock.move(3)
    progress.enter("judging")
    clock.move(1)
    progress.enter("sampling")  # a second turn
    clock.move(2)
    progress.enter("updating")
    clock.move(4)
    assert progress.elapsed == 10
    assert progress.end() == {"waiting": 0, "sampling": 5, "judging": 1, "updating": 4}
    clock.move(7)
    progress.begin("training")
    clock.move(1)
    assert progress.end() == {"waiting": 7, "sampling": 1}


def test_a_verdict_that_comes_late_counts_for_the_rollout_before() -> None:
    progress = Progress()
    progress.begin("training")
    early, late = Future[int](), Future[int]()
    progress.add_turn(5, early)
    progress.add_turn(6, late)
    early.set_result(1)
    assert (progress.turns, progress.tokens, progress.judged) == (2, 11, 1)
    progress.begin("training")
    late.set_result(1)
    assert (progress.turns, progress.tokens, progress.judged) == (0, 0, 0)


def test_time_in_the_queue_is_what_a_program_did_not_run() -> None:
    clock = Clock()
    progress = Progress(clock)
    progress.begin("training")
    waited, cached = Future[Outcome](), Future[Outcome]()
    cached.set_result(Outcome(Verdict.PASSED, wall_seconds=9.0))
    progress.add_turn(1, waited)
    progress.add_turn(1, cached)
    clock.move(3)
    waited.set_result(Outcome(Verdict.PASSED, wall_seconds=1.0))
    means = Means()
    add_times(means, progress.end(), progress)
    found = means.local()
    assert found["sandbox/queue_seconds"] == 2.0 and progress.judged == 2
    assert found["time/sampling_seconds"] == found["time/step_seconds"] == 3.0 and found["time/idle_seconds"] == 0.0
    assert found["memory/peak_gigabytes"] > 0.01


def test_a_module_that_holds_it_can_be_copied_and_sent() -> None:
    progress = Progress()
    progress.begin("training")
    assert pickle.loads(pickle.dumps(progress)).purpose == copy.deepcopy(progress).purpose == "training"


@pytest.mark.parametrize("error", [None, KeyboardInterrupt(), ValueError("in between")])
def test_every_part_is_back_in_its_mode(error: BaseException | None) -> None:
    learns, frozen = nn.Sequential(nn.Dropout(), nn.Linear(1, 1)), nn.Dropout()
    module = nn.ModuleList([learns, frozen]).train()
    frozen.eval()
    before = {name: part.training for name, part in module.named_modules()}
    assert len(set(before.values())) == 2
    try:
        with evaluating(module):
            assert not any(part.training for part in module.modules())
            if error is not None:
                raise error
    except (KeyboardInterrupt, ValueError) as raised:
        assert raised is error
    assert {name: part.training for name, part in module.named_modules()} == before


class Frozen(pl.Callback):
    """Counts the objects that garbage collections leave out during a rollout."""

    number = 0

    def on_train_batch_end(self, *_: Any) -> None:
        self.number = gc.get_freeze_count()


def test_what_is_loaded_is_left_out_of_garbage_collections_during_training(byte_tokenizer: str, tmp_path: Path) -> None:
    seen = Frozen()
    fit(build_module(byte_tokenizer, max_rollouts=1), tmp_path, callbacks=[seen])
    assert seen.number > 100_000
    assert gc.get_freeze_count() == 0
