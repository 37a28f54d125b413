"""Several tasks in one run: their training problems in fixed or moving shares, each validated on its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from math import isfinite
from typing import Unpack

from lit_rl.arguments import ArgumentError, UsageError, require_share
from lit_rl.data.problem_loader import PreferMixed
from lit_rl.data.task import Split, TaskDataModule, TaskOptions
from lit_rl.types import Problem

_LINE = 10**9
"""Length of all problems together; whole numbers, so that all ranks draw the same."""

_MOST = 1 + 1e-6
"""Visits of a problem in a rollout, where lengths are rounded."""


class TaskShares(PreferMixed):
    """Gives each task its share of every rollout, fixed or moving towards what is solved now and then.

        share of a task = weight * (least + (1 - least) * mixed share of its problems), normalised

    A problem is mixed if some of its last completions passed and some did not; one that was not seen counts as mixed.
    Decided anew at the beginning of each epoch, as in :class:`PreferMixed`. Where a problem would come twice in one
    rollout, that epoch has the weights alone.

    Args:
        weights: of the tasks, by the beginning of their problems' ids.
        least: a task of which nothing is mixed keeps this part of its weight, in [0, 1]; 1 keeps shares fixed.
        rarely: as in :class:`PreferMixed`, among the problems of one task.
    """

    def __init__(self, weights: Mapping[str, float], least: float = 1.0, rarely: float = 1.0) -> None:
        super().__init__(rarely)
        self.weights = weights
        require_share(least=least)
        self.least = least
        self.moves = least < 1 or rarely < 1

    def lengths(self, task_ids: Sequence[str], known: Mapping[str, bool], global_batch: int) -> list[int]:
        """The length of each problem on the line from which an epoch is drawn.

        Raises:
            ValueError: a task has fewer problems than its weight puts into one rollout.
        """
        moved = self._lengths(task_ids, known, self.least, self.rarely)
        if max(moved) * global_batch > _MOST * sum(moved):  # a problem would come twice in one rollout
            moved = self._lengths(task_ids, {}, 1.0, 1.0)
        if max(moved) * global_batch > _MOST * sum(moved):
            task, count = min(
                Counter(map(_task_of, task_ids)).items(), key=lambda item: item[1] / self.weights[item[0]]
            )
            raise UsageError(
                f"{task} has {count} training problems, fewer than its weight puts into one rollout of {global_batch}: "
                "lower its weight or batch_size, or load more problems"
            )
        return moved

    def _lengths(self, task_ids: Sequence[str], known: Mapping[str, bool], least: float, rarely: float) -> list[int]:
        mixed = [known.get(task_id, True) for task_id in task_ids]
        tasks = [_task_of(task_id) for task_id in task_ids]
        total, of_mixed = Counter(tasks), Counter(task for task, one in zip(tasks, mixed, strict=True) if one)
        shares = {t: self.weights[t] * (least + (1 - least) * of_mixed[t] / n) for t, n in total.items()}
        whole = {t: of_mixed[t] + rarely * (n - of_mixed[t]) for t, n in total.items()}
        scale = _LINE / (sum(shares.values()) or 1.0)
        return [
            max(1, int(scale * shares[t] * (1.0 if one else rarely) / whole[t]))
            for t, one in zip(tasks, mixed, strict=True)
        ]

    def arranged(self, task_ids: Sequence[str], shuffled: Sequence[int]) -> Sequence[int]:
        """Problems of a task side by side, so that each rollout gets its share of it."""
        return sorted(shuffled, key=lambda i: _task_of(task_ids[i]))


def _task_of(task_id: str) -> str:
    return task_id.partition("/")[0]


class Mixture(TaskDataModule):
    """Trains on several tasks at once; every rollout has each task's share of problems, to within one.

    A group is completions of one problem, so it never mixes tasks. A problem's id begins with the name of its task,
    which is also ``fields["task"]``; training logs ``task/<name>/...``, validation ``val/<name>/...``. Each task keeps
    its prompts, checks, languages and stop strings; batch sizes and seed are the mixture's. An epoch has as many
    problems as all tasks together; those of a small task with a large weight come more than once in it, never twice
    in one rollout. A mixture among the tasks counts as its tasks.

    Args:
        tasks: at least one, each with training problems.
        weights: shares of each rollout, in the order of the tasks; normalised. By default all alike.
        least: 1 keeps the shares; below 1 they move towards tasks that are solved now and then, see
            :class:`TaskShares`. Their state is part of the checkpoint.
        name: of the mixture in logs.
        **options: of :class:`TaskDataModule`; ``validation_tasks`` are by default the tasks.
    """

    def __init__(
        self,
        tasks: list[TaskDataModule],
        *,
        weights: list[float] | None = None,
        least: float = 1.0,
        name: str = "mixture",
        **options: Unpack[TaskOptions],
    ) -> None:
        given = [1.0] * len(tasks) if weights is None else weights
        if not tasks or len(given) != len(tasks) or not all(isfinite(weight) and weight > 0 for weight in given):
            raise ArgumentError("weights", f"{len(tasks)} numbers above 0, one for each of the tasks", str(weights))
        parts = [part for task, weight in zip(tasks, given, strict=True) for part in _parts(task, weight)]
        if options.get("validation_tasks") is None:
            options["validation_tasks"] = [task for task, _ in parts]
        super().__init__(**options)
        self.tasks = tasks
        self.name = name
        self._parts = [task for task, _ in parts]
        if any(task.prefer is not None for task in self._parts):
            raise UsageError("Mixture: a task of it has prefer, which is the mixture's to decide: set it there")
        self._names = _told_apart(self._parts)
        self.weights = [weight for _, weight in parts]
        shares = dict(zip(self._names, self.weights, strict=True))
        self.prefer = TaskShares(shares, least, 1.0 if self.prefer is None else self.prefer.rarely)

    def load_problems(self, split: Split) -> list[Problem]:
        """The problems of all tasks, the tasks taking turns; those of validation are in ``validation_tasks``.

        Raises:
            ValueError: a task has nothing to train on.
        """
        if split == "validation":
            return []
        columns = []
        for name, task in zip(self._names, self._parts, strict=True):
            problems = task.problems(split)
            if split == "train" and not problems:
                raise UsageError(f"{self.name}: {name} has no training problems: list it in validation_tasks instead")
            columns.append(
                [replace(p, task_id=f"{name}/{p.task_id}", fields={**p.fields, "task": name}) for p in problems]
            )
        return [problem for turn in zip_longest(*columns) for problem in turn if problem is not None]

    def _require_programs(self, problems: Sequence[Problem]) -> None:
        if isinstance(self.prefer, TaskShares) and self.prefer.moves:
            super()._require_programs(problems)


def _parts(task: TaskDataModule, weight: float) -> list[tuple[TaskDataModule, float]]:
    """A task with its weight; of a mixture its tasks, which divide the weight."""
    if not isinstance(task, Mixture):
        return [(task, weight)]
    return [(one, weight * share / sum(task.weights)) for one, share in zip(task._parts, task.weights, strict=True)]


def _told_apart(tasks: Sequence[TaskDataModule]) -> list[str]:
    """Names of tasks without slashes, a second ``mbpp`` being ``mbpp_2``."""
    return [name.replace("/", "_") for name in TaskDataModule(validation_tasks=list(tasks)).validation_task_names]
