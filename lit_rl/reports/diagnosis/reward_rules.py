"""Rules about rewards: all equal, falling, or rising while held-out problems are solved less often."""

from __future__ import annotations

from math import sqrt

from lit_rl.arguments import require_at_least, require_share
from lit_rl.reports.diagnosis.failure_mode import failure_mode
from lit_rl.reports.diagnosis.rule import Rule, ShareRule
from lit_rl.reports.diagnosis.run_history import RunHistory

_NUM_SHOWN, _MOST_CHARACTERS = 3, 600
_LOST = 0.1
"""A reward that fell by this share of its best was lost."""
_LUCKY, _LUCKY_IN_ONE, _LUCKY_ROWS = 0.01, 0.05, 3
"""Programs that pass although the tests are of another problem: this share of them as a mean over rollouts; in a single
rollout this share, or this many."""


class FlatReward(Rule):
    """All rewards are the same.

    Args:
        at_most: standard deviation that counts as none (reward units).
    """

    name = "flat_reward"
    explains = ("flat_groups", "truncated", "stop_string", "entropy_collapse")

    def __init__(self, at_most: float = 1e-6) -> None:
        require_at_least(0, at_most=at_most)
        self.at_most = at_most

    def look(self, run: RunHistory) -> str:
        """Check means and spreads; name the commonest failure of the last rollout's rows."""
        if not is_flat(run, self.at_most):
            return ""
        reward, peak = run.share("reward/mean"), run.peak
        if run.share("execution/pass_rate") >= 0.5:
            todo = "the policy solves all of this: give it harder problems"
        elif peak is not None and was_earned(run) and peak.reward - reward > _LOST * peak.reward:
            rate = run.largest("optimizer/learning_rate")
            todo = (
                f"rollout {peak.rollout} earned {peak.reward:.3g}, and the policy lost that; lower the learning rate "
                f"({rate:.2g})"
            )
        elif not any(judgement.problem.check.runs_program for judgement in run.rollout.judgements):
            todo = (
                "if this is the largest reward there is, take harder problems; else read some completions (lit-rl show)"
            )
        else:
            todo = str(failure_mode(run))
        return f"all rewards of the last {run.patience} rollouts were {reward:.3g}, so nothing is learned: {todo}"

    def details(self, run: RunHistory) -> str:
        """Three completions."""
        return longest_shown(run)


class FlatGroups(ShareRule):
    """Nearly all groups have equal rewards.

    Args:
        at_most: largest allowed share of such groups.
    """

    name = "flat_groups"
    metric = "group/zero_advantage_fraction"
    message = (
        "of the groups have equal rewards and teach nothing: raise num_samples or the temperature, choose problems "
        "that are neither too easy nor too hard, or set collect.max_resamples"
    )

    def __init__(self, at_most: float = 0.95) -> None:
        super().__init__(at_most)


class RewardCollapse(Rule):
    """The reward has fallen far below its best, or to about 0.

    Reports that the reward is gone once half of the last rollouts earned about 0 compared to the best one; what follows
    from that waits from the first of them on.

    Args:
        below: share of the best mean reward so far.
    """

    name = "collapse"
    explains = ("flat_reward", "flat_groups", "truncated", "stop_string", "format_falling", "entropy_collapse")

    def __init__(self, below: float = 0.5) -> None:
        require_share(below=below)
        self.below = below

    def look(self, run: RunHistory) -> str:
        """Compare the mean reward with the best so far, and the last rewards with the best rollout's."""
        rate = run.largest("optimizer/learning_rate")
        todo = f"lower the learning rate ({rate:.2g}) or the number of updates a rollout, and resume from"
        if self.suspects(run):
            peak, since = run.peak, run.gone_since
            assert peak is not None
            if 2 * (run.rollout_step - since + 1) < run.patience:
                return ""
            values = run.values("reward/mean")[since - run.rollout_step - 1 :]
            now, ends = sum(values) / len(values), failure_mode(run).what
            return (
                f"the policy was lost: rollout {peak.rollout} earned {peak.reward:.3g}, from rollout {since} on "
                f"{now:.3g} ({ends}); {todo} a checkpoint before that, or begin again"
            )
        best, reward = run.best.get("reward/mean", 0.0), run.share("reward/mean")
        if best <= 0 or reward >= self.below * best or not was_earned(run):
            return ""
        fell = f"the mean reward of {run.patience} rollouts fell from {best:.3g} to {reward:.3g}"
        return f"{fell}: {todo} the best checkpoint"

    def suspects(self, run: RunHistory) -> bool:
        """Return whether a reward that was earned is gone now."""
        return bool(run.gone_since) and was_earned(run)

    def details(self, run: RunHistory) -> str:
        """Three completions."""
        return longest_shown(run)


class RewardHacking(Rule):
    """The reward of training rises while fewer held-out problems are solved.

    Args:
        fall: largest allowed fall of pass@1 from its best (share of the problems); one that chance alone explains is
            allowed too.
        rise: largest allowed rise of the mean reward since then (reward units).
    """

    name = "reward_hacking"

    def __init__(self, fall: float = 0.05, rise: float = 0.01) -> None:
        require_share(fall=fall)
        require_at_least(0, rise=rise)
        self.fall, self.rise = fall, rise

    def look(self, run: RunHistory) -> str:
        """Compare the last validation with the best one."""
        if not run.validations:
            return ""
        _, now = run.validations[-1]
        for name in (name for name in now if name.endswith("pass@1")):
            known = [(done, measured) for done, measured in run.validations if {name, "reward/mean"} <= measured.keys()]
            if not known or known[-1][1] is not now:
                continue
            done, best = max(known, key=lambda one: one[1][name])
            problems = now.get(f"{name.removesuffix('pass@1')}num_problems", 0.0)
            fell, rose = best[name] - now[name], now["reward/mean"] - best["reward/mean"]
            if fell > max(self.fall, chance(best[name], problems)) and rose > self.rise:
                return (
                    f"{name} fell from {best[name]:.3f} (after rollout {done}) to {now[name]:.3f} while the reward "
                    f"rose by {rose:.2g}: the policy earns reward without solving problems; read the completions "
                    "below, take away what pays them, and resume from the best checkpoint"
                )
        return ""

    def details(self, run: RunHistory) -> str:
        """The three completions of the last rollout that earned most."""
        rewards = run.rewards.rewards.tolist()
        return examples_of(run, sorted(range(len(rewards)), key=lambda row: -rewards[row]))


def was_earned(run: RunHistory) -> bool:
    """Return whether a vanished reward was more than a few lucky hits."""
    peak = run.peak
    if peak is None:
        return False
    if peak.passed is None or run.best.get("execution/pass_rate", 0.0) > _LUCKY:
        return True
    return peak.passed > _LUCKY_IN_ONE and peak.passed * peak.rows > _LUCKY_ROWS


def is_flat(run: RunHistory, at_most: float) -> bool:
    """Return whether all rewards of the last rollouts were equal."""
    means, spreads = run.values("reward/mean"), run.values("reward/std")
    return len(means) == run.patience and max(means) - min(means) <= at_most and max(spreads, default=0.0) <= at_most


def chance(share: float, num_problems: float) -> float:
    """Difference of two measured shares that noise explains: two standard deviations."""
    return 2 * sqrt(2 * share * (1 - share) / num_problems) if num_problems else 0.0


# -- completions to read -------------------------------------------------------------------------------------


def texts_of(run: RunHistory) -> tuple[str, ...]:
    """Return the text of the last turn in each row of the last rollout."""
    return run.rollout.completions.texts


def longest_shown(run: RunHistory) -> str:
    """Three completions of the last rollout, the longest of their problems."""
    texts = texts_of(run)
    return examples_of(run, sorted(range(len(texts)), key=lambda row: -len(texts[row])))


def examples_of(run: RunHistory, order: list[int]) -> str:
    """Three completions of the last rollout, of different problems where there are as many.

    Args:
        run: so far.
        order: rows, the most telling first.
    """
    problems = [judgement.problem.task_id for judgement in run.rollout.judgements]
    first = [row for place, row in enumerate(order) if problems[row] not in {problems[r] for r in order[:place]}]
    chosen = [*first, *(row for row in order if row not in first)][:_NUM_SHOWN]
    rewards = run.rewards.rewards.tolist()
    return "\n\n".join(
        f"{problems[row]}: reward {rewards[row]:.3g}, {run.rollout.judgements[row].outcome.verdict}\n"
        f"{texts_of(run)[row][:_MOST_CHARACTERS]}"
        for row in chosen
    )
