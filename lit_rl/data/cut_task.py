"""Tasks of one file of problems, measured on whole or cut into a part to train on and a part to measure on."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Literal, TypeVar

from lit_rl.arguments import ArgumentError, UsageError
from lit_rl.data.problem_loader import ProblemLoader
from lit_rl.data.task import Split, TaskDataModule
from lit_rl.types import Problem

TRAIN_SHARE = 0.8  # of HumanEval 131 of 164

Cut = Literal["all", "train", "test"]
Item = TypeVar("Item")


class CutTask(TaskDataModule):
    """Base of such tasks: a subclass sets ``split`` and implements :meth:`read_problems`.

    ==========  ===============  ================================
    ``split``   trained on       validated, tested on
    ==========  ===============  ================================
    ``all``     nothing          all problems
    ``train``   four fifths      the others
    ``test``    nothing          the same others
    ==========  ===============  ================================
    """

    split: Cut

    def read_problems(self) -> list[Problem]:
        """All problems, in the order of the file."""
        raise NotImplementedError

    def load_problems(self, split: Split) -> list[Problem]:
        """The problems of a split, in the order of the file; see the table in the class."""
        if split == "train" and self.split != "train":
            return []
        problems = self.read_problems()
        if self.split == "all":
            return problems
        indices = range(len(problems))
        train = set(random.Random(0).sample(indices, round(TRAIN_SHARE * len(problems))))
        return [problems[index] for index in indices if (index in train) == (split == "train")]

    def train_dataloader(self) -> ProblemLoader:
        """Shuffled batches of the training part."""
        if self.split != "train":
            raise UsageError(
                f"{type(self).__name__} with split={self.split!r} is only measured on: split='train' trains on four "
                "fifths of it and measures on the others"
            )
        return super().train_dataloader()


def held_out(items: Iterable[Item], share: float) -> set[Item]:
    """Return the part of some items to validate on, the same in every run.

    Args:
        items: the same order gives the same part.
        share: of them, in [0, 1).
    """
    shuffled = list(items)
    random.Random(0).shuffle(shuffled)
    return set(shuffled[: round(share * len(shuffled))])


def require_some_to_train_on(validation_share: float) -> None:
    """Raise ArgumentError unless a share leaves something to train on."""
    if not 0 <= validation_share < 1:
        raise ArgumentError("validation_share", "a share in [0, 1)", str(validation_share))
