"""Hindsight: text about what happened to a row and its group, which a teacher reads and the policy did not.

Letters: N rows, P prompt tokens, T completion tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from lit_rl.errors import UsageError
from lit_rl.execution.interface import Outcome, ProgramRunner, Verdict
from lit_rl.models.codecs.codec import Codec
from lit_rl.models.padding import pad_left
from lit_rl.rollout.environment import Attempt
from lit_rl.rollout.records import Judge, Rollout
from lit_rl.rollout.repair import placeholder_values
from lit_rl.signature_check import ArgumentChecks
from lit_rl.types import Completions, Message, Problem

FEEDBACK = "{prompt}\n\nAn earlier answer failed:\n{feedback}\n\nGive a correct answer."
FEEDBACK_BEFORE_A_PROGRAM = "{comment}\n{prompt}"
SOLUTION = "{prompt}\n\nThis answer is correct:\n\n```{language}\n{program}\n```\n\nGive a correct answer of your own."
SOLUTION_BEFORE_A_PROGRAM = "{program}\n\n{prompt}"
Prompt = str | tuple[Message, ...]
_OF_FEEDBACK = ("prompt", "program_prefix", "attempt", "feedback", "comment", "case")


class Hindsight(ArgumentChecks):
    """Shows a teacher what the row's program did under the public check, or a solution of the row's own group.

    Neither comes from hidden tests: programs run once more under ``Problem.public_check``, and a solution is what the
    policy wrote itself. A row that passed reads no feedback, and no row reads its own program as a solution, even if
    another row wrote the same program. A row without anything to show, or for which the model has too few positions,
    has no distillation loss.

    Args:
        shows: ``feedback``, ``solution`` (another program of the group that passed), or ``both``, the solution first.
        feedback_template: template of the prompt that the teacher reads. Placeholders: ``{prompt}`` (the policy's
            prompt, with the solution if one is shown; in a chat, the last user message), ``{attempt}`` (the row's last
            turn) and, as in :class:`~lit_rl.rollout.Repair`, ``{feedback}``, ``{comment}``, ``{case}`` and
            ``{program_prefix}``. ``None`` for a template without the attempt that fits the prompt's form.

    Source:
        Hübotter et al. 2026 (SDPO), https://arxiv.org/abs/2601.20802
    """

    def __init__(
        self,
        shows: Literal["feedback", "solution", "both"] = "both",
        feedback_template: str | None = None,
    ) -> None:
        self.shows, self.feedback_template = shows, feedback_template
        if feedback_template is not None:
            feedback_template.format(**dict.fromkeys(_OF_FEEDBACK, ""))

    def require_any_hint(self, problems: Sequence[Problem], num_samples: int) -> None:
        """Refuse problems and groups for which there is never anything to show."""
        checks = (problem.public_check for problem in problems)
        tells = self.shows != "solution" and any(check is not None and check.runs_program for check in checks)
        if not tells and (self.shows == "feedback" or num_samples < 2):
            raise UsageError(
                "hindsight has nothing to show: for feedback, take a task with a public_check that runs programs (no "
                "training problem has one); for another row's solution, set sampling.num_samples to 2 or more"
            )

    def prompts_with_hints(self, rollout: Rollout, codec: Codec, runner: ProgramRunner | None) -> list[Prompt | None]:
        """Return the prompt with hindsight for each judged row; ``None`` for a row with nothing to tell.

        ``runner`` runs programs under their public checks, and ``codec`` is the policy's.
        """
        judge, running = Judge(runner), dict[int, Future[Outcome]]()
        for row, judgement in enumerate(rollout.judgements):
            public, verdict = judgement.problem.public_check, judgement.outcome.verdict
            failed = verdict not in (Verdict.PASSED, Verdict.INFRASTRUCTURE_FAILURE)
            if self.shows != "solution" and public is not None and public.runs_program and failed:
                running[row] = judge.start_program(judgement.problem, judgement.program, public)
        outcomes = {row: outcome.result() for row, outcome in running.items()}
        return [
            self._prompt_with_hint(rollout, row, outcomes.get(row), codec) for row in range(len(rollout.judgements))
        ]

    def teacher_inputs(
        self, rollout: Rollout, codec: Codec, runner: ProgramRunner | None
    ) -> tuple[Completions, Tensor]:
        """Return the N rows with the prompts that the teacher reads, and [N] bool: True for prompts that tell more."""
        rows, hinted = rollout.completions, self.prompts_with_hints(rollout, codec, runner)
        lengths = rows.on_host.token_counts.tolist()
        own = [ids[kept].tolist() for ids, kept in zip(rows.on_host.prompt_ids, rows.on_host.prompt_mask, strict=True)]
        prompts, shown = [], []
        for problem, ids, prompt, length in zip(rows.problems, own, hinted, lengths, strict=True):
            longer = [] if prompt is None else codec.encode_problem(replace(problem, prompt=prompt))
            shown.append(prompt is not None and len(longer) + length <= codec.max_positions)
            prompts.append(longer if shown[-1] else ids)
        prompt_ids, prompt_mask = pad_left(prompts, codec.pad_id, rows.prompt_ids.device)
        view = replace(rows, prompt_ids=prompt_ids, prompt_mask=prompt_mask)
        return view, torch.tensor(shown, dtype=torch.bool, device=rows.prompt_ids.device)

    def _prompt_with_hint(self, rollout: Rollout, row: int, outcome: Outcome | None, codec: Codec) -> Prompt | None:
        """Return the prompt with hindsight; ``None`` if there is nothing to tell."""
        problem, turn = rollout.completions.problems[row], rollout.completions.turns[row][-1]
        continues, prompt = problem.continues_program, problem.prompt
        if (solved := self._next_solved_row(rollout, row)) is not None:
            program = rollout.judgements[solved].program
            prompt = _fill_template(
                SOLUTION_BEFORE_A_PROGRAM if continues else SOLUTION,
                prompt,
                codec,
                language=problem.check.language,
                program="" if program is None else program.source.strip("\n"),
            )
        if outcome is not None and outcome.verdict not in (Verdict.PASSED, Verdict.INFRASTRUCTURE_FAILURE):
            attempt = Attempt(turn.text, turn.stop_reason, rollout.judgements[row].program, outcome)
            values = placeholder_values(problem, attempt)
            template = self.feedback_template or (FEEDBACK_BEFORE_A_PROGRAM if continues else FEEDBACK)
            prompt = _fill_template(template, prompt, codec, attempt=turn.text, **values)
        return None if prompt is problem.prompt else prompt

    def _next_solved_row(self, rollout: Rollout, row: int) -> int | None:
        """Return the next row of the group, counted from this row on, that passed with another program."""
        if self.shows == "feedback":
            return None
        group = rollout.completions.rows_by_group()[int(rollout.completions.group_ids[row])]
        at = group.index(row)
        others = group[at + 1 :] + group[:at]
        passed = (other for other in others if rollout.judgements[other].outcome.passed)
        return next(
            (other for other in passed if _program_or_last_turn(rollout, other) != _program_or_last_turn(rollout, row)),
            None,
        )


def _program_or_last_turn(rollout: Rollout, row: int) -> str:
    """Return a row's program, or its last turn if there is no program."""
    program = rollout.judgements[row].program
    return (rollout.completions.turns[row][-1].text if program is None else program.source).strip()


def _fill_template(template: str, prompt: Prompt, codec: Codec, **values: str) -> Prompt:
    """Fill a template around a prompt; in a chat, around the last message of the user."""
    if isinstance(prompt, str):  # whose own special tokens count, but none that a program printed
        return template.format(
            prompt=prompt, **{name: codec.escape_special_tokens(value) for name, value in values.items()}
        )
    last = max((i for i, message in enumerate(prompt) if message["role"] == "user"), default=len(prompt) - 1)
    hinted = {**prompt[last], "content": template.format(prompt=prompt[last]["content"], **values)}
    return (*prompt[:last], hinted, *prompt[last + 1 :])
