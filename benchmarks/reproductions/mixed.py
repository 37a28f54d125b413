"""Document 002 asks for problems that are neither too easy nor too hard: taking the others less often, measured.

GRPO over several epochs of few problems; a problem whose last completions all passed, or all failed, comes a quarter
as often. Greedy pass@1 on held-out problems is measured every five rollouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import lightning.pytorch as pl

from lit_rl.data import Basics
from lit_rl.data.mixture import draw_epoch_by_weight
from lit_rl.data.problem_loader import ProblemLoader
from lit_rl.modules import GRPO
from lit_rl.rewards import TestsReward
from lit_rl.rollout import FinishedRollout
from lit_rl.types import Sampling
from reproductions.groups import EQUAL, MAX_TOKENS, prepare
from reproductions.learning import Measured, Seen, imitation, learn, shared
from reproductions.part import Case, Numbers, Part
from reproductions.pictures import Picture, Results, curves

EVERY = 5
UNIT = 1000  # weight of a problem that is not taken less often


class PreferMixed(pl.Callback):
    """Takes problems less often whose last completions all passed, or none of which did.

    Decided anew at the beginning of each epoch, of one process. An epoch keeps its length: places that become free go
    to the other problems, which then come more than once, never twice in one rollout. Problems that were not seen yet
    count as mixed, and the verdicts of an epoch's last rollout count one epoch later.

    Args:
        rarely: how often such a problem is sampled, compared to the others, in (0, 1].
    """

    def __init__(self, rarely: float) -> None:
        self.rarely = rarely
        self.known: dict[str, bool] = {}  # by task id, whether some passed and some did not
        self.last: dict[str, bool] = {}  # the same of the last rollout

    def on_rollout_end(self, trainer: pl.Trainer, module: Any, finished: FinishedRollout) -> None:
        self.known |= self.last
        self.last = {}
        judgements = finished.rollout.judgements
        for rows in finished.rollout.completions.rows_by_group().values():
            passed = sum(judgements[row].outcome.passed for row in rows)
            self.last[judgements[rows[0]].problem.task_id] = 0 < passed < len(rows)

    def arrange(self, task_ids: Sequence[str], batch_size: int, shuffled: Sequence[int]) -> Sequence[int]:
        """The order of an epoch, from its order without preference."""
        rare = ceil(UNIT * max(self.rarely, 1 / (len(shuffled) // batch_size)))
        weights = [UNIT if self.known.get(task_ids[i], True) else rare for i in shuffled]
        return shuffled if min(weights) == max(weights) else draw_epoch_by_weight(shuffled, weights, batch_size)


class Mixed(Basics):
    """The embedded task with a preference."""

    def __init__(self, rarely: float, **options: Any) -> None:
        super().__init__(**options)
        self.preference = PreferMixed(rarely)

    def train_dataloader(self) -> ProblemLoader:
        loader = super().train_dataloader()
        task_ids = [problem.task_id for problem in loader.problems]
        loader.arrange = partial(self.preference.arrange, task_ids, self.batch_size)
        return loader


def run(seed: int, folder: Path, problems: int = 260, rarely: float = 1.0, rollouts: int = 80) -> Numbers:
    """Train from the imitation on this many problems, with and without preference."""
    policy, equal = imitation(folder), Seen(EQUAL)
    data = Mixed(rarely, batch_size=16, num_train_problems=problems, num_validation_problems=260, seed=seed)
    sampling = Sampling(num_samples=8, max_tokens=MAX_TOKENS)
    module = GRPO(policy, **shared(seed, rollouts, 6e-4, [TestsReward()], sampling))
    greedy = Measured(policy, data.problems("validation"), MAX_TOKENS, EVERY)
    learn(module, data, folder, equal, greedy, data.preference)
    return {
        **greedy.rollouts_to(0.85),
        **greedy.rollouts_to(0.9),
        "equal_first": equal.first(EQUAL, 8),
        "equal_last": equal.last(EQUAL, 20),
        "greedy": greedy.values[-1],
        "curve": greedy.values,
    }


def draw(figure: Any, results: Results) -> None:
    for axes, problems in zip(figure.subplots(1, 2, sharey=True), SIZES, strict=True):
        begin = f"{problems} problems, "
        of_size = {case.removeprefix(begin): found for case, found in results.items() if case.startswith(begin)}
        curves(axes, of_size, "curve", every=EVERY)
        axes.set_title(f"greedy pass@1, {problems} problems")
    axes.legend()


SIZES = (130, 260)
PART = Part(
    name="mixed",
    prepare=partial(prepare, updates=600),
    cases=tuple(
        Case(f"{problems} problems, {name}", partial(run, problems=problems, rarely=rarely))
        for problems in SIZES
        for name, rarely in (("drawn uniformly", 1.0), ("PreferMixed", 0.25))
    ),
    columns={
        "to_0.85": "rollouts to 0.85",
        "to_0.9": "to 0.9",
        "greedy": "greedy pass@1 after 80 rollouts",
        "equal_first": "groups of equal rewards, first 8 rollouts",
        "equal_last": "last 20 rollouts",
    },
    digits={"to_0.85": 0, "to_0.9": 0, "greedy": 3},
    picture=Picture("Greedy pass@1 over the rollouts with and without preference", draw),
)
