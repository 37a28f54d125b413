"""Several tasks in one run: their training problems in fixed or moving shares, each validated on its own."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from math import isfinite
from typing import Unpack

from lightning_utilities.core.rank_zero import rank_zero_warn

from lit_rl.arguments import ArgumentError, UsageError
from lit_rl.data.problem_loader import PreferMixed, ProblemLoader, spread
from lit_rl.data.task import Keep, Split, TaskDataModule, TaskOptions, told_apart
from lit_rl.types import Problem

_LINE = 10**18
"""Length of all problems together; whole numbers, so that all ranks draw the same."""

_ROUNDING = 1e-9


class TaskShares(PreferMixed):
    """Gives each task its share of every rollout, fixed or moving towards what is solved now and then.

        share of a task = weight * (least + (1 - least) * mixed share of its problems), normalised

    A problem is mixed if some of its last completions passed and some did not; one that was not seen counts as mixed.
    Decided anew at the beginning of each epoch, as in :class:`PreferMixed`. Where a problem would come twice in one
    rollout, that epoch has the weights alone.

    Args:
        weights: by task, with which the ids of its problems begin.
        least: a task of which nothing is mixed keeps this part of its weight, in (0, 1]; 1 keeps shares fixed.
        rarely: as in :class:`PreferMixed`, among the problems of one task.
    """

    def __init__(self, weights: Mapping[str, float], least: float = 1.0, rarely: float = 1.0) -> None:
        super().__init__(rarely)
        if not 0 < least <= 1:
            raise ArgumentError("Mixture.least", "a share above 0 and at most 1", str(least), "0.25 for a quarter")
        self.weights = weights
        self.least = least
        self.reads_verdicts = least < 1 or rarely < 1

    def visits(
        self, task_ids: Sequence[str], shuffled: Sequence[int], global_batch: int, *, ahead: bool = False
    ) -> Sequence[int]:
        """The order of an epoch, as of :meth:`PreferMixed.visits`."""
        order = sorted(shuffled, key=lambda i: _task_of(task_ids[i]))
        ids = [task_ids[i] for i in order]
        lengths = self._lengths(ids, self.known(ahead))
        if max(lengths) * global_batch > sum(lengths) * (1 + _ROUNDING):  # a problem would come twice in one rollout
            lengths = self._lengths(ids, {})
        # Another beginning in each epoch, so that a share that is no whole number is right on average.
        return spread(order, lengths, global_batch, (shuffled[0], len(shuffled)))

    def _lengths(self, task_ids: Sequence[str], known: Mapping[str, bool]) -> list[int]:
        mixed = [(_task_of(task_id), known.get(task_id, True)) for task_id in task_ids]
        total, of_mixed = Counter(task for task, _ in mixed), Counter(task for task, one in mixed if one)
        shares = {t: self.weights[t] * (self.least + (1 - self.least) * of_mixed[t] / n) for t, n in total.items()}
        units = {t: of_mixed[t] + self.rarely * (n - of_mixed[t]) for t, n in total.items()}
        scale = _LINE / sum(shares.values())
        return [int(scale * shares[t] / units[t] * (1.0 if one else self.rarely)) for t, one in mixed]

    def require_enough(self, task_ids: Sequence[str], global_batch: int) -> None:
        """Require that no problem comes twice in one rollout.

        Raises:
            ValueError: a task has fewer problems than its weight puts into a rollout.
        """
        counts = Counter(map(_task_of, task_ids))
        for task, weight in self.weights.items():
            wanted = global_batch * weight / sum(self.weights.values())
            if counts[task] < wanted * (1 - _ROUNDING):
                raise UsageError(
                    f"weights: expected at most {counts[task]} problems of {task} in a rollout, as many as it has to "
                    f"train on, got {wanted:.3g}; lower its weight or batch_size, or load more problems"
                )


def _task_of(task_id: str) -> str:
    return task_id.partition("/")[0]


class Mixture(TaskDataModule):
    """Trains on several tasks at once; every rollout has each task's share of problems, to within one.

    A group is completions of one problem, so it never mixes tasks. A problem's id begins with the name of its task,
    which is also ``fields["mixture_task"]``; training logs ``task/<name>/...``, validation ``val/<name>/...``. Each
    task keeps its prompts, checks and languages; batch sizes and the order's seed are the mixture's. An epoch has as
    many problems as all tasks together; those of a small task with a large weight come more than once in it, never
    twice in one rollout.

    Args:
        tasks: at least one, each with training problems.
        weights: shares of each rollout, in the order of the tasks; normalised. By default all alike.
        least: 1 keeps the shares; below 1 they move towards tasks that are solved now and then, see
            :class:`TaskShares`. Their state is part of the checkpoint.
        **options: of :class:`TaskDataModule`; ``validation_tasks`` are by default the tasks.

    Raises:
        ValueError: no tasks, weights that do not fit them, or a task that is a mixture or has a ``prefer``.
    """

    name = "mixture"

    def __init__(
        self,
        tasks: list[TaskDataModule],
        *,
        weights: list[float] | None = None,
        least: float = 1.0,
        **options: Unpack[TaskOptions],
    ) -> None:
        given = [1.0] * len(tasks) if weights is None else weights
        if not tasks or any(isinstance(task, Mixture) or task.prefer is not None for task in tasks):
            raise UsageError("tasks: expected at least one, no Mixture, none with prefer; list an inner one's tasks")
        if len(given) != len(tasks) or not all(isfinite(weight) and weight > 0 for weight in given):
            raise ArgumentError("Mixture.weights", f"{len(tasks)} numbers above 0, one for each task", str(weights))
        if options.get("chat") or options.get("stop_strings"):
            raise UsageError("chat, stop_strings: expected none, because each task has its own; set them in tasks")
        if options.get("validation_tasks") is None:
            options["validation_tasks"] = tasks
        super().__init__(**options)
        for task in tasks:
            size = inspect.signature(type(task)).parameters.get("batch_size")
            if size is not None and size.default is not None and task.batch_size not in (size.default, self.batch_size):
                rank_zero_warn(f"tasks: {task.name} has a batch_size of {task.batch_size}; the mixture's own counts")
            task.extraction = task.extraction or self.extraction
        self.extraction = None  # each task has its own
        names = told_apart([task.name.replace("/", "_") for task in tasks])
        self.tasks = dict(zip(names, tasks, strict=True))
        rarely = 1.0 if self.prefer is None else self.prefer.rarely
        self.prefer = self.shares = TaskShares(dict(zip(names, given, strict=True)), least, rarely)

    def load_problems(self, split: Split) -> list[Problem]:
        """The problems of all tasks, the tasks taking turns; those of validation are in ``validation_tasks``.

        Raises:
            ValueError: a task has nothing to train on or another task's problems, or shares move and it runs no
                programs.
        """
        if split == "validation":
            return []
        columns = []
        seen: dict[str, list[Problem]] = {}
        for name, task in self.tasks.items():
            problems = task.problems(split)
            same = [other for other, others in seen.items() if split == "train" and problems and problems == others]
            if same:
                raise UsageError(f"tasks: {name} has the problems of {same[0]}; list it once and set weights")
            seen[name] = problems
            if split == "train" and not problems:
                raise UsageError(f"tasks: {name} has no training problems; list it in validation_tasks instead")
            if split == "train" and self.shares.reads_verdicts:
                task._require_programs(problems)
            fields = {"mixture_task": name}
            columns.append([replace(p, task_id=f"{name}/{p.task_id}", fields={**p.fields, **fields}) for p in problems])
        return [problem for turn in zip_longest(*columns) for problem in turn if problem is not None]

    def keep_only(self, keep: Keep) -> None:
        """Leave out problems that do not fit, as the tasks do."""
        super().keep_only(keep)
        self._loaded.clear()

    def _training_loader(self, problems: list[Problem]) -> ProblemLoader:
        loader = super()._training_loader(problems)
        if loader.prefer is not None:
            self.shares.require_enough([p.task_id for p in problems], loader.batch_size * loader.world_size)
        return loader
