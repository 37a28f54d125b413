from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.small_runs import Scored

from lit_rl.callbacks.stage_scores import StageScores
from lit_rl.data import SortingPolicy
from lit_rl.data.numerical.code_completion import CodeCompletion
from lit_rl.execution import Outcome, Verdict
from lit_rl.modules import GRPO
from lit_rl.rollout import Evaluated, Rollout
from lit_rl.types import Judgement

STAGES = ("compilation", "execution", "header_bleu", "density", "total")


def outcome(*values: float) -> Outcome:
    return Outcome(Verdict.WRONG_ANSWER, scores=dict(zip(STAGES, values, strict=True)))


@dataclass
class Runner:
    """Answers programs with the given outcomes, then always with the same, and counts what it was given."""

    given: list[str] = field(default_factory=list)
    answers: list[Outcome] = field(default_factory=list)

    def submit(self, program: str, check: Any) -> Future[Outcome]:
        self.given.append(program)
        future: Future[Outcome] = Future()
        future.set_result(self.answers.pop() if self.answers else outcome(1.0, 1.0, 0.8, 0.2, 0.75))
        return future


class Module(GRPO):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(SortingPolicy(), rewards=[Scored(0.0)])
        self.collector.runner = Runner()
        self.logged: dict[str, float] = {}

    def log(self, name: str, value: float) -> None:
        self.logged[name] = value


def evaluate(callback, module, batches):
    callback.on_validation_epoch_start(None, module)
    for index, (problems, outcomes) in enumerate(batches):
        rollouts = {
            name: Rollout(None, tuple(Judgement(problems[i % len(problems)], None, o) for i, o in enumerate(row)))
            for name, row in outcomes.items()
        }
        evaluated = Evaluated(rollouts, empty_outcomes=module.collector.judge_empty_programs(problems))
        given = len(module.collector.runner.given)
        callback.on_validation_batch_end(None, module, evaluated, problems, index)
        assert len(module.collector.runner.given) == given, "a callback watches: it runs no program"
    callback.on_validation_epoch_end(None, module)
    return module.logged


def test_stages_are_averaged_and_the_empty_completion_stands_beside():
    first, second = CodeCompletion().problems("test")[:2]
    module = Module()
    good, bad = outcome(1.0, 1.0, 1.0, 0.6, 0.9), outcome(0.0, 0.0, 0.0, 0.0, 0.0)
    nothing = Outcome(Verdict.NO_PROGRAM)
    batches = [((first,), {"greedy": [good], "sampled": [bad]}), ((second,), {"greedy": [nothing], "sampled": [good]})]
    logged = evaluate(StageScores(), module, batches)
    assert logged["val/compilation"] == 0.5 and logged["val/density"] == pytest.approx(0.3)
    assert logged["val/total"] == pytest.approx(0.45) and logged["val/sampled/total"] == pytest.approx(0.45)
    assert logged["val/empty/total"] == 0.75 and logged["val/empty/header_bleu"] == pytest.approx(0.8)
    assert module.collector.runner.given == ["", ""]


def test_the_empty_completion_is_judged_once():
    (problem,) = CodeCompletion().problems("test")[:1]
    module, callback = Module(), StageScores()
    for _ in range(3):
        evaluate(callback, module, [((problem,), {"greedy": [outcome(1, 1, 1, 1, 1)]})])
    assert module.collector.runner.given == [""]


def test_failures_of_ours_are_no_scores():
    """Item 58: a lost worker says nothing about a completion; nor about the empty one, which is asked again."""
    (problem,) = CodeCompletion().problems("test")[:1]
    module, callback = Module(), StageScores()
    module.collector.runner.answers = [Outcome(Verdict.INFRASTRUCTURE_FAILURE)]
    good, lost = outcome(1.0, 1.0, 0.5, 0.5, 0.75), Outcome(Verdict.INFRASTRUCTURE_FAILURE)
    batches = [((problem,), {"greedy": [good, lost]})]
    logged = evaluate(callback, module, batches)
    assert logged["val/total"] == 0.75
    assert not any("empty" in name for name in logged)
    assert evaluate(callback, module, batches)["val/empty/density"] == pytest.approx(0.2)
    assert module.collector.runner.given == ["", ""]
