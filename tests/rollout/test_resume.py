"""A two-turn run that is interrupted and resumed equals an undisturbed one to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.small_runs import SaveAt, fit, weights

from lit_rl.models import SeparateCritic
from lit_rl.modules import GRPO, PPO, RolloutModule
from lit_rl.rollout import Attempt, Environment
from lit_rl.types import Problem


class Counts(Environment):
    """Says how much was written, unless it was an even number of letters."""

    def answer(self, problem: Problem, attempts: Sequence[Attempt]) -> str | None:
        letters = len(attempts[-1].text)
        return f" {letters}! " if letters % 2 else None


@pytest.mark.parametrize("cls", [GRPO, PPO])
def test_a_resumed_run_is_the_same(make_module: Callable[..., RolloutModule], tmp_path: Path, cls: Any) -> None:
    options: dict[str, Any] = {"critic": SeparateCritic()} if cls is PPO else {}
    options |= {"environment": Counts(max_turns=3), "max_rollouts": 4, "seed": 3}
    turns: list[int] = []

    class Watched(cls):  # type: ignore[misc]
        def collect(self, *args: Any) -> Any:
            rollout = super().collect(*args)
            turns.extend(map(len, rollout.turn_judgements))
            return rollout

    whole = make_module(Watched, **options)
    fit(whole, tmp_path, callbacks=[SaveAt(2, tmp_path / "two.ckpt")])
    in_one_go = list(turns)
    assert {1, 2} <= set(in_one_go), "rows are of several lengths"
    turns.clear()
    resumed = make_module(Watched, **options)
    fit(resumed, tmp_path, ckpt_path=str(tmp_path / "two.ckpt"))
    assert turns == in_one_go[len(in_one_go) // 2 :]
    assert weights(resumed).equal(weights(whole))
