"""Counts of validation, on hand-made judgements."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from support.completions import batch
from support.ranks import on_ranks
from support.two_turns import rows_of

import lit_rl.cli.main  # noqa: F401  # short class names
from lit_rl.callbacks import ExecutionEvaluation
from lit_rl.callbacks.completion_log import conversation_messages, row_as_markdown
from lit_rl.execution import AssertTests, Outcome, Verdict
from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import Evaluated, Rollout, SingleTurn
from lit_rl.training.progress import StepCounter
from lit_rl.types import Judgement, Problem, Program, Sampling, StopReason

P, W, LOST = Verdict.PASSED, Verdict.WRONG_ANSWER, Verdict.INFRASTRUCTURE_FAILURE


def rollout(verdicts: dict[str, list[Verdict]]) -> Rollout:
    """One row per verdict; row i has i + 1 tokens and a program of 3 bytes."""
    rows = [(name, verdict) for name, of_problem in verdicts.items() for verdict in of_problem]
    n = len(rows)
    problems = tuple(Problem(name, f"prompt of {name}", AssertTests("assert True")) for name, _ in rows)
    groups = torch.arange(n) // (n // len(verdicts))
    completions = replace(batch(["x" * i for i in range(n)]), problems=problems, group_ids=groups)
    program = Program("abc", 0, 3, fenced=True)
    judgements = (Judgement(p, program, Outcome(v)) for p, (_, v) in zip(problems, rows, strict=True))
    return Rollout(completions, tuple(judgements))


class Module:
    """Keeps what is logged."""

    device = torch.device("cpu")

    def __init__(self, num_samples: int) -> None:
        self.validation_sampling = {"sampled": Sampling(num_samples=num_samples)}
        self.collector = SimpleNamespace(environment=SingleTurn())
        self.policy, self.rewards = SimpleNamespace(codec=SimpleNamespace(decode=None)), None
        self.logged: dict[str, float] = {}
        self.clock = StepCounter("rollout")
        self.clock.count = 7

    def log_dict(self, metrics: dict[str, float]) -> None:
        self.logged |= metrics


def evaluate(
    callback: ExecutionEvaluation, *batches: Rollout, num_samples: int, tasks: tuple[str, ...] = ("t",)
) -> Any:
    module: Any = Module(num_samples)
    trainer: Any = SimpleNamespace(datamodule=SimpleNamespace(validation_task_names=tasks))
    callback.setup(trainer, module, "validate")
    callback.on_validation_epoch_start(trainer, module)
    for i, sampled in enumerate(batches):
        valid = torch.tensor([one.outcome.verdict is not LOST for one in sampled.judgements], dtype=torch.bool)
        even = torch.tensor([1.0, float("nan")])
        rewards = RewardOutput(valid.float(), valid, {"even": even}, {}, lambda: pytest.fail("not needed"))
        evaluated = Evaluated({"sampled": sampled}, {"sampled": rewards})
        callback.on_validation_batch_end(trainer, module, evaluated, None, i, i % len(tasks))
    callback.on_validation_epoch_end(trainer, module)
    return module.logged


def test_pass_at_k_is_unbiased_over_problems() -> None:
    """Item 66: 1 of 4 passed gives pass@1 = 1/4 and pass@2 = 1 - C(3,2)/C(4,2) = 1/2; none passed gives 0."""
    logged = evaluate(ExecutionEvaluation([1, 2]), rollout({"a": [P, W, W, W], "b": [W] * 4}), num_samples=4)
    assert logged["val/sampled/pass@1"] == pytest.approx((1 / 4 + 0) / 2)
    assert logged["val/sampled/pass@2"] == pytest.approx((1 / 2 + 0) / 2)
    assert logged["val/sampled/num_problems"] == 2
    assert logged["val/sampled/verdict/passed_fraction"] == 1 / 8


def test_a_validation_keeps_no_judgements() -> None:
    """Programs and what they printed would fill the memory over a large validation."""
    callback, judged = ExecutionEvaluation(), rollout({"a": [P, W]})
    evaluate(callback, judged, num_samples=2)
    kept = weakref.ref(judged.judgements[0])
    del judged
    gc.collect()
    assert kept() is None


def test_failures_of_ours_leave_pass_at_k_and_are_counted() -> None:
    """Item 58: b is 1 of 1 that could be judged; c could not be judged at all and is left out."""
    logged = evaluate(ExecutionEvaluation(), rollout({"a": [W, W], "b": [P, LOST], "c": [LOST, LOST]}), num_samples=2)
    assert logged["val/sampled/pass@1"] == pytest.approx((0 + 1) / 2)
    assert logged["val/sampled/verdict/infrastructure_failure_fraction"] == 3 / 6
    assert logged["val/sampled/reward/mean"] == 1, "the mean of the three rows that have a reward"


def conversations(verdicts: dict[str, list[list[Verdict]]], max_turns: int) -> Rollout:
    """One row for each list of verdicts, one per turn."""
    last = rollout({name: [row[-1] for row in rows] for name, rows in verdicts.items()})
    every = [row for rows in verdicts.values() for row in rows]
    judged = tuple(
        (*(replace(final, outcome=Outcome(verdict)) for verdict in row[:-1]), final)
        for final, row in zip(last.judgements, every, strict=True)
    )
    return replace(last, turn_judgements=judged, max_turns=max_turns)


def test_pass_at_k_is_told_turn_by_turn_and_a_conversation_counts_once() -> None:
    """a: one of two passed at once, the other in turn 2. b: repaired in turn 3. c: a repair that broke it again."""
    batches = (
        conversations({"a": [[P], [W, P]], "b": [[W, W, P], [W, W, W]]}, 3),
        conversations({"c": [[W, P, W], [W, W]]}, 3),
    )
    logged = evaluate(ExecutionEvaluation([1, 2]), *batches, num_samples=2)
    at_1 = [logged[f"val/sampled/pass@1/turn_{n}"] for n in (1, 2, 3)]
    assert at_1 == pytest.approx([(1 / 2 + 0 + 0) / 3, (1 + 0 + 1 / 2) / 3, (1 + 1 / 2 + 0) / 3])
    at_2 = [logged[f"val/sampled/pass@2/turn_{n}"] for n in (1, 2, 3)]
    assert at_2 == pytest.approx([1 / 3, 2 / 3, 2 / 3])
    assert (logged["val/sampled/pass@1"], logged["val/sampled/pass@2"]) == (at_1[-1], at_2[-1])
    assert logged["val/sampled/num_problems"] == 3
    assert "val/sampled/pass@1/turn_4" not in logged


def test_failures_of_ours_leave_the_turns_that_they_are_in() -> None:
    """A could not be judged after turn 1, and passed; b was judged once, and then not."""
    logged = evaluate(ExecutionEvaluation(), conversations({"a": [[LOST, P]], "b": [[W, LOST]]}, 2), num_samples=1)
    assert (logged["val/sampled/pass@1/turn_1"], logged["val/sampled/pass@1/turn_2"]) == (0, 1)
    assert logged["val/sampled/pass@1"] == 1


def test_without_a_reward_none_is_logged() -> None:
    """SFT has no reward terms: a 0 in the curves would be a number that nothing gave."""
    logged = evaluate(ExecutionEvaluation(), rollout({"a": [LOST], "b": [LOST]}), num_samples=1)
    assert not {"val/sampled/reward/mean", "val/sampled/pass@1"} & logged.keys()
    assert logged["val/sampled/verdict/infrastructure_failure_fraction"] == 1


def test_the_median_size_of_programs_is_that_of_all_ranks() -> None:
    """Four programs of 3 bytes on rank 0, two of 50 on rank 1."""
    short, long = rollout({"a": [P, P], "b": [W, W]}), rollout({"c": [P, W]})
    long = replace(long, judgements=tuple(replace(one, program=Program("", 0, 50)) for one in long.judgements))

    def on_rank() -> Any:
        dist.init_process_group("gloo")
        return evaluate(ExecutionEvaluation(), (short, long)[dist.get_rank()], num_samples=2)

    assert [found["val/sampled/median_program_bytes"] for found in on_ranks(on_rank)] == [3, 3]


def test_all_turns_of_a_row_are_written_with_what_the_environment_said() -> None:
    """Ids are code points here; a row of one turn has no numbers."""
    rows = rows_of([[119], [119]], [[[50, 51], [72, 105], [52]], [[50]]])

    def decode(ids: Sequence[int], reason: StopReason, stops: Sequence[str]) -> tuple[str, Any]:
        return "".join(map(chr, ids)), ()

    assert conversation_messages(rows, 0, decode) == [("turn 1", "xx"), ("environment", "Hi"), ("turn 2", "x")]
    assert conversation_messages(rows, 0)[1] == ("environment", "(2 tokens)")
    assert conversation_messages(rows, 1, decode) == [("completion", "x")]
    judgement = Judgement(rows.problems[0], None, Outcome(P))
    text = row_as_markdown(judgement, conversation_messages(rows, 0, decode))
    assert text.endswith("turn 1:\n\n    xx\n\nenvironment:\n\n    Hi\n\nturn 2:\n\n    x")
