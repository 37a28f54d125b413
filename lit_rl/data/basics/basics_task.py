"""The embedded default task: small functions that a tiny policy can learn to write.

Each family of functions has one systematic bug. The hard part for a small policy is to copy the right constants and
names from signature and docstring, and to unlearn the bug that its demonstrations carry; no family asks for reasoning
or for arithmetic on constants.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from typing import Annotated, Any, Literal, Unpack

from lightning.pytorch.utilities import rank_zero_info

from lit_rl.data.basics.families import FAMILIES
from lit_rl.data.basics.problems import MAX_PUBLIC_CASES, DrawnProblemSettings, draw_distinct_problems
from lit_rl.data.prompts import Form, chat_messages, fenced_block, request_to_finish_function
from lit_rl.data.task import Split, TaskDataModule, TaskOptions
from lit_rl.errors import UsageError
from lit_rl.signature_check import PositiveInt, Share, ValueLimit
from lit_rl.types import Problem

TRAINED = tuple(family for family in FAMILIES if not family.held_out)
HELD_OUT = tuple(family for family in FAMILIES if family.held_out)
_FAMILIES = {
    "trained": TRAINED,
    "held_out": HELD_OUT,
}

ANSWER_STOPS = ("\n```\n\n",)
"""End of the code block, after which nothing is needed; no empty line follows an opening fence."""


PublicCases = Annotated[
    int,
    ValueLimit(
        f"0 to {MAX_PUBLIC_CASES}",
        lambda count: 0 <= count <= MAX_PUBLIC_CASES,
        "at least half of the 8 cases stay hidden",
    ),
]


class Basics(TaskDataModule):
    """Small functions in families: the prompt is signature and docstring, the completion is the body.

    In instruct form the prompt asks a chat model for the whole function in one fenced block. The task needs no network
    and no file. Training and validation never share a reference program, whatever the seed and however a docstring is
    worded. Each problem carries a demonstration in ``fields["demonstration"]``; a fixed share of the demonstrations has
    the family's bug, so that imitation alone stays mediocre, whether greedy or sampled.

    Args:
        families: ``trained`` for the families that training may see; ``held_out`` for the two families that training
            never sees. Use the latter only for validation, as one of another task's ``validation_tasks``.
        num_train_problems: number of training problems, spread evenly over the families.
        num_validation_problems: number of validation problems, likewise.
        bug_share: share of demonstrations that carry their family's systematic bug.
        draw_seed: seed that draws the problems; separate from ``seed``, so that runs with other seeds share problems.
        num_public_cases: how many of a problem's 8 cases go from ``check`` into ``public_check``, 0 to 4. The bug
            always shows in the hidden cases, and if possible in the public cases too.
        untold_constants: in the 10 of 26 families with a case whose answer is a constant of the docstring, write a
            question mark for that constant. The case is the first public one, so only feedback tells the constant.
        second_turn_share: share of training problems whose prompt is a failed first turn and its feedback, for
            imitation: see :mod:`lit_rl.data.basics.problems`. In a share ``bug_share`` of these problems the
            demonstration repeats the failed program, as if the feedback had not been read.
        form: ``completion`` for base models, ``instruct`` for chat models.
        **options: as for every task, see :class:`TaskDataModule`.

    Example:
        >>> problem = Basics(num_train_problems=26).problems("train")[0]
        >>> print(problem.reference, end="")
        def adjust(y):
            \"\"\"y times 35, plus 71.\"\"\"
            return y * 35 + 71
    """

    name = "basics"

    def __init__(
        self,
        *,
        families: Literal["trained", "held_out"] = "trained",
        num_train_problems: PositiveInt = 8192,
        num_validation_problems: PositiveInt = 520,
        bug_share: Share = 0.6,
        draw_seed: int = 0,
        num_public_cases: PublicCases = 0,
        untold_constants: bool = False,
        second_turn_share: Share = 0.0,
        form: Form = "completion",
        **options: Unpack[TaskOptions],
    ) -> None:
        super().__init__(**options)
        if (untold_constants or second_turn_share) and num_public_cases == 0:
            raise UsageError(
                "untold_constants and second_turn_share need a public case, got 0: set num_public_cases to 1 or more"
            )
        self.form: Form = form
        self.families = families
        self.num_train_problems = num_train_problems
        self.num_validation_problems = num_validation_problems
        self.rendering = DrawnProblemSettings(bug_share, num_public_cases, untold_constants, second_turn_share)
        self.draw_seed = draw_seed
        self.name += "_held_out" * (families == "held_out")

    def load_problems(self, split: Split) -> list[Problem]:
        if split == "test":
            return []
        if self.families == "held_out":
            # No program of held-out families is ever trained on, so there is nothing to keep apart.
            return [] if split == "train" else self._draw_problems(None, self.num_validation_problems)
        if split == "validation":
            return self._draw_problems(split, self.num_validation_problems)
        problems = self._draw_problems(split, self.num_train_problems)
        bugs = sum(problem.fields["demonstration_has_bug"] for problem in problems)
        rank_zero_info(
            f"{self.name}: {len(problems)} training problems of {len(_FAMILIES[self.families])} families; {bugs} "
            f"demonstrations ({bugs / max(len(problems), 1):.1%}) carry their family's bug "
            f"(bug_share {self.rendering.bug_share})"
        )
        return problems

    def _draw_problems(self, split: Split | None, total: int) -> list[Problem]:
        families = _FAMILIES[self.families]
        columns = [
            draw_distinct_problems(
                family,
                # The first families take the remainder.
                total // len(families) + (index < total % len(families)),
                seed=self.draw_seed,
                split=split,
                rendering=self.rendering if split == "train" else replace(self.rendering, second_turn_share=0.0),
            )
            for index, family in enumerate(families)
        ]
        turns = zip_longest(*columns)
        problems = [problem for turn in turns for problem in turn if problem is not None]
        return problems if self.form == "completion" else list(map(to_instruct_form, problems))


def to_instruct_form(problem: Problem) -> Problem:
    """Convert a problem from completion form to instruct form, with the same cases and the same task id.

    Demonstration and bug become what a chat model should answer: the function without its docstring, in a block.
    """
    beginning = str(problem.prompt)
    signature, names = beginning.partition("\n")[0], ("demonstration", "bug")
    answers: dict[str, Any] = {name: fenced_block(f"{signature}\n{problem.fields[name]}") for name in names}
    return replace(
        problem,
        prompt=chat_messages(request_to_finish_function(beginning)),
        program_prefix="",
        stop_strings=ANSWER_STOPS,
        fields={**problem.fields, **answers},
    )
