"""The repair environment: after a failed program the policy reads what happened and tries again."""

from __future__ import annotations

from collections.abc import Sequence
from string import Formatter

from lit_rl.arguments import ArgumentError, UsageError
from lit_rl.execution.check_base import FaultyCheck
from lit_rl.execution.checks import AssertTests, Check
from lit_rl.execution.judging.asserts.prepared_tests import prepare_tests
from lit_rl.execution.outcome import Verdict
from lit_rl.rollout.environment import Attempt, Environment
from lit_rl.rollout.feedback import describe, in_one_line
from lit_rl.types import Problem

IN_A_CHAT = "{feedback}\n\nWrite the whole program again, corrected."
AFTER_A_PROGRAM = "\n\n{comment}\n\n{program_prefix}"
_PLACEHOLDERS = ("feedback", "comment", "case", "program_prefix", "turn", "max_turns")
_COMMENTS = {"c": "// ", "cpp": "// "}


class Repair(Environment):
    """Says what happened to a program under the problem's public check, until it passes or turns are used up.

    The last program is judged under ``Problem.check``, which nothing here reads. A conversation ends early if the
    public check passed, or if the sandbox failed: there would be nothing true to say.

    Args:
        max_turns: most programs that the policy writes for a problem, at least 2.
        template: of a message. Placeholders: ``{feedback}`` (what happened, in sentences), ``{comment}`` (the same as
            comment lines of the program's language), ``{case}`` (the failing case in one line, ``f(3): 5, not 6``,
            or the first sentence if none is known), ``{program_prefix}`` (the beginning of the program if the
            policy continues it, else empty), ``{turn}`` (number of the coming turn) and ``{max_turns}``. ``None``
            takes ``IN_A_CHAT``, or ``AFTER_A_PROGRAM`` for problems whose completion continues the prompt.
        max_message_tokens: most tokens of a message, which is shortened in its middle; ``None``: no limit.
        max_row_tokens: tokens of a row after which there is no further turn; ``None``: the model's own limit.

    Raises:
        ValueError: a limit that allows nothing, or a placeholder that is not known.

    Source:
        Gehring et al. 2024 (RLEF), https://arxiv.org/abs/2410.02089: feedback from public tests, the reward from
        hidden ones, up to three turns
    """

    def __init__(
        self,
        max_turns: int = 2,
        template: str | None = None,
        max_message_tokens: int | None = 256,
        max_row_tokens: int | None = None,
    ) -> None:
        if max_turns < 2:
            raise ArgumentError("Repair.max_turns", "at least 2", str(max_turns), "use SingleTurn for one turn")
        super().__init__(max_turns, max_message_tokens, max_row_tokens)
        if template is not None:
            _require_placeholders(template)
        self.template = template

    def check(self, problem: Problem) -> Check | None:
        """The public check."""
        return problem.public_check

    def check_problem(self, problem: Problem) -> None:
        """Refuse a problem whose public check gives no feedback, or whose next turn would not begin like its prompt.

        Raises:
            ValueError: one line that says what to do.
        """
        public = problem.public_check
        if public is None:
            raise UsageError(
                f"problem {problem.task_id} has no public_check to repair a program by: have the task make some of its "
                "cases public, or use the environment SingleTurn"
            )
        fault = _fault_of(public)
        if fault:
            raise UsageError(
                f"the public_check of problem {problem.task_id} has no cases ({fault}): give it one that a program can "
                "fail, or leave public_check out and use the environment SingleTurn"
            )
        if problem.continues_program and not self._template(problem).endswith("{program_prefix}"):
            raise UsageError(
                f"the completion of problem {problem.task_id} continues its prompt, so Repair's template must end "
                "with {program_prefix}, or be null"
            )

    def answer(self, problem: Problem, attempts: Sequence[Attempt]) -> str | None:
        """The template with what happened to the last program."""
        last = attempts[-1]
        verdict = Verdict.NO_PROGRAM if last.outcome is None else last.outcome.verdict
        over = verdict in (Verdict.PASSED, Verdict.INFRASTRUCTURE_FAILURE)
        if over or len(attempts) >= self.max_turns or problem.public_check is None:
            return None
        language = problem.public_check.language
        feedback = describe(last, language)
        comment = _COMMENTS.get(language, "# ")
        return self._template(problem).format(
            feedback=feedback,
            comment="\n".join((comment + line).rstrip() for line in feedback.split("\n")),
            case=in_one_line(last, language),
            program_prefix=problem.program_prefix if problem.continues_program else "",
            turn=len(attempts) + 1,
            max_turns=self.max_turns,
        )

    def _template(self, problem: Problem) -> str:
        if self.template is not None:
            return self.template
        return AFTER_A_PROGRAM if problem.continues_program else IN_A_CHAT


def _require_placeholders(template: str) -> None:
    known = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
    try:
        found = [(name, form, conversion) for _, name, form, conversion in Formatter().parse(template)]
    except ValueError as error:
        raise UsageError(f"Repair's template cannot be read ({error}): write {{{{ and }}}} for braces") from None
    for name, form, conversion in found:
        if name is not None and (name not in _PLACEHOLDERS or form or conversion):
            shown = f"{{{name}{f'!{conversion}' if conversion else ''}{f':{form}' if form else ''}}}"
            raise UsageError(f"Repair's template has the unknown placeholder {shown}: it may use {known}")


def _fault_of(check: Check) -> str:
    """Why no program can fail a check; empty if one can."""
    if not check.runs_program:
        return f"{type(check).__name__} runs no program"
    if isinstance(check, AssertTests):
        try:
            prepare_tests(check.test, check.entry_point)
        except FaultyCheck as fault:
            return str(fault)
    return ""
