"""Rules about rewards: all equal, falling, or rising while held-out problems are solved less often."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, sqrt

from lit_rl.reports.diagnosis.failure_mode import failure_mode
from lit_rl.reports.diagnosis.row_shares import MISPLACED, REPEATED, UNEQUAL, UNLIKE
from lit_rl.reports.diagnosis.rule import Rule, ShareRule, from_0_to_1, not_below, told
from lit_rl.reports.diagnosis.run_history import Level, RunHistory
from lit_rl.reports.diagnosis.stop_strings import CUT
from lit_rl.reports.learned import wilson

_NUM_SHOWN, _MOST_CHARACTERS = 3, 600
WHAT_A_LOST_POLICY_SHOWS = (
    "collapse",
    "flat_reward",
    "flat_groups",
    "truncated",
    "stop_string",
    "format_falling",
    "entropy_collapse",
)
"""Names of rules whose conditions follow where a policy has lost what it could."""

_SOLVED, _UNSOLVED = 0.9, 0.7
"""A task is solved from this pass rate on, and was not before below this one."""
_FEW, _MOST, _RECOVERED = 0.02, 0.9, 0.75
_LOST = 0.1
"""A reward that fell by this share of its best was lost."""
_COMPARED = 5
"""Smallest number of comparable rollouts by which a term is judged."""
_LOW_TEMPERATURE, _MOSTLY_FLAT = 0.5, 0.8
_REPEATED_AND_EQUAL = (REPEATED, "group/zero_advantage_fraction")
_UNLIKE = 0.5
"""Repetition is not why rewards are equal if more than this share of the groups with equal rewards differ in rows."""
_NOT_TOLD_APART = 0.1
"""Rewards that are equal in this share of the groups, although programs pass and fail there, are not about passing."""
_ENDINGS = ("verdict/no_program_fraction", "verdict/syntax_error_fraction")
"""Verdicts about the form of an answer. Harder problems may end at limits of tokens, time and memory more often."""
_CUT, _EVALUATION = "completion/truncated_fraction", "lit-rl docs evaluation"
_LUCKY, _LUCKY_IN_ONE, _LUCKY_ROWS = 0.01, 0.05, 3
"""Programs that pass although the tests are of another problem: this share of them as a mean over rollouts; in a single
rollout this share, or this many."""


@dataclass(eq=False)
class FlatReward(Rule):
    """All rewards are the same, and the task was not learned.

    Args:
        at_most: standard deviation that counts as none (reward units).
    """

    name = "flat_reward"
    explains = ("flat_groups", "truncated", "stop_string", "entropy_collapse")
    at_most: float = not_below(0, 1e-6)

    def look(self, run: RunHistory) -> str:
        """Check means and spreads; name the commonest failure of the last rollout's rows."""
        means, spreads = run.values("reward/mean"), run.values("reward/std")
        flat = len(means) == run.patience and max([max(means) - min(means), *spreads]) <= self.at_most
        if not flat or is_solved(run):
            return ""
        reward, peak, passed = run.share("reward/mean"), run.peak, run.share("execution/pass_rate")
        measured = f"all rewards of the last {run.patience} rollouts were {reward:.3g}, so nothing is learned"
        if passed > 1 - _FEW:
            return all_pass(run, measured)
        if passed > _FEW:
            todo = f"{run.where.fit} --model.rewards lit_rl.rewards.TestsReward"
            limits = ("limits that cut what it pays (clip_low, clip_high)", "lit-rl docs rewards")
            return told(measured, f"{passed:.0%} of the programs pass", ("no term reads the tests", todo), limits)
        if peak is not None and was_earned(run) and peak.reward - reward > _LOST * (peak.reward - peak.floor):
            return (
                f"{measured}: rollout {peak.rollout} earned {peak.reward:.3g}, and the policy lost that; {_faster(run)}"
            )
        if not runs_programs(run) and run.highest > reward + self.at_most:
            said = f"rows earned up to {run.highest:.3g} before, and the policy no longer tries what they did"
            return f"{measured}: {said}; {_faster(run)}"
        if not runs_programs(run):
            return told(
                measured,
                "every answer is worth the same",
                ("the reward does not look at what differs", run.where.show),
                ("this is the largest reward there is, and the problems are too easy", run.where.show),
            )
        return f"{measured}: {failure_mode(run)}"

    def persists(self, run: RunHistory) -> bool:
        """Return whether nearly all groups still are flat."""
        return run.share("group/zero_advantage_fraction") > _MOST and not is_solved(run)

    def details(self, run: RunHistory) -> str:
        """Three completions."""
        return longest_shown(run)


@dataclass(eq=False)
class FlatGroups(ShareRule):
    """Nearly all groups have equal rewards, and the task was not learned.

    Args:
        at_most: largest allowed share of such groups.
    """

    name = "flat_groups"
    metric = "group/zero_advantage_fraction"
    message = (
        "of the groups have equal rewards: they teach nothing; likely groups too small to differ "
        "(`{fit} --model.sampling.num_samples 16`), or problems too easy or too hard, which can be drawn again "
        "(`{fit} --model.collect.max_resamples 2`)"
    )
    at_most: float = from_0_to_1(0.95)

    def look(self, run: RunHistory) -> str:
        """Compare the share with the limit, and tell groups that all pass from those of which none does."""
        flat = run.share(self.metric)
        if flat <= self.at_most or is_solved(run) or run.mean("teacher/gap") is not None:  # a teacher needs no rewards
            return ""
        passed, failed = run.share("group/all_passed_fraction"), run.share("group/none_passed_fraction")
        mixed = flat - passed - failed
        if runs_programs(run) and mixed > _NOT_TOLD_APART and run.share("reward/invalid_fraction") < _FEW:
            return _not_told_apart(run, mixed)
        if passed > _MOST * flat:
            return all_pass(run, f"in {passed:.0%} of the groups every program passes")
        if failed > _MOST * flat:
            return f"in {failed:.0%} of the groups no program passes: they teach nothing; {failure_mode(run)}"
        return super().look(run)


@dataclass(eq=False)
class RewardCollapse(Rule):
    """The reward has fallen far below its best, or to the lowest there was.

    Reports that the reward is gone once half of the last rollouts earned about nothing compared to the best one; what
    follows from that waits from the first of them on. It holds until most of the fall is made up for.

    Args:
        below: share that is left of the way from the floor (the lowest mean reward of a rollout, at most 0) to the best
            mean so far; the fall must also be more than noise explains.
    """

    name = "collapse"
    explains = WHAT_A_LOST_POLICY_SHOWS[1:]
    below: float = from_0_to_1(0.5)

    def look(self, run: RunHistory) -> str:
        """Compare the mean reward with the best so far, and the last rewards with the best rollout's."""
        if self.suspects(run):
            peak, since = run.peak, run.gone_since
            assert peak is not None
            if 2 * (run.rollout_step - since + 1) < run.patience:
                return ""
            values = run.values("reward/mean")[since - run.rollout_step - 1 :]
            now = sum(values) / len(values)
            ends = f" ({failure_mode(run).what})" if runs_programs(run) else ""
            fell = f"rollout {peak.rollout} earned {peak.reward:.3g}, from rollout {since} on {now:.3g}{ends}"
            return f"the policy was lost: {fell}; {_faster(run)}"
        level = run.level("reward/mean")
        if level is None or not was_earned(run):
            return ""
        known = run.best.get("reward/mean"), run.start("reward/mean")
        best = max((one for one in known if one is not None and one.exceeds(level)), default=None)
        if best is None:
            return ""
        if level.mean >= run.lowest + self.below * (best.mean - run.lowest):
            return ""
        fell = f"from {best.mean:.3g} ± {best.error:.2g} to {level.mean:.3g} ± {level.error:.2g}"
        return (
            f"the mean reward of {run.patience} rollouts fell {fell}: the policy unlearns, or problems are harder now; "
            f"{_faster(run)}"
        )

    def suspects(self, run: RunHistory) -> bool:
        """Return whether a reward that was earned is gone now."""
        return bool(run.gone_since) and was_earned(run)

    def persists(self, run: RunHistory) -> bool:
        """Return whether the reward has not recovered yet."""
        best = run.best.get("reward/mean")
        return best is not None and run.share("reward/mean") < run.lowest + _RECOVERED * (best.mean - run.lowest)

    def details(self, run: RunHistory) -> str:
        """Three completions."""
        return longest_shown(run)


@dataclass(eq=False)
class RewardHacking(Rule):
    """The reward of training rises while fewer problems are solved, in training or of those that are held out.

    Args:
        fall: largest allowed fall of pass@1 from its best, or of the pass rate in training from its beginning (share);
            one that chance alone explains is allowed too.
        rise: largest allowed rise of the mean reward since then (reward units).
    """

    name = "reward_hacking"
    fall: float = from_0_to_1(0.05)
    rise: float = not_below(0, 0.01)

    def look(self, run: RunHistory) -> str:
        """Compare the last rollouts with the first, and the last validation with the best one."""
        measured = self._in_training(run) or self._held_out(run)
        if not measured:
            return ""
        rewards, rises = run.module.rewards, {}  # of each term since the first rollouts, counted with its weight
        for one in rewards.terms if rewards is not None else ():
            first, now = run.first.get(f"reward/{one.name}"), run.level(f"reward/{one.name}")
            if first is not None and now is not None:
                rises[one.name] = one.weight * (now.mean - first.mean)
        paid = f"the term {max(rises, key=lambda name: rises[name])}" if rises else "a term"
        return told(
            measured,
            "the policy earns reward without solving problems",
            (f"{paid} pays for something else: read the rows that earned most", run.where.show),
            ("tests that a wrong program passes", run.where.check_data),
        )

    def _in_training(self, run: RunHistory) -> str:
        names = ("execution/pass_rate", "reward/mean")
        (passed, reward), (solved, earned) = ([of(name) for name in names] for of in (run.first.get, run.level))
        if passed is None or reward is None or solved is None or earned is None:
            return ""
        fell, rose = passed.mean - solved.mean, earned.mean - reward.mean
        if fell <= self.fall or rose <= self.rise or not passed.exceeds(solved) or not earned.exceeds(reward):
            return ""
        return (
            f"the pass rate in training fell from {passed.mean:.0%} to {solved.mean:.0%} while the reward rose from "
            f"{reward.mean:.3g} to {earned.mean:.3g}"
        )

    def _held_out(self, run: RunHistory) -> str:
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
            earned, before = (Level(one["reward/mean"], one.get("reward/error", 0.0)) for one in (now, best))
            noise = chance((best[name] + now[name]) / 2, problems)
            if fell > max(self.fall, noise) and rose > self.rise and earned.exceeds(before):
                fall = f"{name} fell from {best[name]:.3f} (after rollout {done}) to {now[name]:.3f}"
                return f"{fall} while the reward rose by {rose:.2g}"
        return ""

    def details(self, run: RunHistory) -> str:
        """The three completions of the last rollout that earned most."""
        rewards = run.rewards.rewards.tolist()
        return examples_of(run, sorted(range(len(rewards)), key=lambda row: -rewards[row]))


class NegativeWeight(Rule):
    """A term that rewards passing tests has a negative weight."""

    name = "negative_weight"
    explains = (*WHAT_A_LOST_POLICY_SHOWS, "reward_hacking")
    at_once = True

    def look(self, run: RunHistory) -> str:
        """Read the weights of the run's terms."""
        rewards = getattr(run.module, "rewards", None)
        terms = rewards.terms if rewards is not None else []
        doubts = [f"the weight of {term.name} is {term.weight:g}: set it above 0" for term in terms if term.weight < 0]
        return f"{'; '.join(doubts)} (`{run.where.fit}`)" if doubts else ""


@dataclass(eq=False)
class MisplacedReward(Rule):
    """A reward term pays as many rows as pass, but not the same rows.

    Args:
        at_most: largest allowed share of the passing rows that get the smaller value.
    """

    name = "misplaced_reward"
    explains = (*WHAT_A_LOST_POLICY_SHOWS, "reward_hacking")
    at_most: float = from_0_to_1(0.1)

    def look(self, run: RunHistory) -> str:
        """Look for a term that in every comparable rollout pays as many rows as pass, and other ones."""
        for term in run.rewards.term_values:
            values = run.values(f"{MISPLACED}{term}")
            missed = sum(values) / max(1, len(values))
            if len(values) >= min(_COMPARED, run.patience) and min(values) >= 0 and missed > self.at_most:
                order = f"{term} returns its values in another order than its rows: read its score"
                return told(
                    f"the term {term} pays as many rows of a rollout as pass, but {missed:.0%} of those that pass get "
                    "the smaller value",
                    "programs earn the rewards of other programs",
                    (order, "lit-rl docs rewards"),
                )
        return ""


@dataclass(eq=False)
class WrongAdvantages(ShareRule):
    """Advantages do not follow from rewards: they differ where rewards are equal, or all are 0 where rewards differ.

    Args:
        at_most: largest allowed share of groups in which advantages differ without a reason.
    """

    name = "wrong_advantages"
    metric = UNEQUAL
    explains = (*WHAT_A_LOST_POLICY_SHOWS, "wrong_sign")
    message = (
        "of the groups have rows of equal rewards and different advantages: a completion is compared with those of "
        "other problems; {estimator} mixes up groups: compare rows with the same number in group_ids (`lit-rl docs "
        "own_algorithm`)"
    )
    at_most: float = from_0_to_1(0.05)

    def look(self, run: RunHistory) -> str:
        """Compare the share with the limit, and look for groups whose rewards differ and that train nothing."""
        trained, flat = run.values("update/trained_fraction"), run.mean("group/zero_advantage_fraction")
        taught = run.mean("teacher/gap") is not None
        if not trained or any(trained) or flat is None or flat > _MOSTLY_FLAT or taught:
            return super().look(run)
        said = f"no row was trained in {run.patience} rollouts, and rewards differ in {1 - flat:.0%} of the groups"
        causes = [(f"{run.estimator} returns advantages of 0: read it", "lit-rl docs own_algorithm")]
        if run.module.update.mask_truncated and run.share("completion/truncated_fraction"):
            todo = f"{run.where.fit} --model.update.mask_truncated false"
            causes.insert(0, ("update.mask_truncated leaves out all rows that have an advantage", todo))
        return told(said, "nothing is learned", *causes)


@dataclass(eq=False)
class RepeatedRows(Rule):
    """Sampling gives nearly the same completion again and again, from the first rollout on.

    Args:
        at_least: smallest share of the rows that repeat another of their group, and of the groups whose rewards are
            equal: where few answers are possible, rows repeat in a healthy run too.
    """

    name = "repeated_rows"
    explains = WHAT_A_LOST_POLICY_SHOWS
    at_least: float = from_0_to_1(0.8)

    def look(self, run: RunHistory) -> str:
        """Check the last rollouts and the first one: a policy that became sure later is the matter of other rules."""
        shares = [of for name in _REPEATED_AND_EQUAL for of in (run.share(name), run.begun.get(name, 0.0))]
        taught = run.mean("teacher/gap") is not None  # a teacher needs no rewards
        unlike = min(run.share(UNLIKE), run.begun.get(UNLIKE, 0.0))
        if min(shares) < self.at_least or unlike > _UNLIKE or is_solved(run) or taught:
            return ""
        if sum(run.values(CUT)) > run.patience / 2:  # what is cut short is alike, and other rules name the stop string
            return ""
        temperature = run.module.sampling.temperature if run.module.sampling is not None else 1.0
        sure = ("a policy that is sure of its answers, from too long an imitation", run.where.show)
        causes = [sure, ("an engine that samples at another temperature, or with one seed for all", run.where.show)]
        if temperature < _LOW_TEMPERATURE:
            said = f"the temperature of training ({temperature:g}), whose gradients it also multiplies"
            causes = [(said, f"{run.where.fit} --model.sampling.temperature 1"), sure]
        return told(
            f"{shares[0]:.0%} of the completions repeat another one of their group, as in the first rollout",
            "groups have nothing to compare",
            *causes,
        )


@dataclass(eq=False)
class ValidationDiffers(Rule):
    """Validation answers are cut or lack the form that training answers have, and fail for that.

    Args:
        share: smallest part of the distance between the two pass rates that these answers account for.
    """

    name = "validation_differs"
    explains = ("reward_hacking",)
    share: float = from_0_to_1(0.5)

    def look(self, run: RunHistory) -> str:
        """Compare the last validation with the last rollouts."""
        now = run.validations[-1][1] if run.validations else {}
        for name in (name for name in now if name.endswith("pass@1")):
            place, problems = name.removesuffix("pass@1"), now.get(f"{name.removesuffix('pass@1')}num_problems", 0.0)
            task = "/".join(place.split("/")[1:-2])  # of a mixture
            ours = f"task/{task}/" if task else ""
            passed = run.level(f"{ours}execution/pass_rate")
            if passed is None or not problems or passed.mean - 2 * passed.error <= wilson(now[name], problems)[1]:
                continue
            more = {end: now.get(f"{place}{end}", 0.0) - run.share(f"{ours}{end}") for end in (*_ENDINGS, _CUT)}
            key, module = place.split("/")[-2], run.module
            own = getattr(module, "validation_sampling", {}).get(key)
            limits = (own.max_tokens, module.sampling.max_tokens) if own and module.sampling else (0, 0)
            if limits[0] < limits[1] and more[_CUT] > self.share * (passed.mean - now[name]):
                return told(
                    f"{name} is {now[name]:.2f} while {passed.mean:.0%} of the training rows pass; the limit cuts "
                    f"{now[place + _CUT]:.0%} of the validation rows and {run.share(ours + _CUT):.0%} of these",
                    "validation answers are judged without their end",
                    (f"max_tokens of evaluate.sampling {key} is {limits[0]}, of training {limits[1]}", _EVALUATION),
                    ("problems that take longer answers", run.where.show),
                )
            end = max(_ENDINGS, key=lambda one: more[one])
            if more[end] - max(0.0, more[_CUT]) <= self.share * (passed.mean - now[name]):
                continue
            what = end.rpartition("/")[2].removesuffix("_fraction")
            return told(
                f"{name} is {now[name]:.2f} while {passed.mean:.0%} of the training rows pass; of the validation rows "
                f"{now[f'{place}{end}']:.0%} end as {what}, of the training rows {run.share(f'{ours}{end}'):.0%}",
                "validation does not ask or judge as training does",
                ("prompts, stop strings or extraction of the validation problems are others", run.where.check_data),
                ("validation samples in another way (evaluate.sampling)", _EVALUATION),
            )
        return ""


def runs_programs(run: RunHistory) -> bool:
    """Return whether a row of the last rollout has a check that runs programs."""
    return any(judgement.problem.check.runs_program for judgement in run.rollout.judgements)


def is_solved(run: RunHistory) -> bool:
    """Return whether the run learned its task: it earns the most that any row ever did, and earned less before."""
    if run.mean("execution/pass_rate") is not None:
        passed = max(run.share("execution/pass_rate"), run.newest.get("execution/pass_rate", 0.0))
        return passed >= _SOLVED and run.least["execution/pass_rate"] < _UNSOLVED
    span, reward = run.highest - run.worst, run.share("reward/mean")
    return span > 0 and reward >= run.highest - _FEW * span and run.least["reward/mean"] < run.highest - _LOST * span


def all_pass(run: RunHistory, measured: str) -> str:
    """Text of what to say where nearly all programs pass and did so from the beginning."""
    return told(
        measured,
        f"programs passed from the beginning (never less than {run.least.get('execution/pass_rate', 0.0):.0%})",
        ("the tests check nothing", run.where.check_data),
        ("the policy could solve these problems before: take harder ones", run.where.show),
    )


def _not_told_apart(run: RunHistory, share: float) -> str:
    rewards = run.module.rewards
    paid = [one.name for one in rewards.terms if one.weight] if rewards is not None else []
    same = f"{' and '.join(paid) or 'the reward'} gives all rows of a problem the same, as from a cache: read its score"
    causes = [(same, "lit-rl docs rewards")]
    if rewards is None or isfinite(rewards.low) or isfinite(rewards.high):
        causes.append(("limits that cut what it pays (clip_low, clip_high)", "lit-rl docs rewards"))
    measured = f"in at least {share:.0%} of the groups some programs pass, others fail, and all earn the same"
    return told(measured, "rewards do not tell them apart", *causes)


def _faster(run: RunHistory) -> str:
    """Likeliest causes of a policy that unlearns."""
    steps = run.module.update.steps
    other = ("nothing that holds it to its start", f"{run.where.fit} --model.objective.kl_coef 0.01")
    if steps > 1:
        other = (f"too many updates of a rollout ({steps})", f"{run.where.fit} --model.update.max_kl 0.05")
    return "likely " + ", or ".join(f"{cause} (`{command}`)" for cause, command in (run.too_fast, other))


def was_earned(run: RunHistory) -> bool:
    """Return whether a vanished reward was more than a few lucky hits."""
    peak = run.peak
    if peak is None or peak.reward - peak.floor <= 3 * peak.error:
        return False
    if peak.passed is None or run.best.get("execution/pass_rate", Level(0.0)).mean > _LUCKY:
        return True
    return peak.passed > _LUCKY_IN_ONE and peak.passed * peak.rows > _LUCKY_ROWS


def chance(share: float, num_problems: float) -> float:
    """Difference of two measured shares that noise explains: two standard deviations."""
    return 2 * sqrt(2 * share * (1 - share) / num_problems) if num_problems else 0.0


# -- completions to read -------------------------------------------------------------------------------------


def longest_shown(run: RunHistory) -> str:
    """Three completions of the last rollout, the longest of their problems."""
    texts = run.rollout.completions.texts
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
        f"{run.rollout.completions.texts[row][:_MOST_CHARACTERS]}"
        for row in chosen
    )
