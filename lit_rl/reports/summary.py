"""The metrics of a rollout, by the same names and formulas in training and in validation (docs/metrics.md).

Letters: N rows of one rank, T completion tokens.
"""

from __future__ import annotations

import resource
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import median

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from lit_rl.errors import UsageError
from lit_rl.execution.interface import Verdict
from lit_rl.math.pass_at_k import pass_at_k
from lit_rl.models.policy import Policy
from lit_rl.models.sampling import RandomKey
from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import Rollout
from lit_rl.rollout.sampler_check import add_sampler_mismatch
from lit_rl.training.progress import Phase, RolloutProgress
from lit_rl.training.ranks import Means, gather_over_ranks, max_over_ranks
from lit_rl.types import Completions, Experience, Judgement, Problem

_LOW, _HIGH = 0.1, 0.9
_ENTROPY_ROWS, _ENTROPY_EVERY = 16, 4


def summarise_rollout(rollout: Rollout, rewards: RewardOutput | None) -> Means:
    """Summarise a rollout as means that can be merged over batches and ranks.

    Args:
        rollout: N judged completions.
        rewards: rewards of these rows; ``None`` if the module has no reward terms.

    Returns:
        for all completions, ``completion/length`` (tokens) and ``completion/truncated_fraction``; for texts,
        ``completion/program_rate`` (a program was found) and ``completion/format_rate`` (in a fenced block); for rows
        whose check runs programs, ``verdict/<verdict>_fraction`` and, over those that could be judged,
        ``execution/pass_rate``; if rows may have several turns, ``execution/pass_rate/turn_<n>`` (as rows stood after n
        turns), ``turns/used`` and ``turns/repaired_fraction`` (of the rows whose first turn did not pass, those whose
        last turn did); for rows with a reward, ``reward/mean`` and ``reward/<term>`` (unweighted), and
        ``reward/invalid_fraction``; for each task of a mixture, verdicts, pass rate and mean reward once more, under
        ``task/<name>/``. Means over nothing are left out.
    """
    means = Means()
    judgements, completions = rollout.judgements, rollout.completions
    _add_verdict_metrics(means, judgements)
    tasks: dict[str, list[int]] = defaultdict(list)
    for row, judgement in enumerate(judgements):
        if "mixture_task" in judgement.problem.fields:
            tasks[judgement.problem.fields["mixture_task"]].append(row)
    for name, rows in tasks.items():
        _add_verdict_metrics(means, [judgements[row] for row in rows], f"task/{name}/")
        if rewards is not None:
            valid = rewards.valid[rows]
            means.add_sum(f"task/{name}/reward/mean", rewards.rewards[rows][valid].sum(), valid.sum())
    if rollout.max_turns > 1:
        _add_turn_metrics(means, rollout)
    means.add_sum("completion/length", completions.lengths.sum(), len(completions))
    means.add_sum("completion/truncated_fraction", completions.truncated.sum(), len(completions))
    texts = [judgement for judgement in judgements if judgement.problem.check.numbers is None]  # toys write numbers
    programs = [judgement.program for judgement in texts if judgement.program is not None]
    means.add_sum("completion/program_rate", len(programs), len(texts))
    means.add_sum("completion/format_rate", sum(program.fenced for program in programs), len(texts))
    if rewards is not None:
        valid = rewards.valid
        means.add_sum("reward/mean", rewards.rewards[valid].sum(), valid.sum())
        means.add_sum("reward/invalid_fraction", (~valid).sum(), len(valid))
        for name, values in rewards.term_values.items():
            known = ~values.isnan()
            means.add_sum(f"reward/{name}", values[known].sum(), known.sum())
    return means


def metrics_of_rollout(
    rollout: Rollout,
    rewards: RewardOutput,
    experience: Experience,
    seen: Mapping[str, Tensor],
    seconds: Mapping[Phase, float],
    progress: RolloutProgress,
) -> Means:
    """Measure a rollout and the time it took; all ranks call together."""
    means = summarise_rollout(rollout, rewards)
    add_uniform_group_fractions(means, rollout, rewards)
    of_ranks = gather_over_ranks(rewards.rewards[rewards.valid].tolist())
    every = torch.tensor(list(chain.from_iterable(of_ranks)), dtype=torch.float64)
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
    logprobs = seen.get("logprobs")  # under the policy of the last pass
    counted = mask if logprobs is None else mask & ~logprobs.isnan()
    if logprobs is not None and counted.any():
        sampler = experience.completions.sampler_logprobs.to(logprobs)
        old = logprobs if experience.old_logprobs is None else experience.old_logprobs.to(logprobs)
        ratios = (logprobs - old)[counted].exp()
        means.add_extreme("policy/ratio_max", float(ratios.max()), max)
        means.add_extreme("policy/ratio_min", float(ratios.min()), min)
        add_sampler_mismatch(means, old, sampler, counted)
    add_times_and_memory(means, seconds, progress)
    return means


def add_uniform_group_fractions(means: Means, rollout: Rollout, rewards: RewardOutput) -> None:
    """Add the shares of groups whose judged rows have equal rewards (and teach nothing), all passed, or all failed."""
    groups = rollout.completions.rows_by_group().values()
    values, valid = rewards.rewards.tolist(), rewards.valid.tolist()
    for rows in groups:
        for judged, passed in pass_counts_by_problem([rollout.judgements[row] for row in rows]).values():
            if judged > 1:
                means.add_sum("group/all_passed_fraction", passed == judged, 1)
                means.add_sum("group/none_passed_fraction", passed == 0, 1)
        if len(groups) < len(values):  # some groups have rows to compare
            distinct = {values[row] for row in rows if valid[row]}
            means.add_sum("group/zero_advantage_fraction", len(distinct) < 2, 1)


def add_resampled_share(means: Means, batch: Sequence[Problem], rollout: Rollout) -> None:
    """Add the share of groups that were replaced: those that now answer another problem."""
    firsts = [rows[0] for rows in rollout.completions.rows_by_group().values()]
    now = [rollout.completions.problems[row].task_id for row in firsts]
    replaced = sum(task_id != before.task_id for task_id, before in zip(now, batch, strict=True))
    means.add_sum("group/resampled_fraction", replaced, len(batch))


def add_entropy_estimate(
    means: Means, policy: Policy, completions: Completions, temperature: float, key: RandomKey
) -> None:
    """Add the mean entropy of the policy's tokens in a few rows, before the update.

    It takes one row in sixteen of every fourth rollout, drawn by the key: about half a percent of an update's time.
    """
    num_rows = max_over_ranks(len(completions), policy.device)
    if key.rollout % (_ENTROPY_EVERY * max(1, _ENTROPY_ROWS // max(1, num_rows))):
        return
    generator = torch.Generator().manual_seed(key.seed_of_stream("rows", 0))
    order = torch.randperm(len(completions), generator=generator)
    some = completions.select(order[: max(1, num_rows // _ENTROPY_ROWS)]).trim()
    mask = some.completion_mask
    means.add_sum("policy/entropy", policy.entropy(some, temperature).detach()[mask].sum(), mask.sum())


def add_times_and_memory(means: Means, seconds: Mapping[Phase, float], progress: RolloutProgress) -> None:
    """Add a rollout's seconds by phase (the mean over ranks) and its peak memory (the largest of all ranks)."""
    in_step = 0.0
    for phase, taken in seconds.items():
        means.add_sum(f"time/{'idle' if phase == 'waiting' else phase}_seconds", taken, 1)
        in_step += 0.0 if phase == "waiting" else taken
    means.add_sum("time/step_seconds", in_step, 1)
    for waited in progress.queue_seconds:
        means.add_sum("sandbox/queue_seconds", waited, 1)
    unit = 1 if sys.platform == "darwin" else 1024
    of_process = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else of_process
    means.add_extreme("memory/peak_gigabytes", peak / 1e9, max)


Counts = dict[str, tuple[int, int]]
"""Number of rows that could be judged, and of rows that passed, by task id."""


def pass_counts_by_problem(judgements: Sequence[Judgement]) -> Counts:
    """Count the rows of each problem whose check runs programs, without infrastructure failures."""
    counts: Counts = {}
    for judgement in filter_program_judgements(judgements):
        judged, passed = counts.get(judgement.problem.task_id, (0, 0))
        known = judgement.outcome.verdict is not Verdict.INFRASTRUCTURE_FAILURE
        counts[judgement.problem.task_id] = judged + known, passed + judgement.outcome.passed
    return counts


def filter_program_judgements(judgements: Sequence[Judgement]) -> list[Judgement]:
    """Return the judgements whose check runs programs: other judgements neither pass nor fail."""
    return [judgement for judgement in judgements if judgement.problem.check.runs_program]


class PassAtKMetric(Metric):
    """pass@k after each turn, averaged over the problems of all ranks, whose numbers may differ between ranks.

    It is updated with rollouts; each problem comes in one rollout of one rank. :meth:`compute` returns pass@k by k,
    once per turn: NaN if no problem has k rows that could be judged.

    Args:
        ks: the values of k for pass@k.
        max_turns: number of turns that a row may have; a row with fewer turns keeps its last result.
        sync_on_compute: ``False`` counts this rank alone.
    """

    full_state_update = False
    counts: list[Tensor]
    """[problems, turns, 2] int64, rollout by rollout: rows that could be judged, rows that passed."""

    def __init__(self, ks: Sequence[int], max_turns: int = 1, *, sync_on_compute: bool = True) -> None:
        super().__init__(sync_on_compute=sync_on_compute)
        self.ks = ks
        self.max_turns = max_turns
        self.add_state("counts", [], dist_reduce_fx="cat")

    def update(self, rollout: Rollout) -> None:
        """Count the rows of each problem as they stood after each turn."""
        turns = [
            pass_counts_by_problem(rollout.judgements_after_turn(number)).values()
            for number in range(1, self.max_turns + 1)
        ]
        counts = [list(of_problem) for of_problem in zip(*turns, strict=True)]
        self.counts.append(torch.tensor(counts, dtype=torch.long, device=self.device).view(-1, self.max_turns, 2))

    def compute(self) -> tuple[dict[int, float], ...]:
        """Average the unbiased estimates of the problems."""
        judged, passed = dim_zero_cat(self.counts).cpu().unbind(-1)
        return tuple(
            {k: self._mean_pass_at_k(judged[:, turn], passed[:, turn], k) for k in self.ks}
            for turn in range(self.max_turns)
        )

    def _mean_pass_at_k(self, judged: Tensor, passed: Tensor, k: int) -> float:
        enough = judged >= k
        estimates = pass_at_k(judged[enough], passed[enough], k).tolist()
        return sum(estimates) / len(estimates) if estimates else float("nan")


def require_pass_at_k_samples(ks: Sequence[int], num_samples: int) -> None:
    """Raise if no sampling draws enough completions for the largest k."""
    if num_samples < max(ks):
        remedy = "raise num_samples (of evaluate.sampling) or lower ks"
        raise UsageError(f"pass@{max(ks)} needs num_samples >= {max(ks)}, got {num_samples}: {remedy}")


def problem_and_program_size(judgement: Judgement) -> tuple[str, bool, int | None]:
    """Return a problem's id, whether its completions are texts, and the program's size in bytes, if there is one."""
    size = None if judgement.program is None else judgement.program.end - judgement.program.start
    return judgement.problem.task_id, judgement.problem.check.numbers is None, size


def problem_count_and_median_size(judged: Sequence[tuple[str, bool, int | None]]) -> dict[str, float]:
    """Return the number of problems and, for texts, the median size of the programs found; all ranks call this.

    ``judged`` has what :func:`problem_and_program_size` returns; each problem is judged on one rank.
    """
    sizes = [size for *_, size in judged if size is not None]
    texts = any(is_text for _, is_text, _ in judged)
    of_ranks = gather_over_ranks((len({name for name, *_ in judged}), texts, sizes))
    counts = {"num_problems": float(sum(number for number, *_ in of_ranks))}
    if any(texts for _, texts, _ in of_ranks):
        counts["median_program_bytes"] = float(median([size for *_, found in of_ranks for size in found] or [0]))
    return counts


def _add_verdict_metrics(means: Means, judgements: Sequence[Judgement], of: str = "") -> None:
    verdicts = [judgement.outcome.verdict for judgement in filter_program_judgements(judgements)]
    for verdict in Verdict:
        means.add_sum(f"{of}verdict/{verdict}_fraction", verdicts.count(verdict), len(verdicts))
    _add_pass_rate(means, verdicts, f"{of}execution/pass_rate")


def _add_pass_rate(means: Means, verdicts: Sequence[Verdict], name: str) -> None:
    judged = len(verdicts) - verdicts.count(Verdict.INFRASTRUCTURE_FAILURE)
    means.add_sum(name, verdicts.count(Verdict.PASSED), judged)


def _add_turn_metrics(means: Means, rollout: Rollout) -> None:
    verdicts_by_turn = []
    for number in range(1, rollout.max_turns + 1):
        judgements = filter_program_judgements(rollout.judgements_after_turn(number))
        verdicts_by_turn.append([judgement.outcome.verdict for judgement in judgements])
        _add_pass_rate(means, verdicts_by_turn[-1], f"execution/pass_rate/turn_{number}")
    means.add_sum("turns/used", sum(map(len, rollout.turn_judgements)), len(rollout.judgements))
    ends = zip(verdicts_by_turn[0], verdicts_by_turn[-1], strict=True)
    judged_ends = [pair for pair in ends if Verdict.INFRASTRUCTURE_FAILURE not in pair]
    failed_first = [last for first, last in judged_ends if first is not Verdict.PASSED]
    means.add_sum("turns/repaired_fraction", failed_first.count(Verdict.PASSED), len(failed_first))
