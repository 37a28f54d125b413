"""The metrics of a rollout in training; docs/metrics.md explains each name.

Letters: N rows of one rank, T completion tokens.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from lit_rl.execution.interface import Verdict
from lit_rl.models.policy import Policy
from lit_rl.models.sampling import StreamKey
from lit_rl.reports.summary import pass_counts_by_problem, summarise_rollout
from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import Rollout
from lit_rl.rollout.sampler_check import add_mismatch
from lit_rl.training.progress import Phase, Progress
from lit_rl.training.ranks import Means, gather_over_ranks, max_over_ranks
from lit_rl.types import Completions, Experience, Problem

_LOW, _HIGH = 0.1, 0.9
_ENTROPY_ROWS, _ENTROPY_EVERY = 16, 4


def metrics_of_rollout(
    rollout: Rollout,
    rewards: RewardOutput,
    experience: Experience,
    seen: Mapping[str, Tensor],
    seconds: Mapping[Phase, float],
    progress: Progress,
) -> Means:
    """Measure a rollout and the time it took; all ranks call together."""
    means = summarise_rollout(rollout, rewards)
    add_uniform_group_fractions(means, rollout, rewards)
    known = gather_over_ranks(rewards.rewards[rewards.valid].tolist())
    every = torch.tensor([reward for of_rank in known for reward in of_rank], dtype=torch.float64)
    if len(every):
        low, high = every.quantile(torch.tensor([_LOW, _HIGH], dtype=torch.float64)).tolist()
        means.add({"reward/std": float(every.std(correction=0)), "reward/p10": low, "reward/p90": high})
    lengths = rollout.completions.lengths.tolist()
    for judgement, length in zip(rollout.judgements, lengths, strict=True):
        if not judgement.problem.check.runs_program:
            continue
        outcome = judgement.outcome
        means.add_sum(f"length/{outcome.verdict}", length, 1)
        if judgement.program is not None and outcome.verdict is not Verdict.INFRASTRUCTURE_FAILURE:
            means.add_sum("sandbox/seconds", outcome.wall_seconds, 1)
            means.add_sum(f"sandbox/seconds_{outcome.verdict}", outcome.wall_seconds, 1)
    mask = experience.loss_mask
    moving = experience.advantages != 0
    moving = moving if experience.teacher_mask is None else moving | experience.teacher_mask
    means.add_sum("update/trained_fraction", (moving & mask).any(-1).sum(), len(experience))
    logprobs = seen.get("logprobs")  # of the last pass's policy
    counted = mask if logprobs is None else mask & ~logprobs.isnan()
    if logprobs is not None and counted.any():
        sampler = experience.completions.sampler_logprobs.to(logprobs)
        old = logprobs if experience.old_logprobs is None else experience.old_logprobs.to(logprobs)
        ratios = (logprobs - old)[counted].exp()
        means.add_largest("policy/ratio_max", float(ratios.max()))
        means.add_smallest("policy/ratio_min", float(ratios.min()))
        add_mismatch(means, old, sampler, counted)
    add_times_and_memory(means, seconds, progress)
    return means


def add_uniform_group_fractions(means: Means, rollout: Rollout, rewards: RewardOutput) -> None:
    """Shares of groups whose judged rows all have the same reward, which teach nothing; all passed; or all failed."""
    groups = rollout.completions.rows_by_group().values()
    counts = [pass_counts_by_problem([rollout.judgements[row] for row in rows]).values() for rows in groups]
    ends = [passed / rows for of_group in counts for rows, passed in of_group if rows > 1]
    means.add_sum("group/all_passed_fraction", ends.count(1.0), len(ends))
    means.add_sum("group/none_passed_fraction", ends.count(0.0), len(ends))
    if any(len(rows) > 1 for rows in groups):
        pairs = zip(rewards.rewards.tolist(), rewards.valid.tolist(), strict=True)
        judged = [reward if valid else None for reward, valid in pairs]
        unequal = [len({judged[row] for row in rows} - {None}) > 1 for rows in groups]
        means.add_sum("group/zero_advantage_fraction", unequal.count(False), len(unequal))


def add_resampled_share(means: Means, batch: Sequence[Problem], rollout: Rollout) -> None:
    """Share of groups that were replaced: those that now answer another problem."""
    firsts = [rows[0] for rows in rollout.completions.rows_by_group().values()]
    now = [rollout.completions.problems[row].task_id for row in firsts]
    replaced = sum(task_id != before.task_id for task_id, before in zip(now, batch, strict=True))
    means.add_sum("group/resampled_fraction", replaced, len(batch))


def add_entropy_estimate(
    means: Means, policy: Policy, completions: Completions, temperature: float, key: StreamKey
) -> None:
    """Mean entropy of the policy's tokens in a few rows, before the update.

    One row in sixteen of every fourth rollout, drawn by the key: about half a percent of an update's time.
    """
    num_rows = max_over_ranks(len(completions), policy.device)
    if key.rollout % (_ENTROPY_EVERY * max(1, _ENTROPY_ROWS // max(1, num_rows))):
        return
    generator = torch.Generator().manual_seed(key.seed_of("rows", 0))
    order = torch.randperm(len(completions), generator=generator)
    some = completions.select(order[: max(1, num_rows // _ENTROPY_ROWS)]).trim()
    mask = some.completion_mask
    means.add_sum("policy/entropy", policy.entropy(some, temperature).detach()[mask].sum(), mask.sum())


def add_times_and_memory(means: Means, seconds: Mapping[Phase, float], progress: Progress) -> None:
    """Add a rollout's seconds by phase and its peak memory; mean over ranks, for memory the largest."""
    named = {"idle" if phase == "waiting" else phase: taken for phase, taken in seconds.items()}
    means.add({f"time/{name}_seconds": taken for name, taken in named.items()})
    means.add({"time/step_seconds": sum(taken for name, taken in named.items() if name != "idle")})
    for waited in progress.queue_seconds:
        means.add_sum("sandbox/queue_seconds", waited, 1)
    unit = 1 if sys.platform == "darwin" else 1024
    of_process = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else of_process
    means.add_largest("memory/peak_gigabytes", peak / 1e9)
