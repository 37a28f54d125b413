"""The metrics of a rollout, by the same names and formulas in training and in validation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from lit_rl.errors import UsageError
from lit_rl.execution.interface import Verdict
from lit_rl.math.pass_at_k import pass_at_k
from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import Rollout
from lit_rl.training.ranks import Means, gather_over_ranks
from lit_rl.types import Judgement, Problem


def has_text_completions(problem: Problem) -> bool:
    """Return whether completions are texts; those of toy tasks are numbers."""
    return problem.check.numbers is None


def summarise_rollout(rollout: Rollout, rewards: RewardOutput | None) -> Means:
    """Summarise a rollout as means that can be merged over batches and ranks.

    Args:
        rollout: N judged completions.
        rewards: of the same rows; ``None`` if the module has no reward terms.

    Returns:
        of all completions ``completion/length`` (tokens) and ``completion/truncated_fraction``; of those that are
        texts ``completion/program_rate`` (a program was found) and ``completion/format_rate`` (in a fenced block); of
        those whose check runs programs ``verdict/<verdict>_fraction``, and ``execution/pass_rate`` of the ones that
        could be judged; where rows may have several turns ``execution/pass_rate/turn_<n>`` (as rows stood after n
        turns), ``turns/used`` and ``turns/repaired_fraction`` (of the rows whose first turn did not pass, those whose
        last turn did); with rewards ``reward/mean`` and ``reward/<term>`` (unweighted) of the rows that have one, and
        ``reward/invalid_fraction``; of each task of a mixture verdicts, pass rate and mean reward once more, under
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
    texts = [judgement for judgement in judgements if has_text_completions(judgement.problem)]
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


Counts = dict[str, tuple[int, int]]
"""By task id: rows that could be judged, rows that passed."""


def pass_counts_by_problem(judgements: Sequence[Judgement]) -> Counts:
    """Count the rows of each problem whose check runs programs, without those that could not be judged by our fault."""
    counts: Counts = {}
    for judgement in judgements_of_programs(judgements):
        judged, passed = counts.get(judgement.problem.task_id, (0, 0))
        known = judgement.outcome.verdict is not Verdict.INFRASTRUCTURE_FAILURE
        counts[judgement.problem.task_id] = judged + known, passed + judgement.outcome.passed
    return counts


def judgements_of_programs(judgements: Sequence[Judgement]) -> list[Judgement]:
    """Judgements whose check runs programs: the others neither pass nor fail."""
    return [judgement for judgement in judgements if judgement.problem.check.runs_program]


class PassAtKMetric(Metric):
    """pass@k after each turn, averaged over the problems of all ranks, which may hold different numbers of them.

    Updated with rollouts; each problem comes in one rollout of one rank. :meth:`compute` returns pass@k by k, once per
    turn: NaN where no problem has k rows that could be judged.

    Args:
        ks: the k of pass@k.
        max_turns: turns that a row could have had; a row that had fewer stays as it was.
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
            {k: self._mean(judged[:, turn], passed[:, turn], k) for k in self.ks} for turn in range(self.max_turns)
        )

    def _mean(self, judged: Tensor, passed: Tensor, k: int) -> float:
        enough = judged >= k
        estimates = pass_at_k(judged[enough], passed[enough], k).tolist()
        return sum(estimates) / len(estimates) if estimates else float("nan")


def check_ks(ks: Sequence[int], num_samples: int) -> None:
    """Raise if no sampling draws enough completions for the largest k."""
    if num_samples < max(ks):
        remedy = "raise num_samples (of evaluate.sampling) or lower ks"
        raise UsageError(f"pass@{max(ks)} needs num_samples >= {max(ks)}, got {num_samples}: {remedy}")


def problem_and_size(judgement: Judgement) -> tuple[str, bool, int | None]:
    """A problem's id, whether its completions are texts, and the bytes of the program found, if there is one."""
    size = None if judgement.program is None else judgement.program.end - judgement.program.start
    return judgement.problem.task_id, has_text_completions(judgement.problem), size


def problem_counts(judged: Sequence[tuple[str, bool, int | None]]) -> dict[str, float]:
    """Number of problems, and the median size of the programs found where completions are texts; all ranks call.

    Each problem is judged on one rank, and counted as :func:`problem_and_size` says.
    """
    sizes = [size for *_, size in judged if size is not None]
    texts = any(is_text for _, is_text, _ in judged)
    of_ranks = gather_over_ranks((len({name for name, *_ in judged}), texts, sizes))
    counts = {"num_problems": float(sum(number for number, *_ in of_ranks))}
    if any(texts for _, texts, _ in of_ranks):
        counts["median_program_bytes"] = float(median([size for *_, found in of_ranks for size in found] or [0]))
    return counts


def _add_verdict_metrics(means: Means, judgements: Sequence[Judgement], of: str = "") -> None:
    verdicts = [judgement.outcome.verdict for judgement in judgements_of_programs(judgements)]
    for verdict in Verdict:
        means.add_sum(f"{of}verdict/{verdict}_fraction", verdicts.count(verdict), len(verdicts))
    _add_pass_rate(means, verdicts, f"{of}execution/pass_rate")


def _add_pass_rate(means: Means, verdicts: Sequence[Verdict], name: str) -> None:
    judged = len(verdicts) - verdicts.count(Verdict.INFRASTRUCTURE_FAILURE)
    means.add_sum(name, verdicts.count(Verdict.PASSED), judged)


def _add_turn_metrics(means: Means, rollout: Rollout) -> None:
    verdicts_by_turn = []
    for number in range(1, rollout.max_turns + 1):
        judgements = judgements_of_programs(rollout.judgements_after_turn(number))
        verdicts_by_turn.append([judgement.outcome.verdict for judgement in judgements])
        _add_pass_rate(means, verdicts_by_turn[-1], f"execution/pass_rate/turn_{number}")
    means.add_sum("turns/used", sum(map(len, rollout.turn_judgements)), len(rollout.judgements))
    ends = zip(verdicts_by_turn[0], verdicts_by_turn[-1], strict=True)
    judged_ends = [pair for pair in ends if Verdict.INFRASTRUCTURE_FAILURE not in pair]
    failed_first = [last for first, last in judged_ends if first is not Verdict.PASSED]
    means.add_sum("turns/repaired_fraction", failed_first.count(Verdict.PASSED), len(failed_first))
