"""A custom engine is one short file and trains like any other."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from engines.markov import MarkovEngine
from support.sampling import sample
from support.small_runs import fit

from lit_rl.engines import Session
from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM, SeparateCritic
from lit_rl.modules import GRPO, PPO, RolloutModule
from lit_rl.rollout import Rollout
from lit_rl.types import Problem, Request, Sampling, StopReason

CHAIN = {0: {65: 0.5, 66: 0.25, 256: 0.25}, 65: {66: 0.75, 256: 0.25}, 66: {65: 1.0}}
"""From anything to b or c, from b to c mostly, from c to b; 256 ends. (65 and 66 are b and c.)"""


def test_it_has_at_most_120_lines_and_imports_public_names_only() -> None:
    source = (Path(__file__).parent / "markov.py").read_text()
    assert len(source.splitlines()) <= 120
    used = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom) and node.module]
    ours = {node.module: [name.name for name in node.names] for node in used if node.module.startswith("lit_rl")}
    assert set(ours) == {"lit_rl.engines", "lit_rl.models", "lit_rl.types"}
    assert not any(name.startswith("_") for names in ours.values() for name in names)


def test_its_rows_follow_the_table_and_say_how_likely_they_were(tiny_policy: CausalLM) -> None:
    problems = [Problem(p, p, TokenTarget()) for p in ("p", "b")]
    done = sample(tiny_policy, problems, engine=MarkovEngine(CHAIN, 256), num_samples=400, max_tokens=3)
    shares = {text: done.texts[400:].count(text) / 400 for text in ("", "cb", "cbc")}
    assert sum(shares.values()) == 1
    assert shares == pytest.approx({"": 0.25, "cb": 0.75 * 0.25, "cbc": 0.75 * 0.75}, abs=0.08)
    row = done.texts.index("cbc", 400)
    assert done.sampler_logprobs[row].exp().tolist() == pytest.approx([0.75, 1.0, 0.75])
    assert done.stop_reasons[row] is StopReason.LENGTH and done.stop_reasons[done.texts.index("")] is StopReason.EOS


@pytest.mark.parametrize("cls", [GRPO, PPO])
def test_it_drives_an_algorithm(make_module: Callable[..., RolloutModule], tmp_path: Path, cls: Any) -> None:
    """Completions are the chain's, the policy learns from them, and the engine is told of each step."""
    rollouts: list[Rollout] = []

    class Watched(cls):  # type: ignore[misc]
        def collect(self, *args: Any) -> Rollout:
            rollouts.append(super().collect(*args))
            return rollouts[-1]

    engine = MarkovEngine(CHAIN, 256)
    options: dict[str, Any] = {"critic": SeparateCritic()} if cls is PPO else {}
    module: Any = make_module(Watched, engine=engine, max_rollouts=2, **options)
    module.policy.load()
    before = [parameter.detach().clone() for parameter in module.policy.parameters()]
    fit(module, tmp_path)
    assert engine.num_sessions == 2 and engine.num_stale == module.policy.version == 2
    texts = [text for rollout in rollouts for text in rollout.completions.texts]
    assert all("bcbcbc".startswith(text) or "cbcbcb".startswith(text) for text in texts)
    assert any(not torch.equal(old, new) for old, new in zip(before, module.policy.parameters(), strict=True))


def test_requests_may_come_while_others_are_written(tiny_policy: CausalLM) -> None:
    with MarkovEngine({0: {0: 1.0}}, 256).session(tiny_policy, Sampling()) as session:
        assert_interleaves(session)


def assert_interleaves(session: Session) -> None:
    """A short request that comes late is answered while an early long one is being written."""
    session.submit([Request(7, (1,), 1, max_tokens=40)])
    assert [session.step() for _ in range(3)] == [[]] * 3
    session.submit([Request(8, (2,), 2, max_tokens=2)])
    answered: list[int] = []
    while session.num_unfinished:
        assert session.num_unfinished == 2 - len(answered)
        answered += [generation.row for generation in session.step()]
    assert answered == [8, 7] and session.step() == []
