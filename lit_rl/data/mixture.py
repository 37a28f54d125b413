"""Several tasks in one run: their training problems in fixed shares, each validated on its own."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, zip_longest
from math import inf
from typing import Annotated, Unpack

from lit_rl.data.problem_loader import ProblemLoader
from lit_rl.data.task import Keep, Split, TaskDataModule, TaskOptions, make_names_unique
from lit_rl.errors import ArgumentError, UsageError
from lit_rl.signature_check import ValueLimit
from lit_rl.types import Problem

Weight = Annotated[float, ValueLimit("a finite number above 0", lambda weight: 0 < weight < inf)]
Tasks = Annotated[
    list[TaskDataModule],
    ValueLimit(
        "at least one task and no Mixture",
        lambda tasks: tasks and not any(isinstance(task, Mixture) for task in tasks),
        "list the inner Mixture's tasks instead",
    ),
]

_LINE = 10**18
"""Length of the line of all problems."""


def draw_epoch_by_weight(
    order: Sequence[int], weights: Sequence[int], global_batch: int, start: tuple[int, int] = (0, 1)
) -> list[int]:
    """Draw an epoch from a line on which each problem is as long as its weight, by evenly spaced points.

    Args:
        order: numbers of the problems, in their order on the line.
        weights: weights of the problems in that order; whole numbers, so that all ranks draw the same problems.
        global_batch: number of problems of a rollout.
        start: i and n; the first point lies (i + 1/2) / n of a spacing after the beginning of the line.

    Returns:
        numbers of problems that fill whole rollouts; each has its share, to within one, of every stretch of the line.
    """
    (first, parts), num_batches = start, len(order) // global_batch
    ends, wanted = list(accumulate(weights)), num_batches * global_batch
    points = ((2 * (parts * k + first) + 1) * ends[-1] // (2 * parts * wanted) for k in range(wanted))
    chosen = [order[bisect_right(ends, point)] for point in points]
    # Neighbours, such as two visits to one problem, go to different rollouts.
    return [i for number in range(num_batches) for i in chosen[number::num_batches]]


class Mixture(TaskDataModule):
    """Trains on several tasks at once; every rollout has each task's share of problems, to within one.

    A group is completions of one problem, so it never mixes tasks. A problem's id begins with the name of its task,
    which is also ``fields["mixture_task"]``; training logs ``task/<name>/...``, validation ``val/<name>/...``. Each
    task keeps its prompts, checks and languages; batch sizes and the order's seed are the mixture's. An epoch has as
    many problems as all tasks together; problems of a small task with a large weight come several times in an epoch,
    but never twice in one rollout.

    Args:
        tasks: at least one task; each needs training problems.
        weights: each task's share of a rollout, in the order of the tasks; normalised, and equal by default.
        **options: arguments of :class:`TaskDataModule`; ``validation_tasks`` are by default ``tasks``.
    """

    name = "mixture"

    def __init__(
        self,
        tasks: Tasks,
        *,
        weights: list[Weight] | None = None,
        **options: Unpack[TaskOptions],
    ) -> None:
        given = [1.0] * len(tasks) if weights is None else weights
        if len(given) != len(tasks):
            raise ArgumentError("Mixture.weights", f"{len(tasks)} numbers, one for each task", str(weights))
        if options.get("chat") or options.get("stop_strings"):
            raise UsageError("Mixture takes no chat or stop_strings: set them in each of its tasks")
        if options.get("validation_tasks") is None:
            options["validation_tasks"] = tasks
        super().__init__(**options)
        for task in tasks:
            task.extraction = task.extraction or self.extraction
        self.extraction = None  # each task has its own
        names = make_names_unique([task.name.replace("/", "_") for task in tasks])
        self.tasks = dict(zip(names, tasks, strict=True))
        self.weights = dict(zip(names, given, strict=True))

    def load_problems(self, split: Split) -> list[Problem]:
        """Return the problems of all tasks in turn; problems for validation are in ``validation_tasks``."""
        if split == "validation":
            return []
        columns = []
        for name, task in self.tasks.items():
            fields, problems = {"mixture_task": name}, task.problems(split)
            columns.append([replace(p, task_id=f"{name}/{p.task_id}", fields={**p.fields, **fields}) for p in problems])
        return [problem for turn in zip_longest(*columns) for problem in turn if problem is not None]

    def set_problem_filter(self, keep: Keep) -> None:
        super().set_problem_filter(keep)
        self._loaded.clear()

    def _training_loader(self, problems: list[Problem]) -> ProblemLoader:
        loader = super()._training_loader(problems)
        names = [problem.fields["mixture_task"] for problem in problems]
        counts, global_batch = Counter(names), loader.batch_size * loader.world_size
        for name, weight in self.weights.items():
            wanted = global_batch * weight / sum(self.weights.values())
            if loader.shuffle and counts[name] < wanted * (1 - 1e-9):  # room for rounding of the share
                raise UsageError(
                    f"weights: {name} would need {wanted:.3g} problems in a rollout but has only {counts[name]} for "
                    "training; lower its weight or batch_size, or load more problems"
                )
        scale = _LINE / sum(self.weights[name] for name in sorted(counts))

        def arrange(shuffled: Sequence[int]) -> list[int]:
            order = sorted(shuffled, key=lambda i: names[i])
            lengths = [int(scale * self.weights[names[i]] / counts[names[i]]) for i in order]
            # Another beginning in each epoch, so that a share that is no whole number is right on average.
            return draw_epoch_by_weight(order, lengths, global_batch, (shuffled[0], len(shuffled)))

        loader.arrange = arrange
        return loader
