"""Base of every task's DataModule: its problems for each split, and loaders of them."""

from __future__ import annotations

import inspect
import itertools
import random
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, TypedDict, TypeVar

import lightning.pytorch as pl

from lit_rl.data.problem_loader import ProblemLoader
from lit_rl.errors import ArgumentError, UsageError, seed_or_global
from lit_rl.execution.program import Extraction
from lit_rl.signature_check import ArgumentChecks, NonNegativeInt, PositiveInt, ValueLimit, check_call_arguments
from lit_rl.types import Problem

Split = Literal["train", "validation", "test"]
Keep = Callable[[list[Problem], str, Split], list[Problem]]

TRAIN_SHARE = 0.8  # 131 of the 164 problems of HumanEval

SplitName = Literal["all", "train", "test"]
Item = TypeVar("Item")

ValidationShare = Annotated[float, ValueLimit("a share in [0, 1)", lambda value: 0 <= value < 1)]
"""Share of a task's problems to validate on, which leaves some problems to train on."""

PLACEHOLDER = "{prompt}"
"""Stands for a problem's prompt in the messages of ``chat``."""

Chat = Annotated[
    list[dict[str, str]],
    ValueLimit(
        f"a message with {PLACEHOLDER} in its content",
        lambda chat: any(PLACEHOLDER in message.get("content", "") for message in chat),
    ),
]


class TaskDataModule(pl.LightningDataModule, ArgumentChecks):
    """A task: problems for training and evaluation.

    A subclass implements :meth:`load_problems`. Constructors load nothing, so every YAML instantiates
    without data; :meth:`problems` loads.

    Args:
        batch_size: training problems per rollout on one rank.
        validation_batch_size: problems per validation batch on one rank.
        seed: seed of the order of training problems; by default ``seed_everything``, or 0 without that setting.
        max_train_problems: largest number of training problems; the first ones are taken.
        max_validation_problems: largest number of problems of the validation split, and of the test split.
        validation_tasks: tasks to validate on instead of this task's own validation split; metrics are
            named ``val/<task>/...`` when there are several.
        extraction: ``answer`` takes the block of a completion that defines the entry point, ``definitions`` only
            what the entry point needs of that block, ``last_block`` always the last block; see docs/rewards.md. The
            default is ``answer``; validation tasks inherit the setting.
        chat: chat messages around the prompt of a task in completion form; ``{prompt}`` stands for the stripped
            prompt. If the last message is the assistant's, it begins the answer. The answer is the whole program.
            Validation tasks have a chat of their own.
        stop_strings: end a completion before the first of these strings, which replace the task's own.
    """

    name = "task"

    def __init__(
        self,
        *,
        batch_size: PositiveInt = 8,
        validation_batch_size: PositiveInt = 32,
        seed: int | None = None,
        max_train_problems: PositiveInt | None = None,
        max_validation_problems: NonNegativeInt | None = None,
        validation_tasks: list[TaskDataModule] | None = None,
        extraction: Extraction | None = None,
        chat: Chat | None = None,
        stop_strings: list[str] | None = None,
    ) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.validation_batch_size = validation_batch_size
        self.seed = seed_or_global(seed)
        self.max_train_problems = max_train_problems
        self.max_validation_problems = max_validation_problems
        self.validation_tasks = validation_tasks
        self.extraction = extraction
        self.chat = chat
        self.stop_strings = stop_strings
        for task in validation_tasks or ():
            task.extraction = task.extraction or extraction
        self.left_out: dict[str, int] = {}
        self._loaded: dict[Split, list[Problem]] = {}
        self._problems: dict[Split, list[Problem]] = {}
        self._keep: Keep | None = None

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        add_inherited_arguments_to_signature(cls)

    @abstractmethod
    def load_problems(self, split: Split) -> list[Problem]:
        """Return all problems of a split, in a fixed order; an empty list if the task has no such split."""

    @check_call_arguments
    def problems(self, split: Split) -> list[Problem]:
        """Return the problems of a split: loaded once, without problems that do not fit, cut to the maximum number."""
        if not hasattr(self, "_problems"):
            raise UsageError(f"call super().__init__(**options) in {type(self).__name__}.__init__")
        if split not in self._problems:
            limit = self.max_train_problems if split == "train" else self.max_validation_problems
            loaded = self._load_problems_once(split)
            kept = loaded if self._keep is None else self._keep(loaded, self.name, split)
            self.left_out[split] = len(loaded) - len(kept)
            self._problems[split] = kept[:limit]
        return self._problems[split]

    def _apply_options(self, problem: Problem) -> Problem:
        """Return the problem with ``chat``, ``stop_strings`` and ``extraction`` in place of its own."""
        if self.chat is not None:
            if not isinstance(problem.prompt, str):
                raise ArgumentError(
                    "chat", "prompts that are text", f"messages in {problem.task_id}", "set form: completion"
                )
            prompt = problem.prompt.strip()
            messages = ({**one, "content": one["content"].replace(PLACEHOLDER, prompt)} for one in self.chat)
            problem = replace(problem, prompt=tuple(messages), program_prefix="", stop_strings=())
        stops = problem.stop_strings if self.stop_strings is None else tuple(self.stop_strings)
        return replace(problem, extraction=self.extraction or problem.extraction, stop_strings=stops)

    def _load_problems_once(self, split: Split) -> list[Problem]:
        """Return all problems of a split, read only once: reading can take minutes, and the filter can change."""
        if split not in self._loaded:
            loaded: Any = self.load_problems(split)
            loaded = list(loaded) if isinstance(loaded, Iterator) else loaded
            others = [one for one in loaded if not isinstance(one, Problem)] if isinstance(loaded, list) else [loaded]
            if others:
                who, got = f"{type(self).__name__}.load_problems", f"{others[0]!r:.80} for {split}"
                raise ArgumentError(who, "a list of Problem", got)
            # Task ids name random streams, and verdicts and pass@k are stored under them.
            for task_id, count in Counter(problem.task_id for problem in loaded).most_common(1):
                if count > 1:
                    raise UsageError(
                        f"{self.name}: {task_id!r} is the task_id of {count} {split} problems: give each its own id"
                    )
            self._loaded[split] = [self._apply_options(problem) for problem in loaded]
        return self._loaded[split]

    def set_problem_filter(self, keep: Keep) -> None:
        """Leave out problems that do not fit, such as those whose prompts are too long.

        Args:
            keep: function of problems, the task's name and the split; it returns the problems to keep and logs how many
                it drops.
        """
        self._keep = keep
        self._problems.clear()
        for task in self.validation_tasks or ():
            task.set_problem_filter(keep)

    @property
    def validation_task_names(self) -> tuple[str, ...]:
        """The names of the validation loaders, in order; a second ``mbpp`` is ``mbpp_2``."""
        return make_names_unique([task.name for task in self.validation_tasks or (self,)])

    def train_dataloader(self) -> ProblemLoader:
        """Return batches of training problems, shuffled unless the trainer overfits the first batches."""
        return self._training_loader(self.problems("train"))

    def val_dataloader(self) -> list[ProblemLoader]:
        """Return one loader per validation task, with each problem once in a fixed order."""
        tasks = self.validation_tasks or [self]
        return [self._build_loader(t.problems("validation"), self.validation_batch_size) for t in tasks]

    def test_dataloader(self) -> ProblemLoader:
        """Return a loader of the test problems, each once in a fixed order."""
        return self._build_loader(self.problems("test"), self.validation_batch_size)

    def predict_dataloader(self) -> ProblemLoader:
        """Return a loader of the training problems, each once in a fixed order."""
        return self._build_loader(self.problems("train"), self.validation_batch_size)

    def _training_loader(self, problems: list[Problem]) -> ProblemLoader:
        overfits = getattr(self.trainer, "overfit_batches", 0) > 0
        return self._build_loader(problems, self.batch_size, shuffle=not overfits, drop_last=True)

    def _build_loader(self, problems: list[Problem], batch_size: int, **order: Any) -> ProblemLoader:
        trainer: Any = self.trainer
        rank, world_size = (trainer.global_rank, trainer.world_size) if trainer else (0, 1)
        return ProblemLoader(problems, batch_size, seed=self.seed, rank=rank, world_size=world_size, **order)


def make_names_unique(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names with repeated ones numbered: a second ``mbpp`` becomes ``mbpp_2``."""
    found: list[str] = []
    for name in names:
        free = (f"{name}_{number}" for number in itertools.count(2) if f"{name}_{number}" not in [*names, *found])
        found.append(next(free) if name in found else name)
    return tuple(found)


class TaskOptionsNoBatchSize(TypedDict, total=False):
    """Arguments of :class:`lit_rl.data.TaskDataModule` for tasks whose batch is by default the whole task."""

    validation_batch_size: PositiveInt
    seed: int | None
    max_train_problems: PositiveInt | None
    max_validation_problems: NonNegativeInt | None
    validation_tasks: list[TaskDataModule] | None
    extraction: Extraction | None
    chat: Chat | None
    stop_strings: list[str] | None


class TaskOptions(TaskOptionsNoBatchSize, total=False):
    """Arguments of :class:`lit_rl.data.TaskDataModule`."""

    batch_size: PositiveInt


def add_inherited_arguments_to_signature(cls: type) -> None:
    """List inherited arguments in the signature of ``cls``; called from ``__init_subclass__``.

    A task class names its own arguments and takes the base's arguments as ``**options: Unpack[...]``, so that a type
    checker knows them. At run time, ``help``, notebooks and the command line read these arguments from the base class,
    which has their defaults. An argument that ``cls`` names itself replaces the base's argument. The type of
    ``**options`` is dropped, because the command line would read names without defaults from that type.
    """
    base = inspect.signature(cls.__mro__[1])
    own = cls.__dict__.get("__init__")
    if own is None:
        cls.__signature__ = base  # type: ignore[attr-defined]
        return
    parameters = list(inspect.signature(own).parameters.values())[1:]
    handed_on = next((p for p in parameters if p.kind is inspect.Parameter.VAR_KEYWORD), None)
    if handed_on is not None:
        own.__annotations__[handed_on.name] = Any
        named = {p.name for p in parameters}
        inherited = [
            p for p in base.parameters.values() if p.name not in named and p.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        parameters.remove(handed_on)
        parameters += [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in inherited]
    cls.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]


class SingleFileTask(TaskDataModule):
    """Base of tasks with one file of problems; a subclass sets ``split`` and implements :meth:`read_problems`.

    ==========  ===============  ================================
    ``split``   trained on       validated, tested on
    ==========  ===============  ================================
    ``all``     nothing          all problems
    ``train``   four fifths      the others
    ``test``    nothing          the same others
    ==========  ===============  ================================
    """

    split: SplitName

    @abstractmethod
    def read_problems(self) -> list[Problem]:
        """Return all problems, in the order of the file."""

    def load_problems(self, split: Split) -> list[Problem]:
        if split == "train" and self.split != "train":
            return []
        problems = self.read_problems()
        if self.split == "all":
            return problems
        indices = range(len(problems))
        train = set(random.Random(0).sample(indices, round(TRAIN_SHARE * len(problems))))
        return [problems[index] for index in indices if (index in train) == (split == "train")]


def choose_validation_items(items: Iterable[Item], share: float) -> set[Item]:
    """Return a share of some items to validate on, the same in every run for items in the same order."""
    shuffled = list(items)
    random.Random(0).shuffle(shuffled)
    return set(shuffled[: round(share * len(shuffled))])
