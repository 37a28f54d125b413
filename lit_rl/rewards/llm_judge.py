"""A language model grades the program against the reference."""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import Formatter

from lit_rl.arguments import ArgumentError, UsageError, require_number
from lit_rl.rewards.graders import Answer, Grader
from lit_rl.rewards.places import rows, utf8
from lit_rl.rewards.similarity import NO_REFERENCE, check_reference, reference_of
from lit_rl.rewards.term import RewardTerm, TermScore
from lit_rl.types import Completions, Judgement, Problem, Program

TEMPLATE = """\
Grade a program against a reference that solves the same task.

Task:
{prompt}

Reference:
{reference}

Program:
{program}

Does the program do what the reference does? Answer with one line and nothing else:
Score: N
where N is a number from 0 (nothing right) to 10 (does the same)."""
FIELDS = frozenset({"prompt", "reference", "program", "completion"})


class LLMJudgeReward(RewardTerm):
    """A grader's score, 0 to 1.

    The answer is parsed strictly: ``pattern`` must match it exactly once and give a number from 0 to
    ``max_score``. Any other answer, or none, is our failure, not a 0: the row gets no value. A
    completion without a program is 0 and the grader is not asked. Scores are kept in memory by the whole prompt,
    so that none is asked twice.

    The policy writes a part of the prompt and can try to talk to the grader there. What it writes is never
    parsed, but it can persuade: watch the share of high scores among programs that fail their tests.

    Args:
        grader: answers the prompts.
        weight: factor in the reward.
        name: name in logs.
        template: the prompt, with ``{prompt}``, ``{reference}``, ``{program}`` and ``{completion}`` where the
            task's prompt, its reference, the program and the whole completion go. Write its other braces twice.
        pattern: regular expression with one group, the score.
        max_score: the score that counts as 1.
    """

    default_name = "judge"

    def __init__(
        self,
        grader: Grader,
        weight: float = 1.0,
        name: str | None = None,
        template: str = TEMPLATE,
        pattern: str = r"^\s*Score:\s*(\d+(?:\.\d+)?)\s*$",
        max_score: float = 10.0,
    ) -> None:
        super().__init__(weight, name)
        self._fields = _fields_of(template)
        self.grader, self.template = grader, template
        self.max_score = require_number(self, "max_score", max_score, low=1e-9)
        try:
            self.pattern = re.compile(pattern, re.MULTILINE)
        except re.error as error:
            raise UsageError(f"LLMJudgeReward.pattern is not a regular expression: {error}") from error
        if self.pattern.groups != 1:
            raise ArgumentError("LLMJudgeReward.pattern", "one group, the score", str(self.pattern.groups))
        self._scores: dict[str, float] = {}

    def setup(self) -> None:
        """Prepare the grader."""
        self.grader.setup()

    def check_problem(self, problem: Problem) -> None:
        """Raise ValueError if the template shows a reference and the problem has none."""
        if "reference" in self._fields:
            check_reference("LLMJudgeReward", problem)

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        """Scores of all N completions, without places; equal prompts are asked once."""
        found: list[TermScore | str] = []  # of each row the score, or its prompt
        for text, judgement in rows(completions, judgements):
            if "reference" in self._fields and reference_of(judgement.problem) is None:
                found.append(NO_REFERENCE)
            elif judgement.program is None:
                found.append(TermScore(0.0))
            else:
                found.append(self._prompt(text, judgement.problem, judgement.program))
        asked = dict.fromkeys(one for one in found if isinstance(one, str) and one not in self._scores)
        failed = self._ask(list(asked))
        return [one if isinstance(one, TermScore) else failed.get(one) or TermScore(self._scores[one]) for one in found]

    def _ask(self, asked: Sequence[str]) -> dict[str, TermScore]:
        """Put the prompts to the grader and keep its scores; those that got none, with the reason."""
        failed: dict[str, TermScore] = {}
        answers = self.grader.answer(asked) if asked else []
        for prompt, answer in zip(asked, answers, strict=True):
            score = self._parse(answer)
            if score.value is None:
                failed[prompt] = score
            else:
                self._scores[prompt] = score.value
        return failed

    def _prompt(self, completion: str, problem: Problem, program: Program) -> str:
        fields = {
            "prompt": problem.prompt_text,
            "program": program.source,
            "completion": completion,
            "reference": reference_of(problem),
        }
        # Python takes a lone surrogate for text; tokenizers and servers do not.
        return utf8(self.template.format(**fields)).decode("utf-8", "replace")

    def _parse(self, answer: Answer) -> TermScore:
        """The score in an answer, or why there is none."""
        if answer.text is None:
            return TermScore(None, reason=answer.reason)
        found = self.pattern.findall(answer.text)
        if len(found) != 1:
            return TermScore(None, reason=f"{len(found)} scores in the grader's answer {answer.text[:80]!r}")
        try:
            score = float(found[0])
        except ValueError:
            return TermScore(None, reason=f"the grader's score {found[0]!r} is not a number")
        if not 0.0 <= score <= self.max_score:
            return TermScore(None, reason=f"the grader's score {score} is not in [0, {self.max_score}]")
        return TermScore(score / self.max_score)


def _fields_of(template: str) -> set[str]:
    try:
        names = {name for _, name, _, _ in Formatter().parse(template) if name is not None}
    except ValueError as error:
        raise UsageError(f"LLMJudgeReward.template has a brace of its own: double it ({error})") from error
    if names - FIELDS or not names & {"completion", "program"}:
        known = ", ".join(sorted(FIELDS))
        raise UsageError(f"LLMJudgeReward.template needs program or completion, of {known}; got {sorted(names)}")
    return names
