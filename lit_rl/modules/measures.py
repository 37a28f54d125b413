"""What training measures of a rollout beside what :mod:`lit_rl.summary` sums up; docs/metrics.md explains each name.

Letters: N rows of one rank, T completion tokens.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping

import torch
from torch import Tensor

from lit_rl.execution.outcome import Verdict
from lit_rl.modules.mismatch import add_mismatch
from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import Rollout
from lit_rl.training.progress import Phase, Progress
from lit_rl.training.ranks import Means, gather_over_ranks
from lit_rl.types import Completions, Experience

_LOW, _HIGH = 0.1, 0.9


def measure(rollout: Rollout, rewards: RewardOutput, experience: Experience, seen: Mapping[str, Tensor]) -> Means:
    """Measure a rollout; all ranks call together.

    Args:
        rollout: N judged rows.
        rewards: of the same rows.
        experience: what was made of them.
        seen: what the update's forward passes found, [N, T], NaN where they did not come.
    """
    means = Means()
    spread_of_rewards(means, rewards)
    by_verdict(means, rollout)
    mask = experience.loss_mask
    means.add_sum("update/trained_fraction", ((experience.advantages != 0) & mask).any(-1).sum(), len(experience))
    if "logprobs" in seen:
        ratios_of(means, experience, seen["logprobs"])
    return means


def spread_of_rewards(means: Means, rewards: RewardOutput) -> None:
    """Standard deviation, and the rewards below which a tenth and nine tenths of all rows lie, over all ranks."""
    known = gather_over_ranks(rewards.rewards[rewards.valid].tolist())
    every = torch.tensor([reward for of_rank in known for reward in of_rank], dtype=torch.float64)
    if len(every):
        low, high = every.quantile(torch.tensor([_LOW, _HIGH], dtype=torch.float64)).tolist()
        means.add({"reward/std": float(every.std(correction=0)), "reward/p10": low, "reward/p90": high})


def by_verdict(means: Means, rollout: Rollout) -> None:
    """Length of the rows and time of their programs, by how they ended."""
    lengths = rollout.completions.lengths.tolist()
    for judgement, length in zip(rollout.judgements, lengths, strict=True):
        if not judgement.problem.check.runs_program:
            continue
        outcome = judgement.outcome
        means.add_sum(f"length/{outcome.verdict}", length, 1)
        if judgement.program is not None and outcome.verdict is not Verdict.INFRASTRUCTURE_FAILURE:
            means.add_sum("sandbox/seconds", outcome.wall_seconds, 1)
            means.add_sum(f"sandbox/seconds_{outcome.verdict}", outcome.wall_seconds, 1)


def ratios_of(means: Means, experience: Experience, logprobs: Tensor) -> None:
    """How far the policy of the last pass is from the old one, and that from what the sampler reported.

    Args:
        means: added to.
        experience: N rows.
        logprobs: [N, T] nats of the last forward pass over each row, NaN where there was none.
    """
    mask = experience.loss_mask & ~logprobs.isnan()
    if not mask.any():
        return
    sampler = experience.completions.sampler_logprobs.to(logprobs)
    old = logprobs if experience.old_logprobs is None else experience.old_logprobs.to(logprobs)
    ratios = (logprobs - old)[mask].exp()
    means.add_largest("policy/ratio_max", float(ratios.max()))
    means.add_smallest("policy/ratio_min", float(ratios.min()))
    gap = (old - sampler)[mask].abs()
    means.add_sum("policy/sampler_gap", gap.sum(), gap.numel())
    means.add_largest("policy/sampler_gap_max", float(gap.max()))
    add_mismatch(means, old, sampler, mask)


def entropy_of(entropy: Tensor, completions: Completions) -> Means:
    """Mean over the policy's tokens of some rows."""
    means = Means()
    mask = completions.completion_mask
    means.add_sum("policy/entropy", entropy.detach()[mask].sum(), mask.sum())
    return means


def time_split(seconds: Mapping[Phase, float], progress: Progress) -> Means:
    """Where a rollout's time went, and what it took of memory; mean over ranks, memory the largest."""
    means = Means()
    named = {"idle" if phase == "waiting" else phase: taken for phase, taken in seconds.items()}
    means.add({f"time/{name}_seconds": taken for name, taken in named.items()})
    means.add({"time/step_seconds": sum(taken for name, taken in named.items() if name != "idle")})
    for waited in progress.waits:
        means.add_sum("sandbox/queue_seconds", waited, 1)
    means.add_largest("memory/peak_gigabytes", peak_gigabytes())
    return means


def peak_gigabytes() -> float:
    """Most memory that was taken so far: of the accelerator where there is one, else of this process."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e9
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
