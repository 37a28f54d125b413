"""Counting and timing of what a rollout does, by a clock that the test moves."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import Future

from lit_rl.training.progress import Progress


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


def test_a_module_that_holds_it_can_be_copied_and_sent() -> None:
    progress = Progress()
    progress.begin("training")
    assert pickle.loads(pickle.dumps(progress)).purpose == copy.deepcopy(progress).purpose == "training"
