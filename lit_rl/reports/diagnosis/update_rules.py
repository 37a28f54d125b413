"""Rules about the update: the first ratio, losses, KL, entropy, critic, and how the weights move."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, sqrt
from typing import Any

from lit_rl.losses import Loss
from lit_rl.reports.diagnosis.ratio_probe import Findings, probe_ratio
from lit_rl.reports.diagnosis.reward_rules import WHAT_A_LOST_POLICY_SHOWS, is_solved
from lit_rl.reports.diagnosis.row_shares import KL_PUSH
from lit_rl.reports.diagnosis.rule import LimitRule, Rule, above, from_0_to_1, not_below, told
from lit_rl.reports.diagnosis.run_history import LAG, Level, RunHistory

LOSSES = ("policy/loss", "loss", "sft/loss", "dpo/loss")
"""The loss of a run, by the name that its algorithm gives it."""

_OF_LOSS, _OF_ADVANTAGES = "update/advantage_agreement", "update/reward_agreement"
_MEASURED = 3
"""Measurements of an agreement that it takes to judge it."""
_EXPLAINED = 0.5
"""Weight decay explains what weights lost if it takes at least this share of it."""
_AGREED = 0.1
"""Sampler and trainer agreed where they differed by less than this share of what they do now."""
_ENDED = 0.01
"""A schedule that leaves less than this share of the learning rate is why weights stand still."""
_STEP = 0.01
"""Adam moves weights by at least this share of the learning rate (root mean square) unless gradients are below ``eps``.
"""
_VALIDATE = "lit-rl validate --config FILE --model.policy.init_args.model TEACHER"
_MANY = 5.0
"""Weights this many times as large as they began were not trained but blown up."""


class StuckLoss(Rule):
    """The loss never changes, or is NaN; used by ``--smoke``."""

    name = "stuck_loss"
    page = ""

    def look(self, run: RunHistory) -> str:
        """Compare the losses with each other."""
        losses = next((values for name in LOSSES if (values := run.values(name))), [])
        if len(set(losses)) > 1 and all(map(isfinite, losses)):
            return ""
        return "the loss is always the same, or not finite: look at the rewards, the learning rate and the data"


@dataclass(eq=False)
class GrowingMemory(Rule):
    """Peak memory grows in the second half of the last rollouts; used by ``--smoke``.

    Args:
        at_most: largest allowed growth, as a share of the memory taken by the middle.
        at_least: growth that is always allowed (GB).
    """

    name = "growing_memory"
    page = ""
    at_most: float = not_below(0, 0.1)
    at_least: float = not_below(0, 0.1)

    def look(self, run: RunHistory) -> str:
        """Compare the end with the middle."""
        peaks = run.values("memory/peak_gigabytes")
        if len(peaks) < 2:
            return ""
        middle, last = peaks[len(peaks) // 2], peaks[-1]
        if last - middle <= max(self.at_most * middle, self.at_least):
            return ""
        return "memory grows from rollout to rollout: look for tensors that a callback, reward or task keeps"


@dataclass(eq=False)
class ExplodingLoss(Rule):
    """The loss is many times what it was at the beginning.

    Args:
        factor: how many times.
        at_least: a loss below this many times ``factor`` is allowed, whatever it was at the beginning.
    """

    name = "exploding_loss"
    factor: float = above(1, 10.0)
    at_least: float = above(0, 1.0)

    def look(self, run: RunHistory) -> str:
        """Compare the policy's loss and the critic's with their first means."""
        for name in ("policy/loss", "critic/value_loss"):
            first, loss = run.first.get(name), run.mean(name)
            if first is None or loss is None or abs(loss) <= self.factor * max(abs(first.mean), self.at_least):
                continue
            return told(
                f"{name} went from {first.mean:.3g} to {loss:.3g}",
                "it diverges",
                run.too_fast,
                ("rewards of a larger scale than before", run.where.show),
            )
        return ""


@dataclass(eq=False)
class ExplodingKL(LimitRule):
    """The updates of one rollout take the policy far from where it sampled.

    Args:
        at_most: largest allowed mean KL (nats per token).
    """

    name = "exploding_kl"
    metric = "policy/approximate_kl"
    message = (
        "the updates of one rollout move the policy by {value} nats a token: later ones learn from rows that it no "
        "longer writes; likely too many of them (`{fit} --model.update.max_kl 0.05`), or too large ones: lower the "
        "learning rate ({rate}, `{slower}`)"
    )
    at_most: float = above(0, 0.2)


@dataclass(eq=False)
class EntropyCollapse(Rule):
    """The policy repeats itself before it has solved the task.

    Args:
        at_most: entropy, as a share of that of the first rollouts, that counts as collapsed.
        groups: share of groups with equal rewards from which on it matters.
        passed: pass rate from which on a small entropy is as it should be.
    """

    name = "entropy_collapse"
    explains = ("flat_groups",)
    at_most: float = from_0_to_1(0.1)
    groups: float = from_0_to_1(0.5)
    passed: float = from_0_to_1(0.9)

    def look(self, run: RunHistory) -> str:
        """Compare the entropy with that of the first rollouts."""
        trained = "update/trained_fraction"
        if run.mean(trained) == 0 and not run.best.get(trained, Level(0)).mean:
            return ""  # what no update moved differs by noise alone
        first, entropy = run.first.get("policy/entropy"), run.last("policy/entropy")
        if first is None or entropy is None or entropy >= self.at_most * first.mean or is_solved(run):
            return ""
        passed = max(run.share("execution/pass_rate"), run.newest.get("execution/pass_rate", 0.0))
        if passed >= self.passed or run.share("group/zero_advantage_fraction") < self.groups:
            return ""
        return told(
            f"the entropy fell from {first.mean:.2g} to {entropy:.2g} nats a token, and most groups have equal rewards",
            "the policy no longer tries anything else",
            run.too_fast,
            ("nothing that keeps it open", f"{run.where.fit} --model.objective.kl_coef 0.01"),
        ) + self._unless_solved(run)

    def persists(self, run: RunHistory) -> bool:
        """Return whether the entropy is still near the limit."""
        first, entropy = run.first.get("policy/entropy"), run.last("policy/entropy")
        return first is not None and entropy is not None and entropy < 2 * self.at_most * first.mean

    def _unless_solved(self, run: RunHistory) -> str:
        """Warn that the task may be solved, where no program runs and only the user knows the largest reward."""
        if run.mean("execution/pass_rate") is not None:
            return ""
        reward = run.share("reward/mean")
        return f"; if {reward:.3g} is the largest possible reward, the task is solved and nothing is wrong"


@dataclass(eq=False)
class TeacherCollapse(Rule):
    """The policy loses what a teacher had taught it: the late collapse of self-distillation.

    Args:
        fall: share of the best pass rate (of the best mean reward where no program runs) that is lost; the fall must
            also be more than noise explains.
        entropy: share of the first rollouts' entropy below which the policy repeats itself.
        length: factor of the first rollouts' length beyond which, up or down, the rows are others.
    """

    name = "teacher_collapse"
    explains = ("collapse", "entropy_collapse")
    fall: float = from_0_to_1(0.2)
    entropy: float = from_0_to_1(0.5)
    length: float = above(1, 1.5)

    def look(self, run: RunHistory) -> str:
        """Compare pass rate, entropy and length with the best and the first ones, where a teacher corrects rows."""
        gap = run.mean("teacher/gap")
        name = next((one for one in ("execution/pass_rate", "reward/mean") if run.values(one)), "")
        now, best = run.level(name), run.best.get(name)
        if gap is None or now is None or best is None:
            return ""
        if now.mean > (1 - self.fall) * best.mean or not best.exceeds(now):
            return ""
        moved = [self._moved(run, "policy/entropy"), self._moved(run, "completion/length")]
        if not any(moved):
            return ""
        return told(
            f"{name} fell from {best.mean:.2f} to {now.mean:.2f} while {' and '.join(filter(None, moved))}, with the "
            f"teacher {gap:.2g} nats a token away",
            "the late collapse of self-distillation: go back to the best checkpoint",
            ("a teacher that drifts with the policy", f"{run.where.fit} --model.update.refresh_reference_share 0.01"),
            ("corrections of rows that passed", f"{run.where.fit} --model.distil.rows failed"),
            ("too much weight beside the rewards", f"{run.where.fit} --model.distil.weight 0.1"),
        )

    def _moved(self, run: RunHistory, name: str) -> str:
        """The move of entropy or length in words; empty if it is small."""
        first, now = run.first.get(name), run.last(name)
        if first is None or now is None or first.mean <= 0:
            return ""
        low = self.entropy if name == "policy/entropy" else 1 / self.length
        if low <= now / first.mean <= self.length:
            return ""
        return f"{name} went from {first.mean:.2g} to {now:.2g}"


@dataclass(eq=False)
class WorseTeacher(Rule):
    """The policy approaches a teacher that is another model, and passes less often.

    Args:
        fall: share of the first rollout's pass rate (or mean reward) that is lost, and more than noise explains.
        closer: share of the first rollout's distance from the teacher that is left.
    """

    name = "worse_teacher"
    explains = (*WHAT_A_LOST_POLICY_SHOWS, "teacher_collapse", "reward_hacking")
    fall: float = from_0_to_1(0.2)
    closer: float = from_0_to_1(0.5)

    def look(self, run: RunHistory) -> str:
        """Compare distance and pass rate with the first rollout's."""
        teacher: Any = getattr(run.module, "teacher", None)
        name = "execution/pass_rate" if "execution/pass_rate" in run.begun else "reward/mean"
        far, gap = run.begun.get("teacher/gap"), run.last("teacher/gap")
        start, now = run.start(name), run.level(name)
        if not hasattr(teacher, "load") or start is None or now is None:
            return ""
        if far is None or gap is None or gap > self.closer * far:
            return ""
        if now.mean > (1 - self.fall) * start.mean or not start.exceeds(now):
            return ""
        return told(
            f"{name} fell from {start.mean:.2f} to {now.mean:.2f} while the distance from the teacher fell from "
            f"{far:.2g} to {gap:.2g} nats a token",
            "the policy learns what its teacher does",
            ("the teacher solves fewer of these problems than the policy did: measure it", _VALIDATE),
            run.too_fast,
        )


@dataclass(eq=False)
class ReferenceDrifted(LimitRule):
    """The policy is far from its reference.

    Args:
        at_most: largest allowed mean KL (nats per token).
    """

    name = "reference_drifted"
    metric = "policy/kl_to_reference"
    message = (
        "the policy is {value} nats a token from its reference: it may lose what the reference could; likely too small "
        "a kl_coef (`{fit} --model.objective.kl_coef 0.1`), or too large a step: lower the learning rate ({rate}, "
        "`{slower}`)"
    )
    at_most: float = above(0, 0.5)


@dataclass(eq=False)
class StiffKL(LimitRule):
    """The KL to the reference outweighs the rewards, and they do not rise.

    Args:
        at_most: largest allowed gradient of the KL, as a multiple of the gradient of the rewards.
    """

    name = "stiff_kl"
    metric = KL_PUSH
    explains = ("exploding_loss", "reference_drifted")
    at_most: float = above(0, 5.0)

    def look(self, run: RunHistory) -> str:
        """Compare the two, unless the reward has risen."""
        module: Any = run.module
        push, coef = run.share(self.metric), run.last("policy/kl_coef") or module.objective.kl_coef
        if push <= self.at_most or run.has_risen:
            return ""
        return told(
            f"the KL to the reference pushes a token {push:.0f} times as hard as its advantage",
            "the policy is held where it began",
            (f"kl_coef ({coef:g}) is too large for these rewards", f"{run.where.fit} --model.objective.kl_coef 0.01"),
        )


@dataclass(eq=False)
class PaidEntropy(Rule):
    """The entropy bonus raises the entropy, and the rewards do not rise.

    Args:
        paid: smallest payment per token for the rise that is reported (``entropy_coef`` times nats); an advantage is
            about 1.
    """

    name = "paid_entropy"
    explains = (*WHAT_A_LOST_POLICY_SHOWS, "exploding_loss", "reference_drifted")
    paid: float = above(0, 0.1)

    def look(self, run: RunHistory) -> str:
        """Compare the entropy with that of the first rollouts, where a bonus pays for it."""
        module: Any = run.module
        first, now = run.first.get("policy/entropy"), run.level("policy/entropy")
        coef = module.objective.entropy_coef
        if first is None or now is None or coef <= 0 or not now.exceeds(first) or run.has_risen:
            return ""
        if coef * (now.mean - first.mean) < self.paid:
            return ""
        return told(
            f"the entropy rose from {first.mean:.2g} to {now.mean:.2g} nats a token, and the reward did not rise",
            "the policy is paid for writing anything",
            (f"entropy_coef ({coef:g}) is too large", f"{run.where.fit} --model.objective.entropy_coef {coef / 100:g}"),
            ("rewards that teach nothing", run.where.show),
        )


@dataclass(eq=False)
class UselessCritic(Rule):
    """The critic predicts returns no better than their mean would.

    Args:
        at_most: explained variance (share) that counts as useless.
        after: rollouts that the critic is given to learn.
    """

    name = "useless_critic"
    at_most: float = 0.0
    after: int = not_below(0, 30)

    def look(self, run: RunHistory) -> str:
        """Compare the explained variance with the limit."""
        explained = run.mean("critic/explained_variance")
        if explained is None or explained > self.at_most or run.rollout_step <= self.after or is_solved(run):
            return ""
        return told(
            f"the critic explains {explained:.0%} of the returns' variance",
            "its advantages are noise",
            ("too low a rate", f"{run.where.fit} --model.critic_update.learning_rate 0.001"),
            ("no start before the policy moves", f"{run.where.fit} --model.critic_update.warmup_rollouts 20"),
        )


@dataclass(eq=False)
class StaleEngine(Rule):
    """The engine samples with weights that are older than they need to be.

    Args:
        at_most: largest allowed age (rollouts); sampling that overlaps with training is behind by one.
    """

    name = "stale_engine"
    at_most: float = not_below(0, 1.0)

    def look(self, run: RunHistory) -> str:
        """Compare the version of the weights that sampled with that of the policy."""
        updates = run.module.update.steps
        age = run.share(LAG) / updates
        if age <= self.at_most:
            return ""
        return told(
            f"the engine samples with weights that are {age:.1f} rollouts old",
            "rows are compared with a policy that did not write them",
            ("new weights do not reach it (mark_stale, then the next session)", "lit-rl docs engines"),
            ("it samples too many rollouts ahead", f"{run.where.fit} --model.collect.staleness 0"),
        )


@dataclass(eq=False)
class FirstRatio(Rule):
    """Sampler and trainer differ before the update, so the first ratio is not 1.

    When it speaks, a probe tries what can be the cause one by one and names it; see
    :func:`lit_rl.reports.diagnosis.ratio_probe.probe_ratio`. The rule is skipped where sampling filters by top-k or
    top-p: there is always a distance then.

    Args:
        at_most: mean distance that rounding explains (nats per token).
        probe: whether to look for the cause, which takes a few dozen short forward passes once.
    """

    name = "sampler_gap"
    at_most: float = above(0, 0.05)
    probe: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reset()

    def reset(self) -> None:
        """Forget the findings."""
        self._findings: Findings | None = None

    def look(self, run: RunHistory) -> str:
        """Compare the gap with the limit; where it is larger, look for the cause once."""
        gap, sampling = run.share("sampling/logprob_gap/mean"), run.module.sampling
        ahead = run.module.sampler.settings.staleness  # then other weights sampled, as they were meant to
        assert sampling is not None  # what learns from rollouts samples
        if gap < self.at_most or sampling.top_k or sampling.top_p < 1 or ahead:
            self._findings = None
            return ""
        if self.probe and self._findings is None:
            self._findings = probe_ratio(run.module, run.rollout, self.at_most)
        if self._findings is not None and not self._findings.is_known and _has_jumped(run):
            return ""  # rounding of such weights is no fault of the engine; the weights are told
        said = f"sampler and trainer differ by {gap:.2g} nats a token before the update, so the first ratio is not 1"
        cause, began = "the cause was not looked for", run.begun.get("sampling/logprob_gap/mean", gap)
        if self._findings is not None and self._findings.is_known:
            cause = self._findings.cause
        elif began < _AGREED * gap:  # what an engine misreports, it does from the beginning
            cause = (
                f"they agreed in the first rollout ({began:.2g} nats), so the engine had the policy's weights then and "
                "reported what it should; likely new weights do not reach it, whatever version it reports (mark_stale, "
                "then the next session), or it computes in a narrower dtype"
            )
        elif self._findings is not None:
            cause = self._findings.cause
        return f"{said}: {cause}; each cause has an entry (`lit-rl docs engines#when-sampler-and-trainer-differ`)"

    def details(self, run: RunHistory) -> str:
        """Table of all changes that were tried."""
        return self._findings.table() if self._findings is not None else ""


@dataclass(eq=False)
class StillWeights(Rule):
    """The weights do not move although there are gradients.

    Args:
        at_most: move over ``patience`` rollouts, as a share of the weights' norm, that counts as none.
    """

    name = "still_weights"
    explains = ("wrong_sign",)  # of changes that are rounding
    at_most: float = not_below(0, 1e-8)

    def look(self, run: RunHistory) -> str:
        """Compare the weights now with those before the last rollouts."""
        weights = run.weights
        if len(weights) <= run.patience:
            return ""
        moved = float((weights[-1] - weights[0]).norm())
        norm, rate = run.share("policy/gradient_norm"), run.largest("optimizer/learning_rate")
        if norm == 0:
            return ""
        if moved > self.at_most * float(weights[0].norm()):
            return self._below_eps(run, norm)
        measured = f"the weights did not move in {run.patience} rollouts despite gradients (norm {norm:.2g})"
        todo = f"{run.where.fit} --model.update.optimizer.init_args.lr 1e-6"
        best = run.best.get("optimizer/learning_rate", Level(0.0)).mean
        full = max(best, float(run.optimizer.get("initial_lr") or 0.0))
        now = "ended" if best > rate else "hardly begun"
        said = f"the schedule has {now}: of the learning rate {full:.2g} it leaves {rate:.2g}"
        ended = (said, f"{run.where.fit} --model.update.lr_scheduler null")
        settings: Any = run.module.update
        clip = settings.gradient_clip_norm
        if rate == 0 or rate < _ENDED * full:
            return told(measured, "nothing is learned", ended if full else ("the learning rate is 0", todo))
        if (
            clip is not None
            and "betas" not in run.optimizer
            and moved * norm / clip > self.at_most * float(weights[0].norm())
        ):
            return told(measured, "nothing is learned", _clipped(run, f"leaves {clip / norm:.1g} of their size"))
        small = f"the learning rate {rate:.2g} is too small for the weights' dtype"
        return told(measured, "nothing is learned", (small, todo), ended)

    def _below_eps(self, run: RunHistory, norm: float) -> str:
        """Return the message for steps far below the learning rate where gradients are below Adam's ``eps``."""
        settings: Any = run.module.update
        eps, rate, clip = float(run.optimizer.get("eps") or 0.0), run.rate, settings.gradient_clip_norm
        if "betas" not in run.optimizer or rate == 0:
            return ""
        moves = [float((after - before).norm()) for before, after in pairwise(run.weights)]
        share = max(moves) / sqrt(len(run.weights[0])) / (rate * settings.steps)
        spread = sqrt(sum(p.numel() for p in run.module.policy.parameters() if p.requires_grad))
        if share >= _STEP or min(norm, clip or norm) / spread >= eps:
            return ""
        small = f"Adam's eps ({eps:g}) is larger than the gradients (norm {norm:.2g})"
        cause = (small, f"{run.where.fit} --model.update.optimizer.init_args.eps 1e-8")
        if norm / spread >= eps:
            cause = _clipped(run, f"leaves gradients (norm {norm:.2g}) that are smaller than Adam's eps ({eps:g})")
        measured = f"an update moves a weight by {share:.1g} of the learning rate ({rate:.2g})"
        return told(measured, "next to nothing is learned", cause)


@dataclass(eq=False)
class JumpingWeights(Rule):
    """A rollout moves the weights by a large part of the size that they began with.

    Weights that began at 0, such as tables, are not checked.

    Args:
        at_most: largest allowed move in a rollout, as a share of the norm of the run's first weights.
    """

    name = "jumping_weights"
    at_most: float = above(0, 0.2)

    def look(self, run: RunHistory) -> str:
        """Compare the largest move of the last rollouts with where the run began: a run that is broken stays."""
        weights, norm = run.weights, run.first_norm
        if len(weights) <= run.patience or norm == 0:
            return ""
        moves = [float((after - before).norm()) for before, after in pairwise(weights)]
        share = max(moves) / norm
        if share <= self.at_most:
            return ""
        return told(
            f"a rollout moved the weights by {share:.0%} of the size they began with",
            "what they knew is overwritten",
            (f"the learning rate ({run.rate:.2g}) is far too high", run.slower),
            ("gradients that nothing clips", f"{run.where.fit} --model.update.gradient_clip_norm 1"),
        )

    def persists(self, run: RunHistory) -> bool:
        """Return whether the weights still are far from where they began."""
        return _has_jumped(run)


@dataclass(eq=False)
class WrongSign(Rule):
    """Updates do the opposite of what advantages say, or advantages of what rewards say.

    Args:
        at_most: largest agreement that counts as opposite, see ``update/advantage_agreement`` in docs/metrics.md; its
            mean must be below by more than two standard errors.
    """

    name = "wrong_sign"
    explains = (*WHAT_A_LOST_POLICY_SHOWS, "reward_hacking", "exploding_loss", "exploding_kl", "reference_drifted")
    at_most: float = -0.2

    def look(self, run: RunHistory) -> str:
        """Look at the mean of each agreement over the last rollouts that measured it."""
        module: Any = run.module
        if self._is_reversed(run, _OF_ADVANTAGES):
            return told(
                f"advantages agree with rewards by {run.share(_OF_ADVANTAGES):.2f} (1 is right, -1 reversed)",
                "the policy learns to earn less",
                (f"the sign of the advantages: read {run.estimator}", "lit-rl docs algorithms"),
            )
        if not self._is_reversed(run, _OF_LOSS):
            return ""
        measured = (
            f"changes of log-probability agree with advantages by {run.share(_OF_LOSS):.2f} (1 is right, -1 reversed)"
        )
        meaning = "updates make less likely what they should make likelier"
        if run.optimizer.get("maximize"):
            todo = f"{run.where.fit} --model.update.optimizer.init_args.maximize false"
            return told(measured, meaning, ("the optimizer maximises the loss (maximize)", todo))
        loss = type(module.objective.loss)
        sign = f"the sign of the loss: read {loss.__name__}.token_losses"
        causes = [
            (sign, f"{run.where.fit} --model.objective.loss Clipped"),
            (f"steps that overshoot: lower the learning rate ({run.rate:.2g})", run.slower),
        ]
        return told(measured, meaning, *(reversed(causes) if loss.__module__ == Loss.__module__ else causes))

    def persists(self, run: RunHistory) -> bool:
        """Return whether few rows are left to measure, as after a collapse, and none or the same was measured since."""
        means = [run.mean(_OF_LOSS), run.mean(_OF_ADVANTAGES)]
        return any(mean is None or mean < self.at_most for mean in means)

    def _is_reversed(self, run: RunHistory, name: str) -> bool:
        level = run.level(name)
        enough = len(run.values(name)) >= min(_MEASURED, run.patience)
        return level is not None and enough and level.mean + 2 * level.error < self.at_most


@dataclass(eq=False)
class WeightDecay(Rule):
    """Weight decay shrinks the weights faster than gradients build them.

    Args:
        at_most: largest allowed loss of the norm that the weights began with (share).
    """

    name = "weight_decay"
    explains = WHAT_A_LOST_POLICY_SHOWS
    at_most: float = from_0_to_1(0.2)

    def look(self, run: RunHistory) -> str:
        """Compare the norm of the weights with that at the start of the run, where the optimizer decays them."""
        decay, norm = float(run.optimizer.get("weight_decay") or 0.0), float(run.weights[-1].norm())
        if not decay or norm >= (1 - self.at_most) * run.first_norm:
            return ""
        lost, taken = 1 - norm / run.first_norm, decay * run.rate * run.module.update.steps
        if 1 - (1 - min(1.0, taken)) ** run.rollout_step < _EXPLAINED * lost:
            return ""  # gradients shrank them
        return told(
            f"the weights lost {lost:.0%} of the norm they began with",
            "what they knew fades",
            (
                f"weight_decay {decay:g}, which with the learning rate takes {taken:.1%} a rollout",
                f"{run.where.fit} --model.update.optimizer.init_args.weight_decay 0.01",
            ),
        )


class NotFinite(Rule):
    """Weights, or numbers of the update, are NaN or infinite; then nothing else that is measured means anything."""

    name = "not_finite"
    explains = ("*",)
    at_once = True

    def look(self, run: RunHistory) -> str:
        """Look at the weights first, then at what was logged; of the sampler's numbers ``sampler_gap`` tells."""
        if run.weights and not run.weights[-1].isfinite().all():
            return told(
                "weights are not finite",
                "the policy is lost, and every other number with it",
                (f"the learning rate ({run.rate:.2g}) is far too high", run.slower),
                ("a dtype too narrow for these gradients", f"{run.where.fit} --trainer.precision 32-true"),
            )
        named = [one for one in run.newest if not one.startswith("sampling/") and not isfinite(run.newest[one])]
        if not named:
            return ""
        return told(
            f"{', '.join(named[:3])} not finite",
            "no number after it means anything",
            (f"the learning rate ({run.rate:.2g}) is too high", run.slower),
            ("a reward or loss of your own divides by 0", run.where.show),
        )


def _clipped(run: RunHistory, how: str) -> tuple[str, str]:
    """Clipping as a cause, and the command that changes it."""
    settings: Any = run.module.update
    said = f"gradient_clip_norm ({settings.gradient_clip_norm:g}) {how}"
    return said, f"{run.where.fit} --model.update.gradient_clip_norm 1"


def _has_jumped(run: RunHistory) -> bool:
    """Return whether the weights are many times as large as they began."""
    return run.first_norm > 0 and float(run.weights[-1].norm()) > _MANY * run.first_norm
