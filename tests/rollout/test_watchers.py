"""What a callback learns about each rollout, and what can be seen during one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
from rollout.scripted import Again, Passing, Scripted
from support.small_runs import build_module, fit

from lit_rl.execution import AssertTests
from lit_rl.models import CausalLM, SeparateCritic
from lit_rl.models.sampling import StreamKey
from lit_rl.modules import GRPO, PPO, REINFORCE, RolloutModule
from lit_rl.rollout import FinishedRollout, write_rows
from lit_rl.training.progress import Progress
from lit_rl.types import Problem, Sampling


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


class Peek(Progress):
    """Writes down what a reader would see, at each change of phase."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[str, int, int, int]] = []

    def enter(self, phase: Any) -> None:
        if phase != self.phase:
            self.log.append((phase, self.sampled, self.update, self.updates))
        super().enter(phase)


def test_a_training_step_goes_through_its_phases(byte_tokenizer: str, tmp_path: Path) -> None:
    module = build_module(byte_tokenizer, max_rollouts=1, epochs=2, minibatches=3, microbatch_size=2)
    progress = module.sampler.progress = Peek()
    fit(module, tmp_path)
    assert progress.log == [
        ("sampling", 0, 0, 0),
        ("judging", 12, 0, 0),
        ("rewarding", 12, 0, 0),
        ("preparing", 12, 0, 0),
        ("updating", 12, 0, 0),
        ("waiting", 12, 6, 6),
    ]
    assert progress.purpose == "training" and progress.rows == progress.turns == progress.judged == 12
    assert progress.steps == 6 and progress.tokens > 12 and progress.part == progress.parts >= 1


def test_rows_that_are_asked_again_stay_open(tiny_policy: CausalLM) -> None:
    progress = Peek()
    problem = Problem("t", "ab", AssertTests("best"), public_check=AssertTests("good"))
    engine = Scripted([["bad", "good best"], ["good", "never said"]])
    progress.begin("training")
    sampling = Sampling(num_samples=2)
    key, environment = StreamKey(0, "t", 0), Again(max_turns=2)
    write_rows(tiny_policy, engine, Passing(), [problem], sampling, key, environment, progress).finish(progress)
    assert (progress.rows, progress.sampled, progress.turns, progress.judged) == (2, 2, 3, 3)
