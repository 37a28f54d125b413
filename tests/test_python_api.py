"""A script or a notebook without the command line: the names at the top, a run, measuring, sampling."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from support.ill_runs import Judged
from support.tiny_models import TINY_QWEN2

import lit_rl
from lit_rl import (
    GRPO,
    AssertTests,
    Attempt,
    CausalLM,
    Environment,
    Problem,
    Repair,
    Sampling,
    Sandbox,
    TaskDataModule,
    TestsReward,
    Trainer,
    evaluate,
)
from lit_rl.execution import SandboxError, Verdict


class Words(TaskDataModule):
    """Eight problems that no random policy solves."""

    def load_problems(self, split: str) -> list[Problem]:
        return [Problem(f"p{i}", f"def f{i}():\n", AssertTests(f"assert f{i}() == {i}")) for i in range(8)]


HALF = partial(Judged, share=0.5)
"""Says wrong and passed in turn, without running anything."""


def tiny(byte_tokenizer: str) -> CausalLM:
    return CausalLM(config=TINY_QWEN2, tokenizer=byte_tokenizer)


def grpo(byte_tokenizer: str, rollouts: int) -> GRPO:
    return GRPO(
        tiny(byte_tokenizer),
        sampling=Sampling(num_samples=2, max_tokens=4),
        rewards=[TestsReward()],
        sandbox=HALF,
        max_rollouts=rollouts,
    )


def test_every_public_name_is_there_and_is_the_one_of_its_module() -> None:
    assert {"GRPO", "CausalLM", "Sandbox", "evaluate"} <= set(lit_rl.__all__)
    for name in lit_rl.__all__:
        assert getattr(lit_rl, name).__name__ == name
    assert set(lit_rl.__all__) <= set(dir(lit_rl))
    with pytest.raises(AttributeError, match="no attribute 'GPRO'"):
        lit_rl.GPRO  # noqa: B018


def fitted(module: GRPO, rollouts: int) -> GRPO:
    """Train up to this many rollouts with a new trainer, as in a notebook."""
    module.max_rollouts = rollouts
    trainer = Trainer(
        accelerator="cpu", logger=False, enable_progress_bar=False, enable_checkpointing=False, limit_val_batches=0
    )
    trainer.fit(module, Words(batch_size=2))
    return module


def test_a_sandbox_is_handed_in_as_it_is(byte_tokenizer: str) -> None:
    """It starts with the first program, ends with the run, and starts again for the next one."""
    sandbox = Sandbox(num_workers=1)
    module = grpo(byte_tokenizer, 1)
    module.collector.sandbox = sandbox
    assert not sandbox.is_running
    for rollouts in (1, 2):
        assert fitted(module, rollouts).clock.count == rollouts
        assert not sandbox.is_running and sandbox._closed, "the run started it, so the run closed it"
        assert module.collector.runner is None
    with pytest.raises(SandboxError, match="closed"):
        sandbox.submit("x = 1", AssertTests("assert x"))
    sandbox.reopen()
    with sandbox:
        (outcome,) = sandbox.judge_many([("x = 1", AssertTests("assert x"))])
        assert outcome.passed


def test_a_sandbox_that_runs_already_stays_open(byte_tokenizer: str) -> None:
    with Sandbox(num_workers=1) as sandbox:
        module = grpo(byte_tokenizer, 1)
        module.collector.sandbox = sandbox
        fitted(module, 1)
        assert sandbox.is_running
        (outcome,) = sandbox.judge_many([("x = 1", AssertTests("assert x"))])
        assert outcome.passed


def test_a_policy_writes_without_a_trainer(byte_tokenizer: str) -> None:
    policy = tiny(byte_tokenizer)
    sampling = Sampling(num_samples=2, max_tokens=5)
    texts = policy.complete(["def f", "def g"], sampling, seed=3)
    assert len(texts) == 4 and all(isinstance(text, str) for text in texts)
    assert policy.complete(["def f", "def g"], sampling, seed=3) == texts
    assert policy.complete(["def f", "def g"], sampling, seed=4) != texts
    assert policy.complete([Words().problems("train")[0]], Sampling(temperature=0.0, max_tokens=5))


def test_evaluate_is_pass_at_k_over_problems(byte_tokenizer: str) -> None:
    """Every second completion passes: of two each, one passes, so pass@1 is 1/2 and pass@2 is 1."""
    problems = Words().problems("validation")
    runner = HALF()
    sampling = Sampling(num_samples=2, max_tokens=6)
    found = evaluate(tiny(byte_tokenizer), problems, sampling=sampling, sandbox=runner, ks=(1, 2), batch_size=3)
    assert len(found.rollouts) == 3, "8 problems in batches of 3"
    assert sum(found.verdicts.values()) == 16
    judged = [j for rollout in found.rollouts for j in rollout.judgements]
    assert [j.problem.task_id for j in judged] == [p.task_id for p in problems for _ in range(2)]
    with pytest.raises(ValueError, match="needs num_samples >= 3, got 2"):
        evaluate(tiny(byte_tokenizer), problems, sampling=sampling, sandbox=runner, ks=(3,))
    with pytest.raises(ValueError, match="no problems"):
        evaluate(tiny(byte_tokenizer), [], sandbox=runner)


def test_evaluate_says_what_each_turn_came_to(byte_tokenizer: str) -> None:
    """The first programs fail and the second ones pass."""

    class Again(Environment):
        def answer(self, problem: Problem, attempts: Sequence[Attempt]) -> str | None:
            return "again"

    class LaterPasses(Judged):
        def judge(self, program: str) -> Verdict:
            self.calls += 1
            return Verdict.PASSED if self.calls > 2 else Verdict.EXCEPTION

    problems, sampling = Words().problems("validation")[:2], Sampling(max_tokens=6)
    two_turns: dict[str, Any] = {"environment": Again(max_turns=2), "sandbox": LaterPasses()}
    found = evaluate(tiny(byte_tokenizer), problems, sampling=sampling, **two_turns)
    assert found.pass_at_turn == ({1: 0}, {1: 1})
    assert found.pass_at == {1: 1} and found.verdicts == {Verdict.PASSED: 2}
    found = evaluate(tiny(byte_tokenizer), problems, sampling=sampling, sandbox=LaterPasses())
    assert found.pass_at_turn == (found.pass_at,)
    with pytest.raises(ValueError, match="has no public_check to repair a program by"):
        evaluate(tiny(byte_tokenizer), problems, sampling=sampling, sandbox=LaterPasses(), environment=Repair())
