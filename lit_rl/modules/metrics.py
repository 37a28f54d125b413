"""What is worth knowing of a rollout, as means that add up over ranks."""

from __future__ import annotations

from lit_rl.execution.outcome import Verdict
from lit_rl.functional.advantages import degenerate_groups
from lit_rl.rewards.base import RewardOutput
from lit_rl.rollout import Rollout
from lit_rl.training.ranks import Means

_SHORT = {
    Verdict.TIMED_OUT: "timeout",
    Verdict.INFRASTRUCTURE_FAILURE: "infrastructure_failure",
}


def rollout_metrics(means: Means, rollout: Rollout, rewards: RewardOutput) -> None:
    """Add a rollout's metrics to the means.

    Args:
        means: where to.
        rollout: N judged completions.
        rewards: of the same rows.
    """
    rows = len(rollout.judgements)
    completions, valid = rollout.completions, rewards.valid
    means.add_sum("reward/mean", rewards.rewards[valid].sum(), valid.sum())
    means.add_sum("reward/invalid_fraction", (~valid).sum(), rows)
    for name, values in rewards.term_values.items():
        known = ~values.isnan()
        means.add_sum(f"reward/{name}", values[known].sum(), known.sum())
    verdicts = [judgement.outcome.verdict for judgement in rollout.judgements]
    for verdict in Verdict:
        means.add_sum(f"execution/{_SHORT.get(verdict, verdict)}_fraction", verdicts.count(verdict), rows)
    judged = rows - verdicts.count(Verdict.INFRASTRUCTURE_FAILURE)
    means.add_sum("execution/pass_rate", verdicts.count(Verdict.PASSED), judged)
    means.add_sum("completion/length", completions.lengths.sum(), rows)
    means.add_sum("completion/truncated_fraction", completions.truncated.sum(), rows)
    group_size = completions.group_size
    if group_size > 1 and rows:
        equal = degenerate_groups(rewards.rewards.view(-1, group_size), valid.view(-1, group_size))
        means.add_sum("group/zero_advantage_fraction", equal.sum(), len(equal))
    elif group_size > 1:
        means.add_sum("group/zero_advantage_fraction", 0, 0)
