"""The event loop: who is asked when, what a row is made of, and what ends it."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
from rollout.scripted import Again, Passing, Scripted
from support.small_runs import build_module, fit

from lit_rl.execution import AssertTests, Check, Outcome
from lit_rl.models import CausalLM, SeparateCritic
from lit_rl.models.sampling import RandomKey
from lit_rl.modules import GRPO, PPO, REINFORCE, RolloutModule
from lit_rl.rollout import FinishedRollout, Rollout, sample_rows
from lit_rl.types import Problem, Sampling, StopReason

KEY = RandomKey(0, "test", 0)
PUBLIC, HIDDEN = AssertTests("good"), AssertTests("best")
PROBLEM = Problem("t", "ab", HIDDEN, public_check=PUBLIC)


def play(policy: CausalLM, engine: Scripted, environment: Again | None = None, **options: object) -> Rollout:
    runner = options.pop("runner", Passing())
    problems = options.pop("problems", [PROBLEM])
    rows = len(engine.script) // len(problems)  # type: ignore[arg-type]
    sampling = Sampling(num_samples=rows, **options)  # type: ignore[arg-type]
    return sample_rows(policy, engine, runner, problems, sampling, KEY, environment).finish()  # type: ignore[arg-type]


def ids(policy: CausalLM, text: str, ended: bool = True) -> list[int]:
    """A token a byte, and EOS."""
    given = list(policy.codec.encode_completion(text)[0])
    return given if ended else given[:-1]


def test_a_second_turn_extends_the_row_verbatim(tiny_policy: CausalLM) -> None:
    engine = Scripted([["bad", "good best"], ["good", "never said"]])
    rollout = play(tiny_policy, engine, Again(max_turns=2))
    said = engine.requests[-1]
    assert said.row == 0 and len(engine.requests) == 3
    before = ids(tiny_policy, "bad") + ids(tiny_policy, "Again.", ended=False)
    assert list(said.prompt_ids) == ids(tiny_policy, "ab", ended=False) + before
    rows = rollout.completions
    assert rows.completion_ids[0].tolist() == before + ids(tiny_policy, "good best")
    assert rows.completion_mask[0].tolist() == [True] * 4 + [False] * 6 + [True] * 10
    assert rows.token_mask[0].all() and rows.token_mask[1].sum() == 5
    assert rows.sampler_logprobs[0].tolist() == [-0.5] * 4 + [0.0] * 6 + [-1.5] * 10
    assert [(turn.start, turn.end, turn.text) for turn in rows.turns[0]] == [(0, 4, "bad"), (10, 20, "good best")]
    assert rows.texts == ("good best", "good")
    assert rows.weights_versions == (0, 0)


def test_the_last_turn_is_judged_under_the_hidden_check_and_every_turn_is_known(tiny_policy: CausalLM) -> None:
    rollout = play(tiny_policy, Scripted([["bad", "good best"], ["good", ""]]), Again(max_turns=2))
    assert [j.outcome.passed for j in rollout.judgements] == [True, False], "the public check decides no reward"
    assert [[j.outcome.passed for j in of_row] for of_row in rollout.turn_judgements] == [[False, True], [False]]
    assert all(of_row[-1] is last for of_row, last in zip(rollout.turn_judgements, rollout.judgements, strict=True))


def test_each_turn_has_a_stream_of_its_own_and_the_first_is_that_of_a_single_turn(tiny_policy: CausalLM) -> None:
    engine = Scripted([["bad", "bad"], ["bad", "bad"]])
    play(tiny_policy, engine, Again(max_turns=2))
    streams = [request.stream for request in engine.requests]
    assert len(set(streams)) == 4
    assert streams[:2] == [KEY.seed_of_stream("t", 0), KEY.seed_of_stream("t", 1)]


def test_in_rounds_all_rows_finish_a_turn_before_any_is_answered(tiny_policy: CausalLM) -> None:
    engine = Scripted([["bad but long", "good"], ["bad", "good"]])
    play(tiny_policy, engine, Again(max_turns=2))
    assert engine.log[1:-1] == ["ask 0", "ask 1", "said 1", "said 0", "ask 0", "ask 1", "said 0", "said 1"]


def test_an_engine_without_rounds_is_asked_as_soon_as_the_verdict_is_there(tiny_policy: CausalLM) -> None:
    engine = Scripted([["bad but very long", "good"], ["bad", "good"]], in_rounds=False)
    play(tiny_policy, engine, Again(max_turns=2))
    assert engine.log[1:5] == ["ask 0", "ask 1", "said 1", "ask 1"]


@pytest.mark.parametrize("in_rounds", [True, False])
def test_verdicts_that_come_late_are_waited_for(tiny_policy: CausalLM, in_rounds: bool) -> None:
    """The engine has nothing left to say while programs still run."""

    class Late(Passing):
        def submit(self, program: str, check: Check) -> Future[Outcome]:
            from threading import Timer

            outcome = super().submit(program, check).result()
            late: Future[Outcome] = Future()
            Timer(0.05, late.set_result, [outcome]).start()
            return late

    engine = Scripted([["bad", "good best"]] * 2, in_rounds=in_rounds)
    rollout = play(tiny_policy, engine, Again(max_turns=2), runner=Late())
    assert all(judgement.outcome.passed for judgement in rollout.judgements)


def test_a_row_without_room_for_another_turn_ends(tiny_policy: CausalLM) -> None:
    """Two of the prompt, four of the turn, six of the message: a limit of twelve leaves no token to say."""
    for limit, turns in ((12, 1), (13, 2)):
        engine = Scripted([["bad", "good"]])
        rollout = play(tiny_policy, engine, Again(max_turns=2, max_row_tokens=limit))
        assert len(rollout.completions.turns[0]) == turns
        assert int(rollout.completions.token_mask.sum()) <= limit
    assert engine.requests[-1].max_tokens == 1
    assert rollout.completions.stop_reasons == (StopReason.LENGTH,)


def test_equal_programs_run_once_under_each_check(tiny_policy: CausalLM) -> None:
    runner = Passing()
    other = replace(PROBLEM, task_id="u")
    play(tiny_policy, Scripted([["bad", "bad"]] * 4), Again(max_turns=2), runner=runner, problems=[PROBLEM, other])
    assert sorted(check.test for _, check in runner.runs) == ["best"] * 2 + ["good"] * 2  # type: ignore[attr-defined]


class Watcher(pl.Callback):
    def __init__(self) -> None:
        self.seen: list[tuple[int, FinishedRollout]] = []

    def on_rollout_end(self, trainer: pl.Trainer, module: Any, finished: FinishedRollout) -> None:
        self.seen.append((module.clock.count, finished))


@pytest.mark.parametrize("cls", [GRPO, REINFORCE, PPO])
def test_a_callback_sees_each_rollout_once_with_what_was_computed(
    byte_tokenizer: str, tmp_path: Path, cls: type[RolloutModule]
) -> None:
    watcher = Watcher()
    more: dict[str, Any] = {"critic": SeparateCritic()} if cls is PPO else {}
    module = build_module(byte_tokenizer, cls, max_rollouts=3, **more)
    fit(module, tmp_path, callbacks=[pl.Callback(), watcher])
    assert [number for number, *_ in watcher.seen] == [1, 2, 3]
    for _, (rollout, rewards, experience, metrics) in watcher.seen:
        assert len(rollout.judgements) == len(rewards.rewards) == len(experience) == 12
        assert experience.completions is rollout.completions and experience.rewards.equal(rewards.rewards)
        assert metrics["reward/mean"] == pytest.approx(float(rewards.rewards.mean()))
        assert metrics["optimizer/learning_rate"] == 0.5 and "loss" in metrics
