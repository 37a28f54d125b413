"""Rules of diagnosis, causes before symptoms; each is a function of metrics, last rollout and settings.

A rule returns a line: what was measured, what that means, and the likeliest causes with a command for each. Completions
to read may follow below. The text is empty if nothing is wrong. Numbers are means over the last rollouts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, isfinite, log, sqrt

from torch import Tensor

from lit_rl.execution.interface import Verdict
from lit_rl.reports.diagnosis.failures import (
    causes_of_truncation,
    commonest_failure_and_advice,
    commonest_stop_string,
    rows_cut_by_stop_string,
)
from lit_rl.reports.diagnosis.history import (
    CUT,
    HIGHEST,
    LAG,
    MOVED,
    PASSED,
    REWARD,
    WEIGHT_SIZE,
    LastRollout,
    MeanWithError,
    MetricHistory,
    RunSettings,
)

Rule = Callable[[MetricHistory, LastRollout, RunSettings], str]

_FLAT, _TRUNCATED = "group/zero_advantage_fraction", "completion/truncated_fraction"
_GAP, _KL, _ENTROPY = "sampling/logprob_gap/mean", "policy/approximate_kl", "policy/entropy"
_LIMITS = {
    "infrastructure_failure": (
        0.05,
        "could not be judged through no fault of their own, so their rows are left out; likely the sandbox lacks "
        "something (`lit-rl docs sandbox`), or the machine lacks memory (`{show}` prints the messages)",
    ),
    "timed_out": (
        0.2,
        "time out: their results are unknown; likely a time limit too short for this machine (`{check_data}`), or more "
        "workers than cores (`{fit} --model.sandbox.init_args.num_workers 2`)",
    ),
    "out_of_memory": (
        0.2,
        "end at the memory limit: their results are unknown; likely a limit too small for honest programs "
        "(`{check_data}` runs the references under it; `{fit} --model.sandbox.init_args.memory_bytes 2147483648`), or "
        "programs that build too much (`{show}`)",
    ),
}
"""The largest allowed share of the programs, and the message, by verdict."""


def format_diagnosis(measured: str, meaning: str, *causes: tuple[str, str]) -> str:
    """Format one line with a command for each cause; a single cause is certain, several are likely."""
    listed = ", or ".join(f"{cause} (`{command}`)" for cause, command in causes)
    return f"{measured}: {meaning}; {'likely ' if len(causes) > 1 else ''}{listed}"


def not_finite(metrics: MetricHistory, last: LastRollout, settings: RunSettings) -> str:
    """Weights or numbers of the update are NaN or infinite; ``sampler_gap`` covers the sampler's numbers."""
    newest = metrics.recent[-1]
    names = [name for name, value in newest.items() if not isfinite(value) and not name.startswith("sampling/")]
    if not names:
        return ""
    return format_diagnosis(
        f"{', '.join(names[:3])} not finite",
        "no number after it means anything",
        settings.smaller_learning_rate_hint(metrics.learning_rate),
        ("a reward or loss of your own divides by 0", settings.show),
        ("a dtype too narrow for these gradients", f"{settings.fit} --trainer.precision 32-true"),
    )


def sandbox(metrics: MetricHistory, last: LastRollout, settings: RunSettings) -> str:
    """Many programs could not be judged, timed out, or ended at the memory limit."""
    for verdict, (largest, message) in _LIMITS.items():
        share = metrics.mean(f"verdict/{verdict}_fraction")
        if share > largest:
            ending = message.format(fit=settings.fit, show=settings.show, check_data=settings.check_data)
            return f"{share:.0%} of the programs {ending}"
    return ""


def broken_tests(metrics: MetricHistory, last: LastRollout, settings: RunSettings) -> str:
    """All programs of a problem (eight or more in a rollout) ended with one error at one statement of its tests."""
    endings: dict[str, dict[str, tuple[str, str, str]]] = {}
    for judgement in last.rollout.judgements:
        outcome, program = judgement.outcome, judgement.program
        if program is None or outcome.verdict is Verdict.INFRASTRUCTURE_FAILURE:
            continue
        is_error = outcome.verdict is Verdict.WRONG_ANSWER and outcome.exception_type not in (None, "AssertionError")
        statement = outcome.failed_case.call if outcome.failed_case else ""
        error = (str(outcome.exception_type), outcome.exception_message, statement) if is_error else ("", "", "")
        endings.setdefault(judgement.problem.task_id, {})[program.source] = error
    broken = {
        name: next(iter(errors.values()))
        for name, errors in endings.items()
        if len(errors) >= 8 and len(set(errors.values())) == 1 and all(kind for kind, *_ in errors.values())
    }
    for name, (kind, message, statement) in broken.items():
        more = f" and {len(broken) - 1} more problems" if len(broken) > 1 else ""
        return format_diagnosis(
            f"no program passed {name}{more}: {len(endings[name])} ended with {kind}: {message[:100]} in its tests "
            f"({statement[:80]})",
            "whether its reference passes is unknown",
            ("the tests are broken there", settings.check_data),
            ("all programs have the same fault", settings.show),
        )
    return ""


def sampler_gap(metrics: MetricHistory, last: LastRollout, settings: RunSettings) -> str:
    """Sampler and trainer differ before the update, or the engine samples with older weights than it needs to."""
    reach = "new weights do not reach the engine (mark_weights_stale, then the next session)"
    age, gap = metrics.mean(LAG) / settings.steps, metrics.mean(_GAP)
    if age > max(1, settings.staleness):
        return format_diagnosis(
            f"the engine samples with weights that are {age:.1f} rollouts old",
            "rows are compared with a policy that did not write them",
            (reach, "lit-rl docs engines"),
            ("the engine samples too many rollouts ahead", f"{settings.fit} --model.collect.staleness 0"),
        )
    if gap < 0.05 or settings.filtered or settings.staleness:  # filters and staleness always cause a gap
        return ""
    began = metrics.first_metrics.get(_GAP, gap)
    dropout = f", dropout ({', '.join(settings.dropout)})" if settings.dropout else ""
    cause = _cause_of_sampler_gap(last) or (
        f"they agreed in the first rollout ({began:.2g} nats), so likely {reach}, whatever version is reported"
        if began < 0.1 * gap
        else f"likely another temperature, filter or dtype in the engine (trainer: {settings.precision}){dropout}, "
        "other weights, or another tokenizer"
    )
    return (
        f"sampler and trainer differ by {gap:.2g} nats a token before the update, so the first ratio is not 1: "
        f"{cause}; each cause has an entry (`lit-rl docs engines#when-sampler-and-trainer-differ`)"
    )


def _cause_of_sampler_gap(last: LastRollout) -> str:
    """Return the cause that explains nine tenths of the gap between sampler and trainer; empty if none does."""
    rows = last.rollout.completions
    sampler, mask = rows.sampler_logprobs.double(), rows.completion_mask
    if mask.sum() > 1 and not sampler[mask].std():
        return f"constant: the engine reports {float(sampler[mask][0]):.3g} for every token"
    if last.logprobs is None:
        return ""
    own = last.logprobs.to(sampler)
    mask = mask & ~own.isnan()

    def gap(values: Tensor, others: Tensor, mask: Tensor) -> float:
        return float((values - others)[mask].abs().mean()) if mask.any() else inf

    both, unpadded = mask[:, 1:] & mask[:, :-1], mask & rows.prompt_mask.all(-1, keepdim=True)
    explained = 0.1 * gap(own, sampler, mask)
    tried = {
        "the engine reports logarithms to base 2": gap(own / log(2), sampler, mask),
        "the engine reports logarithms to base 10": gap(own / log(10), sampler, mask),
        "shifted by one: each log-probability is that of the next token": gap(own[:, 1:], sampler[:, :-1], both),
        "shifted by one: each log-probability is that of the token before": gap(own[:, :-1], sampler[:, 1:], both),
        "positions: rows without padding agree; check attention mask and position ids": gap(own, sampler, unpadded),
    }
    return next((cause for cause, left in tried.items() if left < explained), "")


def still_weights(metrics: MetricHistory, last: LastRollout, settings: RunSettings) -> str:
    """The weights do not move although there are gradients, or Adam moves them by next to nothing."""
    moves, gradients, rate = metrics.values(MOVED), metrics.mean("policy/gradient_norm"), metrics.learning_rate
    if not moves or not gradients:
        return ""
    optimizer, clip = settings.optimizer, settings.clip_norm or inf
    eps, least = float(optimizer.get("eps") or 0.0), 1e-8 * metrics.mean(WEIGHT_SIZE)
    # Adam moves a weight by at least a hundredth of the learning rate unless gradients are below eps.
    slow = "betas" in optimizer and max(moves) < 0.01 * rate * settings.steps
    element = sqrt(max(1, settings.num_weights))
    below_eps = slow and min(gradients, clip) / element < eps
    if sum(moves) > least and not below_eps:
        return ""
    measured = f"a rollout moves a weight by {max(moves):.1g}, despite gradients (norm {gradients:.2g})"
    fit, meaning = settings.fit, "next to nothing is learned"
    full = max(metrics.highest.get("optimizer/learning_rate", 0.0), float(optimizer.get("initial_lr") or 0.0))
    now = "ended" if metrics.highest.get("optimizer/learning_rate", 0.0) > rate else "hardly begun"
    schedule = f"the schedule has {now} and leaves {rate:.2g} of the learning rate {full:.2g}"
    ended = (schedule, f"{fit} --model.update.lr_scheduler null")
    raised = f"{fit} --model.update.optimizer.init_args.lr 1e-6"
    if not full:
        return format_diagnosis(measured, meaning, ("the learning rate is 0", raised))
    if rate < 0.01 * full:
        return format_diagnosis(measured, meaning, ended)
    if clip < gradients and gradients / element >= eps and (below_eps or sum(moves) * gradients / clip > least):
        clipped = f"gradient_clip_norm ({clip:g}) leaves {clip / gradients:.1g} of the gradients"
        return format_diagnosis(measured, meaning, (clipped, f"{fit} --model.update.gradient_clip_norm 1"))
    if below_eps:
        small = f"Adam's eps ({eps:g}) is larger than the gradients"
        return format_diagnosis(measured, meaning, (small, f"{fit} --model.update.optimizer.init_args.eps 1e-8"))
    small = f"the learning rate {rate:.2g} is too small for the weights' dtype"
    return format_diagnosis(measured, meaning, (small, raised), ended)


def reward_hacking(metrics: MetricHistory, last: LastRollout, settings: RunSettings) -> str:
    """The reward rises while fewer problems are solved, in training or in validation."""
    passed, earned = metrics.mean_with_error(PASSED), metrics.mean_with_error(REWARD)
    if earned is None:
        return ""
    measured, first, reward = "", metrics.first.get(PASSED), metrics.first.get(REWARD)
    if passed is not None and first is not None and reward is not None:
        fell, rose = first.mean - passed.mean, earned.mean - reward.mean
        if fell > 0.05 and rose > 0.01 and first.exceeds(passed) and earned.exceeds(reward):
            measured = f"the pass rate in training fell from {first.mean:.0%} to {passed.mean:.0%}"
    _, now = metrics.validations[-1] if metrics.validations else (0, dict[str, float]())
    for name in (name for name in now if name.endswith("pass@1") and not measured):
        done, best = max(((n, one) for n, one in metrics.validations if name in one), key=lambda one: one[1][name])
        share, problems = (best[name] + now[name]) / 2, now.get(f"{name.removesuffix('pass@1')}num_problems", inf)
        before = MeanWithError(best[REWARD], best["reward/error"])
        fell, rose = best[name] - now[name], earned.mean - before.mean
        if fell > max(0.05, 2 * sqrt(2 * share * (1 - share) / problems)) and rose > 0.01 and earned.exceeds(before):
            measured, reward = f"{name} fell from {best[name]:.3f} (after rollout {done}) to {now[name]:.3f}", before
    if not measured or reward is None:
        return ""
    rises = {
        name: weight * (metrics.mean(f"reward/{name}") - metrics.first[f"reward/{name}"].mean)
        for name, weight in settings.term_weights.items()
        if f"reward/{name}" in metrics.first
    }
    paid = f"the term {max(rises, key=lambda name: rises[name])}" if rises else "a term"
    line = format_diagnosis(
        f"{measured} while the reward rose from {reward.mean:.3g} to {earned.mean:.3g}",
        "the policy earns reward without solving problems",
        (f"{paid} pays for something else: read the rows that earned most", settings.show),
        ("tests that a wrong program passes", settings.check_data),
    )
    return f"{line}\n{_top_completions(last, last.rewards.rewards.tolist())}"


def exploding_loss(metrics: MetricHistory, last: LastRollout, settings: RunSettings) -> str:
    """The loss of the policy or of the critic is ten times what it was at first, and above ten."""
    for name in ("policy/loss", "critic/value_loss"):
        first, loss = metrics.first.get(name), metrics.mean(name)
        if first is not None and abs(loss) > 10 * max(abs(first.mean), 1.0):
            return format_diagnosis(
                f"{name} went from {first.mean:.3g} to {loss:.3g}",
                "the loss diverges",
                settings.smaller_learning_rate_hint(metrics.learning_rate),
                ("rewards of a larger scale than before", settings.show),
            )
    return ""


def exploding_kl(metrics: MetricHistory, last: LastRollout, settings: RunSettings) -> str:
    """The updates of one rollout take the policy far from where it sampled."""
    if metrics.mean(_KL) <= 0.2:
        return ""
    return format_diagnosis(
        f"the updates of one rollout move the policy by {metrics.mean(_KL):.2g} nats a token",
        "later updates learn from rows that the policy no longer writes",
        ("too many updates", f"{settings.fit} --model.update.max_kl 0.05"),
        settings.smaller_learning_rate_hint(metrics.learning_rate),
    )


def useless_critic(metrics: MetricHistory, last: LastRollout, settings: RunSettings) -> str:
    """After 30 rollouts the critic predicts returns no better than their mean would."""
    explained = metrics.mean_with_error("critic/explained_variance")
    if explained is None or explained.mean > 0 or metrics.rollout <= 30 or metrics.is_solved:
        return ""
    return format_diagnosis(
        f"the critic explains {explained.mean:.0%} of the returns' variance",
        "its advantages are noise",
        ("the critic's learning rate is too low", f"{settings.fit} --model.critic_update.learning_rate 0.001"),
        ("the policy moves before the critic has learned", f"{settings.fit} --model.critic_update.warmup_rollouts 20"),
    )


def collapse(metrics: MetricHistory, last: LastRollout, settings: RunSettings) -> str:
    """The reward has fallen to nothing, or has lost more than half of its rise from the floor to its best mean."""
    now, lost = metrics.mean_with_error(REWARD), metrics.num_unrewarded_rollouts
    if now is None or not metrics.has_earned_beyond_luck:
        return ""
    known = (metrics.best.get(REWARD, now), metrics.first_rollout_reward)
    best = max([now, *(one for one in known if one.exceeds(now))])
    if 2 * lost >= metrics.patience:
        number, peak = metrics.peak
        ends = f" ({commonest_failure_and_advice(last, settings)[0]})" if last.runs_programs else ""
        since = f"from rollout {metrics.rollout - lost + 1} on {sum(metrics.values(REWARD)[-lost:]) / lost:.3g}"
        measured, meaning = f"rollout {number} earned {peak[REWARD]:.3g}, {since}{ends}", "the policy was lost"
    elif not lost and now.mean < metrics.lowest_mean_reward + (best.mean - metrics.lowest_mean_reward) / 2:
        fell = f"from {best.mean:.3g} ± {best.error:.2g} to {now.mean:.3g} ± {now.error:.2g}"
        measured = f"the mean reward of {metrics.patience} rollouts fell {fell}"
        meaning = "the policy unlearns, or problems are harder now"
    else:
        return ""
    return f"{format_diagnosis(measured, meaning, *_causes_of_drift(metrics, settings))}\n{_longest_completions(last)}"


def entropy_collapse(metrics: MetricHistory, last: LastRollout, settings: RunSettings) -> str:
    """The entropy is below a tenth of what it was, most groups have equal rewards, and the task is not solved."""
    first, entropy, trained = metrics.first.get(_ENTROPY), metrics.latest.get(_ENTROPY), "update/trained_fraction"
    if (
        first is None
        or entropy is None
        or entropy >= 0.1 * first.mean
        or metrics.num_unrewarded_rollouts
        or metrics.is_solved
    ):
        return ""
    passes = max(metrics.mean(PASSED), metrics.recent[-1].get(PASSED, 0.0)) >= 0.9
    untrained = metrics.highest.get(trained, 1.0) == 0  # then the entropy differs by noise alone
    if passes or untrained or metrics.mean(_FLAT) < 0.5:
        return ""
    line = format_diagnosis(
        f"the entropy fell from {first.mean:.2g} to {entropy:.2g} nats a token, and most groups have equal rewards",
        "the policy no longer explores",
        settings.smaller_learning_rate_hint(metrics.learning_rate),
        ("no KL or entropy bonus that keeps the entropy up", f"{settings.fit} --model.objective.kl_coef 0.01"),
    )
    if metrics.values(PASSED):
        return line
    return f"{line}; if {metrics.mean(REWARD):.3g} is the largest possible reward, the task is solved: nothing is wrong"


def flat_reward(metrics: MetricHistory, last: LastRollout, settings: RunSettings) -> str:
    """Rewards are equal in nearly all groups, or in all rows, and the task was not learned."""
    means, spreads = metrics.values(REWARD), metrics.values("reward/std")
    all_equal = bool(means) and max([max(means) - min(means), *spreads]) <= 1e-6
    flat, has_teacher = metrics.mean(_FLAT), "teacher/gap" in metrics.latest  # a teacher needs no rewards
    if metrics.is_solved or not (
        all_equal or (flat > 0.95 and not has_teacher and not metrics.num_unrewarded_rollouts)
    ):
        return ""
    reward, passed = metrics.mean(REWARD), metrics.mean(PASSED)
    measured = f"{flat:.0%} of the groups have equal rewards, so nothing is learned"
    if all_equal:
        measured = f"all rewards of the last {metrics.patience} rollouts were {reward:.3g}, so nothing is learned"
    every, none = metrics.mean("group/all_passed_fraction"), metrics.mean("group/none_passed_fraction")
    peak, top = metrics.highest.get(REWARD, reward), metrics.highest.get(HIGHEST, reward)
    fell = metrics.has_earned_beyond_luck and peak - reward > 0.1 * (peak - metrics.lowest_mean_reward)
    if passed > 0.98 or every > 0.9 * flat > 0:
        meaning = f"programs passed from the beginning (never less than {metrics.lowest.get(PASSED, 0.0):.0%})"
        first = ("the tests check nothing", settings.check_data)
        second = ("the policy could solve these problems before: take harder ones", settings.show)
    elif last.runs_programs and (flat - every - none > 0.1 if flat else passed > 0.02):
        terms = " and ".join(name for name, weight in settings.term_weights.items() if weight) or "the reward"
        meaning = f"{passed:.0%} of the programs pass, and rewards do not distinguish them"
        first = (f"{terms} gives all rows of a problem the same value, as a cache would", "lit-rl docs rewards")
        second = ("no term reads the tests", "lit-rl docs rewards")
    elif all_equal and (fell or (top > reward + 1e-6 and not last.runs_programs)):
        meaning = f"rows earned up to {top:.3g} before, and the policy no longer tries what they did"
        first, second = _causes_of_drift(metrics, settings)
    elif last.runs_programs and (all_equal or none > 0.9 * flat):
        meaning, advice = commonest_failure_and_advice(last, settings)
        return f"{measured}: {meaning}; {advice}\n{_longest_completions(last)}"
    else:
        meaning = "every answer is worth the same"
        first = ("the reward ignores what differs, or the problems have the wrong difficulty", settings.show)
        second = ("too few completions per problem", f"{settings.fit} --model.sampling.num_samples 16")
    return f"{format_diagnosis(measured, meaning, first, second)}\n{_longest_completions(last)}"


def format_falling(metrics: MetricHistory, last: LastRollout, settings: RunSettings) -> str:
    """Fewer and fewer completions have a program in them."""
    kinds = {"completion/format_rate": "with a program in a fenced block", "completion/program_rate": "with a program"}
    for name, kind in kinds.items():
        best, share = metrics.best.get(name, MeanWithError(0.0)).mean, metrics.mean_with_error(name)
        if share is None or best - share.mean <= 0.2 or metrics.num_unrewarded_rollouts:
            continue
        measured = f"completions {kind} fell from {best:.0%} to {share.mean:.0%}"
        cause = settings.smaller_learning_rate_hint(metrics.learning_rate)
        reward, now = metrics.first.get(REWARD), metrics.mean_with_error(REWARD)
        if reward is not None and now is not None and now.exceeds(reward):
            measured += f" while the reward rose to {now.mean:.3g}"
            cause = ("a term that rewards answers without a program", settings.show)
        nothing = ("no term that rewards the form (FormatReward)", "lit-rl docs FormatReward")
        return format_diagnosis(measured, "the policy unlearns to answer", cause, nothing)
    return ""


def truncated(metrics: MetricHistory, last: LastRollout, settings: RunSettings) -> str:
    """More than half of the completions are cut by the token limit, or a stop string cuts many programs that fail."""
    share, cut, failed = metrics.mean(_TRUNCATED), metrics.mean(CUT), 1 - metrics.mean(PASSED)
    if metrics.num_unrewarded_rollouts:
        return ""
    if share > 0.5:
        return (
            f"{share:.0%} of the completions are cut by the token limit: they are judged without their end; "
            f"{causes_of_truncation(last, settings)}"
        )
    if cut <= max(0.05, 0.3 * failed):
        return ""
    string = commonest_stop_string(last.rollout, rows_cut_by_stop_string(last.rollout), last.decode)
    return format_diagnosis(
        f"{min(1.0, cut / failed):.0%} of the programs that fail break off where a stop string ended them",
        "answers are judged without their end",
        (f"{string} occurs inside good answers; {settings.stop_strings}", settings.check_data),
        ("the policy writes the stop string too early", settings.show),
    )


RULES: tuple[Rule, ...] = (
    not_finite,
    sandbox,
    broken_tests,
    sampler_gap,
    still_weights,
    reward_hacking,
    exploding_loss,
    exploding_kl,
    useless_critic,
    collapse,
    entropy_collapse,
    flat_reward,
    format_falling,
    truncated,
)
"""Rules in order: the callback reports the first one that holds."""


def _causes_of_drift(metrics: MetricHistory, settings: RunSettings) -> tuple[tuple[str, str], tuple[str, str]]:
    other = ("no KL that holds the policy near its start", f"{settings.fit} --model.objective.kl_coef 0.01")
    if settings.steps > 1:
        other = (f"too many updates per rollout ({settings.steps})", f"{settings.fit} --model.update.max_kl 0.05")
    return settings.smaller_learning_rate_hint(metrics.learning_rate), other


def _longest_completions(last: LastRollout) -> str:
    return _top_completions(last, [len(text) for text in last.rollout.completions.texts])


def _top_completions(last: LastRollout, scores: Sequence[float]) -> str:
    """Return three completions with the largest scores, of different problems if there are three."""
    judgements, rewards = last.rollout.judgements, last.rewards.rewards.tolist()
    order = sorted(range(len(scores)), key=lambda row: -scores[row])
    first = {judgements[row].problem.task_id: row for row in reversed(order)}.values()
    chosen = sorted(order, key=lambda row: row not in first)[:3]
    return "\n\n".join(
        f"{judgements[row].problem.task_id}: reward {rewards[row]:.3g}, {judgements[row].outcome.verdict}\n"
        f"{last.rollout.completions.texts[row][:600]}"
        for row in chosen
    )
