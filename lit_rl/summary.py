"""The metrics of a rollout, by the same names and formulas in training and in validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lit_rl.execution.outcome import Verdict
from lit_rl.functional.pass_at_k import pass_at_k
from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import Rollout
from lit_rl.training.ranks import Means
from lit_rl.types import Completions, Judgement

SUMMARY_NAMES = (
    "execution/pass_rate",
    *(f"verdict/{verdict}_fraction" for verdict in Verdict),
    "completion/length",
    "completion/truncated_fraction",
    "completion/program_rate",
    "completion/format_rate",
)
"""Metrics that every rollout has, whatever its rewards."""


def summarise(rollout: Rollout, rewards: RewardOutput | None) -> Means:
    """Sum up a rollout, as means that add up over batches and ranks.

    Args:
        rollout: N judged completions.
        rewards: of the same rows; ``None`` if the module has no reward terms.

    Returns:
        ``execution/pass_rate`` of the completions that could be judged; of all completions
        ``verdict/<verdict>_fraction``, ``completion/length`` (tokens), ``completion/truncated_fraction``,
        ``completion/program_rate`` (a program was found) and ``completion/format_rate`` (in a fenced block); where
        rows may have several turns ``execution/pass_rate/turn_<n>`` (as rows stood after n turns), ``turns/used`` and
        ``turns/repaired_fraction`` (of the rows whose first turn did not pass, those whose last turn did); with
        rewards ``reward/mean`` and ``reward/<term>`` (unweighted) of the rows that have one, and
        ``reward/invalid_fraction``.
    """
    means = Means()
    _add_verdicts(means, rollout)
    _add_turns(means, rollout)
    _add_completions(means, rollout.completions)
    if rewards is not None:
        _add_rewards(means, rewards)
    return means


Counts = dict[str, tuple[int, int]]
"""By task id: rows that could be judged, rows that passed."""


def count_passed(judgements: Sequence[Judgement]) -> Counts:
    """Count the rows of each problem; those that could not be judged for our own reasons are left out."""
    counts: Counts = {}
    for judgement in judgements:
        judged, passed = counts.get(judgement.problem.task_id, (0, 0))
        known = judgement.outcome.verdict is not Verdict.INFRASTRUCTURE_FAILURE
        counts[judgement.problem.task_id] = judged + known, passed + judgement.outcome.passed
    return counts


def mean_pass_at_k(counts: Mapping[str, tuple[int, int]], k: int) -> float | None:
    """Mean of the unbiased pass@k over problems of which k rows or more could be judged; ``None`` without any."""
    estimates = [float(pass_at_k(judged, passed, k)) for judged, passed in counts.values() if judged >= k]
    return sum(estimates) / len(estimates) if estimates else None


def _add_verdicts(means: Means, rollout: Rollout) -> None:
    rows = len(rollout.judgements)
    verdicts = [judgement.outcome.verdict for judgement in rollout.judgements]
    for verdict in Verdict:
        means.add_sum(f"verdict/{verdict}_fraction", verdicts.count(verdict), rows)
    judged = rows - verdicts.count(Verdict.INFRASTRUCTURE_FAILURE)
    means.add_sum("execution/pass_rate", verdicts.count(Verdict.PASSED), judged)
    programs = [judgement.program for judgement in rollout.judgements if judgement.program is not None]
    means.add_sum("completion/program_rate", len(programs), rows)
    means.add_sum("completion/format_rate", sum(program.fenced for program in programs), rows)


def _add_turns(means: Means, rollout: Rollout) -> None:
    if rollout.max_turns == 1:
        return
    passed = []
    for number in range(1, rollout.max_turns + 1):
        verdicts = [judgement.outcome.verdict for judgement in rollout.after_turn(number)]
        judged = len(verdicts) - verdicts.count(Verdict.INFRASTRUCTURE_FAILURE)
        passed.append([verdict is Verdict.PASSED for verdict in verdicts])
        means.add_sum(f"execution/pass_rate/turn_{number}", sum(passed[-1]), judged)
    means.add_sum("turns/used", sum(map(len, rollout.turn_judgements)), len(rollout.judgements))
    failed_first = [last for first, last in zip(passed[0], passed[-1], strict=True) if not first]
    means.add_sum("turns/repaired_fraction", sum(failed_first), len(failed_first))


def _add_completions(means: Means, completions: Completions) -> None:
    rows = len(completions)
    means.add_sum("completion/length", completions.lengths.sum(), rows)
    means.add_sum("completion/truncated_fraction", completions.truncated.sum(), rows)


def _add_rewards(means: Means, rewards: RewardOutput) -> None:
    valid = rewards.valid
    means.add_sum("reward/mean", rewards.rewards[valid].sum(), valid.sum())
    means.add_sum("reward/invalid_fraction", (~valid).sum(), len(valid))
    for name, values in rewards.term_values.items():
        known = ~values.isnan()
        means.add_sum(f"reward/{name}", values[known].sum(), known.sum())
