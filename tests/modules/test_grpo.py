"""GRPO and REINFORCE: the same gradient in every split, and nothing learned where there is nothing to learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.asking import WatchedGRPO
from support.small_runs import Brief, EvenBytes, Scored, at_start, everything, fit, weights, whole_and_resumed
from torch import Tensor

from lit_rl.data import SortingPolicy
from lit_rl.execution import Outcome, Sandbox, SandboxError, StdioTests, Verdict
from lit_rl.math.advantages import BatchMean, GroupMean
from lit_rl.math.losses import SequenceMask
from lit_rl.models import SeparateCritic
from lit_rl.modules import GRPO, PPO, REINFORCE, RolloutModule
from lit_rl.modules.objective import Objective
from lit_rl.rewards.term import TermScore
from lit_rl.rollout import InfrastructureError, Rollout
from lit_rl.training.ranks import sum_over_ranks
from lit_rl.types import Completions, Judgement

Make = Callable[..., RolloutModule]
CONTROLLED = Objective(
    kl_coef=0.1,
    kl_kind="k3_weighted",
    entropy_coef=0.04,
    correction=SequenceMask(0.9, 1.1, cap=2.0, negative_only=True),
)
"""Everything that may depend on the rows at hand, and must not."""


KL, IN_REWARD = Objective(kl_coef=0.1), Objective(kl_coef=0.05, kl_in="reward", kl_kind="k1")
SPLIT: dict[str, tuple[type[RolloutModule], dict[str, Any]]] = {
    "token_mean": (GRPO, {"objective": KL}),
    "sequence_sum_constant": (GRPO, {"objective": KL, "aggregate": "sequence_sum_constant"}),
    "controlled": (GRPO, {"objective": CONTROLLED}),
    "ppo": (PPO, {"objective": IN_REWARD, "value_clip": 0.2, "bootstrap_truncated": True}),
}


@pytest.mark.parametrize("kind", SPLIT)
def test_any_split_into_micro_batches_gives_the_same_weights(make_module: Make, tmp_path: Path, kind: str) -> None:
    """Items 2, 4, 5, 74: two rollouts of two epochs of two minibatches, with KL, in fp64; values are divided alike."""
    results, (cls, options) = [], SPLIT[kind]
    for size in (None, 1, 5):
        own: dict[str, Any] = {"critic": SeparateCritic()} if cls is PPO else {"baseline": GroupMean("batch_std")}
        module = make_module(cls, microbatch_size=size, epochs=2, minibatches=2, max_rollouts=2, **(options | own))
        module.policy.__class__ = Brief
        fit(module, tmp_path)
        results.append(everything(module))
    moved = (weights(module) - weights(at_start(make_module()))).abs().max()
    assert moved > (0 if kind == "sequence_sum_constant" else 1e-3)
    for other in results[1:]:
        assert (other - results[0]).abs().max() < 1e-10


def test_groups_of_equal_rewards_move_no_weight_at_all(make_module: Make, tmp_path: Path) -> None:
    """Item 17: the mean of 0.7 is not exact; the update is skipped, so the optimizer's step count does not move."""
    module = make_module(rewards=[Scored(0.7)], max_rollouts=2)
    trainer = fit(module, tmp_path)
    assert torch.equal(weights(module), weights(at_start(make_module())))
    assert (trainer.global_step, module.clock.count) == (0, 2)


class SomeFail(GRPO):
    """Every fourth program cannot be judged, for reasons of ours."""

    def collect(self, *args: Any) -> Rollout:
        rollout = super().collect(*args)
        failed = Outcome(Verdict.INFRASTRUCTURE_FAILURE, stderr="no worker")
        judgements = [replace(j, outcome=failed) if i % 4 == 1 else j for i, j in enumerate(rollout.judgements)]
        return replace(rollout, judgements=tuple(judgements))


def test_too_many_infrastructure_failures_stop_the_run(make_module: Make, tmp_path: Path) -> None:
    module = make_module(SomeFail, max_rollouts=1, max_failures=0.2)
    with pytest.raises(InfrastructureError, match=r"3 of 12 programs could not be judged.*no worker"):
        fit(module, tmp_path)


class Unparsable(EvenBytes):
    """A grader whose answers have no score in them; from the third batch on it is well again, if it recovers."""

    def __init__(self, recovers: bool) -> None:
        super().__init__()
        self.batches, self.recovers = 0, recovers

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        self.batches += 1
        if self.recovers and self.batches >= 3:
            return super().score(completions, judgements)
        return [TermScore(None, reason="no score in the answer") for _ in judgements]


def test_a_term_that_never_has_a_value_stops_the_run_and_one_that_recovers_does_not(
    make_module: Make, tmp_path: Path
) -> None:
    with pytest.raises(InfrastructureError, match=r"of the last 5 rollouts got a reward.*even: no score in the answer"):
        fit(make_module(rewards=[Unparsable(recovers=False)], max_rollouts=6), tmp_path)
    recovered = make_module(rewards=[Unparsable(recovers=True)], max_rollouts=6)
    assert fit(recovered, tmp_path).global_step == 4, "two rollouts without a reward were skipped"


@pytest.mark.parametrize("error", [RuntimeError("in the middle"), KeyboardInterrupt()])
def test_an_exception_ends_the_sandbox(make_module: Make, tmp_path: Path, error: BaseException) -> None:
    """Lightning tears the module down after a run that ended by itself, and after no other."""
    sandboxes: list[Sandbox] = []

    def sandbox() -> Sandbox:
        sandboxes.append(Sandbox(num_workers=1))
        return sandboxes[-1]

    class Fails(GRPO):
        def make_experience(self, rollout: Any, rewards: Any) -> Any:
            raise error

    module = make_module(Fails, sandbox=sandbox)
    with pytest.raises((RuntimeError, KeyboardInterrupt, SystemExit)):
        fit(module, tmp_path)
    assert len(sandboxes) == 1
    with pytest.raises(SandboxError, match="closed"):
        sandboxes[0].submit("x = 1", StdioTests((("", ""),)))


def test_decoupled_terms_reach_the_advantages_with_their_weights(make_module: Make, tmp_path: Path) -> None:
    """Of a term without spread, one without weight and one of small spread only the last counts."""
    short = Scored(lambda rows: [0.001 * n for n in rows.lengths.tolist()], "short")
    short.weight = -0.5
    unlogged = Scored(lambda rows: range(len(rows)), "numbers")
    unlogged.weight = 0.0
    terms = [Scored(1.0, "same"), unlogged, short]
    options = {"rewards": terms, "decouple_terms": True, "model": {"initializer_range": 0.3}, "max_rollouts": 1}
    module: Any = make_module(WatchedGRPO, **options)
    module.policy.__class__ = Brief
    fit(module, tmp_path)
    experience = module.experience
    lengths = experience.completions.lengths.double()
    ids = experience.completions.group_ids
    alone = GroupMean()(-lengths, torch.ones_like(ids, dtype=torch.bool), ids)
    found = experience.advantages[:, 0].double()
    assert lengths.unique().numel() > 1
    torch.testing.assert_close(found / found.norm(), (alone / alone.norm()).double(), rtol=0, atol=1e-3)


class Before(BatchMean):
    """Compares with the mean of the rollout before."""

    last = 0.0

    def expected(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        before, self.last = self.last, float(scores[valid].mean())
        return torch.full_like(scores, before)

    def advantages(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        return (scores - self.expected(scores, valid, group_ids)) * valid

    def state_dict(self) -> dict[str, Any]:
        return {"last": self.last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.last = state["last"]


def test_a_resumed_run_ends_with_the_weights_of_an_undisturbed_one(make_module: Make, tmp_path: Path) -> None:
    """Items 55 to 57, with a baseline that has a state."""
    whole, second = whole_and_resumed(lambda: make_module(baseline=Before("none"), max_rollouts=6), tmp_path, 3)
    assert torch.equal(weights(second), weights(whole))
    assert second.policy.version == whole.policy.version == 6


def test_baselines_and_deltas_sum_over_ranks() -> None:
    """Item 21."""
    for cls, name in ((REINFORCE, "baseline"), (REINFORCE, "deltas"), (GRPO, "baseline")):
        compares = BatchMean(normalize="none")
        cls(SortingPolicy(), rewards=[EvenBytes()], **{name: compares})  # type: ignore[arg-type]
        assert compares.sum_over_ranks is sum_over_ranks
