"""GRPO's orchestration: the same gradient in every split, and nothing learned where there is nothing to learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_runs import Brief, EvenBytes, Scored, everything, fit, weights

from lit_rl.advantages import BatchMean, GroupMean
from lit_rl.execution import Outcome, Sandbox, SandboxError, StdioTests, Verdict
from lit_rl.losses import SequenceMask
from lit_rl.models import SeparateCritic
from lit_rl.modules import GRPO, PPO, RolloutModule
from lit_rl.modules.objective import Objective
from lit_rl.rewards.term import TermScore
from lit_rl.rollout import InfrastructureError, Rollout
from lit_rl.types import Completions, Experience, Judgement, Sampling

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
    """Items 2, 4, 5, 74: two rollouts of two epochs of two minibatches, with KL, in fp64; the critic's too."""
    results, (cls, options) = [], SPLIT[kind]
    for size in (None, 1, 5):
        own: dict[str, Any] = {"critic": SeparateCritic()} if cls is PPO else {"baseline": GroupMean("batch_std")}
        module = make_module(cls, microbatch_size=size, epochs=2, minibatches=2, max_rollouts=2, **(options | own))
        module.policy.__class__ = Brief
        fit(module, tmp_path)
        results.append(everything(module))
    start = make_module()
    start.policy.load()
    moved = (weights(module) - weights(start)).abs().max()
    assert moved > (0 if kind == "sequence_sum_constant" else 1e-3)
    for other in results[1:]:
        assert (other - results[0]).abs().max() < 1e-10


class Ratios(GRPO):
    """Keeps the log-ratio of each micro-batch."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.differences: list[float] = []

    def minibatch_losses(self, micro: Experience, denominator: torch.Tensor) -> Any:
        with torch.no_grad():
            new = self.policy.logprobs(micro.completions, self.sampling.temperature)
        self.differences.append(float((new - micro.old_logprobs)[micro.loss_mask].abs().max()))
        return super().minibatch_losses(micro, denominator)


def test_the_first_ratio_is_exactly_one_however_rows_are_split(make_module: Make, tmp_path: Path) -> None:
    """Items 33, 34, 36: dropout 0.5, temperature 0.5, left pads."""
    common: dict[str, Any] = {
        "model": {"attention_dropout": 0.5},
        "sampling": Sampling(num_samples=4, max_tokens=6, temperature=0.5),
        "max_rollouts": 1,
    }
    equal = make_module(Ratios, epochs=2, **common)
    fit(equal, tmp_path)
    assert equal.differences[0] == 0.0  # type: ignore[attr-defined]
    assert equal.differences[1] > 0.0  # type: ignore[attr-defined]
    other = make_module(Ratios, minibatches=2, microbatch_size=3, **common)
    fit(other, tmp_path)
    assert other.differences[0] == 0.0  # type: ignore[attr-defined]


def test_groups_of_equal_rewards_move_no_weight_at_all(make_module: Make, tmp_path: Path) -> None:
    """Item 17: the mean of 0.7 is not exact; the update is skipped, so the optimizer's step count does not move."""
    module = make_module(rewards=[Scored(0.7)], max_rollouts=2)
    trainer = fit(module, tmp_path)
    start = make_module()
    start.policy.load()
    assert torch.equal(weights(module), weights(start))
    assert trainer.global_step == 0
    assert module.clock.count == 2


class SomeFail(GRPO):
    """Every fourth program cannot be judged, for reasons of ours; or the same rows are taken out by hand."""

    by_hand = False

    def collect(self, *args: Any) -> Rollout:
        rollout = super().collect(*args)
        failed = Outcome(Verdict.INFRASTRUCTURE_FAILURE, stderr="no worker")
        judgements = [replace(j, outcome=failed) if i % 4 == 1 else j for i, j in enumerate(rollout.judgements)]
        return replace(rollout, judgements=tuple(judgements))


class Absent(EvenBytes):
    """No value where the program could not be judged."""

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        failed = [j.outcome.verdict is Verdict.INFRASTRUCTURE_FAILURE for j in judgements]
        scores = super().score(completions, judgements)
        return [TermScore(None) if bad else score for bad, score in zip(failed, scores, strict=True)]


def test_too_many_infrastructure_failures_stop_the_run(make_module: Make, tmp_path: Path) -> None:
    module = make_module(SomeFail, rewards=[Absent()], max_rollouts=1, max_failures=0.2)
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


def test_resampling_of_groups_of_one_is_refused(make_module: Make) -> None:
    with pytest.raises(ValueError, match="num_samples must be 2 or more, or max_resamples 0"):
        make_module(sampling=Sampling(num_samples=1), baseline=BatchMean(), max_resamples=2)


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
    """Of a term without spread, one without weight and one of small spread only the last moves a weight."""
    short = Scored(lambda rows: [0.001 * n for n in rows.lengths.tolist()], "short")
    short.weight = -0.5
    unlogged = Scored(lambda rows: range(len(rows)), "numbers")
    unlogged.weight = 0.0
    terms = [Scored(1.0, "same"), unlogged, short]
    module = make_module(Kept, rewards=terms, decouple_terms=True, model={"initializer_range": 0.3}, max_rollouts=1)
    module.policy.__class__ = Brief
    fit(module, tmp_path)
    experience = module.kept[0]  # type: ignore[attr-defined]
    lengths = experience.completions.lengths.double()
    ids = experience.completions.group_ids
    alone = GroupMean()(-lengths, torch.ones_like(ids, dtype=torch.bool), ids)
    found = experience.advantages[:, 0].double()
    assert lengths.unique().numel() > 1
    torch.testing.assert_close(found / found.norm(), (alone / alone.norm()).double(), rtol=0, atol=1e-3)


class Kept(GRPO):
    """Keeps the experience of each rollout."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kept: list[Experience] = []

    def make_experience(self, *args: Any) -> Experience:
        self.kept.append(super().make_experience(*args))
        return self.kept[-1]
