"""Rules about rewards: all equal, falling, or rising while held-out problems are solved less often."""

from __future__ import annotations

from collections import Counter
from math import sqrt

from lit_rl.bounds import require_at_least, require_share
from lit_rl.diagnosis.base import Rule, ShareRule
from lit_rl.diagnosis.so_far import RunSoFar
from lit_rl.execution.outcome import Verdict
from lit_rl.rollout import Rollout
from lit_rl.types import Judgement, StopReason

_NUM_SHOWN, _MOST_CHARACTERS, _MOST_OF_MESSAGE = 3, 600, 80
_LOST = 0.1
"""A reward that fell by this share of its best was lost."""
_LUCKY = 0.01
"""Programs that pass although the tests are of another problem: this share of them, at most."""


class FlatReward(Rule):
    """All rewards are the same.

    Args:
        at_most: standard deviation that counts as none (reward units).
    """

    name = "flat_reward"

    def __init__(self, at_most: float = 1e-6) -> None:
        require_at_least(0, at_most=at_most)
        self.at_most = at_most

    def look(self, run: RunSoFar) -> str:
        """Look at means and spreads; say what most rows of the last rollout have in common."""
        if not is_flat(run, self.at_most):
            return ""
        reward, best = run.share("reward/mean"), run.best.get("reward/mean", 0.0)
        if run.share("execution/pass_rate") >= 0.5:
            todo = "the policy solves all of this: give it harder problems"
        elif was_earned(run) and best - reward > _LOST * abs(best):
            rate = run.share("optimizer/learning_rate")
            todo = f"earlier ones earned {best:.3g}, and the policy lost that; lower the learning rate ({rate:.2g})"
        elif not any(judgement.problem.check.runs_program for judgement in run.rollout.judgements):
            todo = (
                "if this is the largest reward there is, take harder problems; else read some completions (lit-rl show)"
            )
        else:
            todo = common_end(run.rollout)
        return f"all rewards of the last {run.patience} rollouts were {reward:.3g}, so nothing is learned: {todo}"

    def details(self, run: RunSoFar) -> str:
        """Three completions."""
        return shown(run, sorted(range(len(run.rollout.judgements)), key=lambda row: -len(texts_of(run)[row])))


class FlatGroups(ShareRule):
    """Nearly all groups have equal rewards.

    Args:
        at_most: share of such groups that is let pass.
    """

    name = "flat_groups"
    metric = "group/zero_advantage_fraction"
    message = (
        "of the groups have equal rewards and teach nothing: raise num_samples or the temperature, choose problems "
        "that are neither too easy nor too hard, or set max_resamples"
    )

    def __init__(self, at_most: float = 0.95) -> None:
        super().__init__(at_most)

    def look(self, run: RunSoFar) -> str:
        """Compare the share with the limit; where all rewards are the same, another rule speaks."""
        return "" if is_flat(run, 1e-6) else super().look(run)


class RewardCollapse(Rule):
    """The reward has fallen far below its best.

    Args:
        below: share of the best mean reward so far.
    """

    name = "collapse"

    def __init__(self, below: float = 0.5) -> None:
        require_share(below=below)
        self.below = below

    def look(self, run: RunSoFar) -> str:
        """Compare the mean reward with the best so far."""
        best, reward = run.best.get("reward/mean", 0.0), run.share("reward/mean")
        if best <= 0 or reward >= self.below * best or not was_earned(run):
            return ""
        rate = run.share("optimizer/learning_rate")
        return (
            f"the reward fell from {best:.3g} to {reward:.3g}: lower the learning rate ({rate:.2g}) or "
            "the number of updates a rollout, and go on from the best checkpoint"
        )


class RewardHacking(Rule):
    """The reward of training rises while fewer held-out problems are solved.

    Args:
        fall: fall of pass@1 from its best that is let pass (share of the problems); one that chance alone explains
            is let pass too.
        rise: rise of the mean reward since then that is let pass (reward units).
    """

    name = "reward_hacking"

    def __init__(self, fall: float = 0.05, rise: float = 0.01) -> None:
        require_share(fall=fall)
        require_at_least(0, rise=rise)
        self.fall, self.rise = fall, rise

    def look(self, run: RunSoFar) -> str:
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
                    "below, take away what pays them, and go on from the best checkpoint"
                )
        return ""

    def details(self, run: RunSoFar) -> str:
        """The three completions of the last rollout that earned most."""
        rewards = run.rewards.rewards.tolist()
        return shown(run, sorted(range(len(rewards)), key=lambda row: -rewards[row]))


def was_earned(run: RunSoFar) -> bool:
    """Whether a reward that is gone was more than a few lucky hits."""
    passed = run.best.get("execution/pass_rate")
    return passed is None or passed > _LUCKY


def is_flat(run: RunSoFar, at_most: float) -> bool:
    """Whether all rewards of the last rollouts were the same."""
    means, spreads = run.values("reward/mean"), run.values("reward/std")
    return len(means) == run.patience and max(means) - min(means) <= at_most and max(spreads, default=0.0) <= at_most


def chance(share: float, num_problems: float) -> float:
    """Difference of two measured shares that noise explains: two standard deviations."""
    return 2 * sqrt(2 * share * (1 - share) / num_problems) if num_problems else 0.0


# -- why nothing passes --------------------------------------------------------------------------------------


def common_end(rollout: Rollout) -> str:
    """What most rows of a rollout without reward have in common, and what to look at then."""
    rows = len(rollout.judgements)
    reasons = Counter(rollout.completions.stop_reasons)
    lengths = rollout.completions.lengths.tolist()
    verdicts = Counter(judgement.outcome.verdict for judgement in rollout.judgements)
    stopped = [n for n, why in zip(lengths, rollout.completions.stop_reasons, strict=True) if why == "stop_string"]
    verdict, count = verdicts.most_common(1)[0] if verdicts else (Verdict.NO_PROGRAM, 0)
    most = f"{count / max(1, rows):.0%} end as {verdict}"
    if len(stopped) > rows / 2 and _stops_early(rollout):
        mean = sum(stopped) / len(stopped)
        strings = sorted({string for problem in rollout.completions.problems for string in problem.stop_strings})
        return (
            f"a stop string ends {len(stopped) / rows:.0%} of the completions, after {mean:.1f} tokens: check whether "
            f"one of {strings} comes inside of good answers (lit-rl show)"
        )
    if reasons[StopReason.LENGTH] > rows / 2:
        return (
            f"{reasons[StopReason.LENGTH] / rows:.0%} of the completions are cut by the token limit: raise "
            "sampling.max_tokens, or check whether the policy ever ends (EOS, stop strings)"
        )
    return f"{most}; {_advice(verdict, [j for j in rollout.judgements if j.outcome.verdict is verdict])}"


def _stops_early(rollout: Rollout) -> bool:
    """Whether most rows that a stop string ended hold no program, or one that breaks off."""
    rows = zip(rollout.judgements, rollout.completions.stop_reasons, strict=True)
    ends = [one.outcome.verdict for one, why in rows if why is StopReason.STOP_STRING]
    broken = (Verdict.NO_PROGRAM, Verdict.SYNTAX_ERROR, Verdict.EXCEPTION)
    return sum(verdict in broken for verdict in ends) > len(ends) / 2


def _advice(verdict: Verdict, judgements: list[Judgement]) -> str:
    if verdict is Verdict.NO_PROGRAM:
        return (
            "no program is found in what is written: read some completions (lit-rl show) and compare them with the "
            "form that the prompt asks for and the task extracts"
        )
    if verdict is Verdict.WRONG_ANSWER:
        lines = Counter(one.outcome.failed_case.line() for one in judgements if one.outcome.failed_case)
        said = f" ({lines.most_common(1)[0][0]})" if lines else ""
        return (
            f"programs run and give other answers than the tests expect{said}: read some (lit-rl show); if they are "
            "right, the tests are wrong, and lit-rl check-data finds tests that the reference fails"
        )
    if verdict is Verdict.EXCEPTION:
        kinds = Counter(one.outcome.exception_type or "an exception" for one in judgements)
        kind = kinds.most_common(1)[0][0]
        said = next((m for one in judgements if one.outcome.exception_type == kind and (m := message_of(one))), "")
        return (
            f"most often {kind}{said}: read some (lit-rl show); a name that is missing in all of them points to the "
            "prompt's form, the extraction or the tests, which lit-rl check-data tries on the reference solutions"
        )
    if verdict is Verdict.SYNTAX_ERROR:
        return "read some (lit-rl show): does a stop string or the token limit cut them, is text taken for program"
    return "read some completions (lit-rl show): is the program found, do stop strings cut it, do the tests fit it"


def message_of(judgement: Judgement) -> str:
    """What the exception of a program said, in brackets; empty if it said nothing."""
    line = judgement.outcome.exception_message.strip().partition("\n")[0][:_MOST_OF_MESSAGE]
    return f" ({line})" if line else ""


# -- completions to read -------------------------------------------------------------------------------------


def texts_of(run: RunSoFar) -> tuple[str, ...]:
    """What the policy said last in each row of the last rollout."""
    return run.rollout.completions.texts


def shown(run: RunSoFar, order: list[int]) -> str:
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
