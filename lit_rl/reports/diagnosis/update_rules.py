"""Rules about the update: the first ratio, losses, KL, entropy, critic, and how the weights move."""

from __future__ import annotations

from itertools import pairwise
from math import isfinite

from lit_rl.arguments import require_above, require_at_least, require_share
from lit_rl.reports.diagnosis.ratio_probe import Findings, probe_ratio
from lit_rl.reports.diagnosis.rule import LimitRule, Rule
from lit_rl.reports.diagnosis.run_history import LAG, RunHistory

LOSSES = ("policy/loss", "loss", "sft/loss", "dpo/loss")
"""The loss of a run, by the name that its algorithm gives it."""


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


class GrowingMemory(Rule):
    """Peak memory grows in the second half of the last rollouts; used by ``--smoke``.

    Args:
        at_most: largest allowed growth, as a share of the memory taken by the middle.
        at_least: growth that is always allowed (GB).
    """

    name = "growing_memory"
    page = ""

    def __init__(self, at_most: float = 0.1, at_least: float = 0.1) -> None:
        require_at_least(0, at_most=at_most, at_least=at_least)
        self.at_most, self.at_least = at_most, at_least

    def look(self, run: RunHistory) -> str:
        """Compare the end with the middle."""
        peaks = run.values("memory/peak_gigabytes")
        if len(peaks) < 2:
            return ""
        middle, last = peaks[len(peaks) // 2], peaks[-1]
        if last - middle <= max(self.at_most * middle, self.at_least):
            return ""
        return "memory grows from rollout to rollout: look for tensors that a callback, reward or task keeps"


class ExplodingLoss(Rule):
    """The loss is many times what it was at the beginning.

    Args:
        factor: how many times.
        at_least: a loss below this many times ``factor`` is allowed, whatever it was at the beginning.
    """

    name = "exploding_loss"

    def __init__(self, factor: float = 10.0, at_least: float = 1.0) -> None:
        require_above(1, factor=factor)
        require_above(0, at_least=at_least)
        self.factor, self.at_least = factor, at_least

    def look(self, run: RunHistory) -> str:
        """Compare the policy's loss and the critic's with their first means."""
        for name in ("policy/loss", "critic/value_loss"):
            first, loss = run.first.get(name), run.mean(name)
            if first is None or loss is None or abs(loss) <= self.factor * max(abs(first), self.at_least):
                continue
            return (
                f"{name} went from {first:.3g} to {loss:.3g}: lower the learning rate "
                f"({run.largest('optimizer/learning_rate'):.2g}) or the number of updates a rollout, and check the "
                "scale of the rewards"
            )
        return ""


class ExplodingKL(LimitRule):
    """The updates of one rollout take the policy far from where it sampled.

    Args:
        at_most: largest allowed mean KL (nats per token).
    """

    name = "exploding_kl"
    metric = "policy/approximate_kl"
    message = (
        "the updates of one rollout move the policy by {value:.2g} nats a token: fewer of them (update.epochs, "
        "update.minibatches), an end to them (update.max_kl: 0.05), or a lower learning rate ({rate:.2g})"
    )

    def __init__(self, at_most: float = 0.2) -> None:
        super().__init__(at_most)


class EntropyCollapse(Rule):
    """The policy repeats itself before it has solved the task.

    Args:
        at_most: entropy, as a share of that of the first rollouts, that counts as collapsed.
        groups: share of groups with equal rewards from which on it matters.
        passed: pass rate from which on a small entropy is as it should be.
    """

    name = "entropy_collapse"
    explains = ("flat_groups",)

    def __init__(self, at_most: float = 0.1, groups: float = 0.5, passed: float = 0.9) -> None:
        require_share(at_most=at_most, groups=groups, passed=passed)
        self.at_most, self.groups, self.passed = at_most, groups, passed

    def look(self, run: RunHistory) -> str:
        """Compare the entropy with that of the first rollouts."""
        trained = "update/trained_fraction"
        if run.mean(trained) == 0 and not run.best.get(trained):  # what no update moved differs by noise alone
            return ""
        first, entropy = run.first.get("policy/entropy"), run.last("policy/entropy")
        if first is None or entropy is None or entropy >= self.at_most * first:
            return ""
        if run.share("execution/pass_rate") >= self.passed or run.share("group/zero_advantage_fraction") < self.groups:
            return ""
        return (
            f"the entropy fell from {first:.2g} to {entropy:.2g} nats a token, and most groups have equal rewards: the "
            "policy no longer tries anything else; go back to an earlier checkpoint, then a lower learning rate, "
            "entropy_coef or a KL to the reference (kl_coef)"
        ) + self._unless_solved(run)

    def _unless_solved(self, run: RunHistory) -> str:
        """Warn that the task may be solved, where no program runs and only the user knows the largest reward."""
        if run.mean("execution/pass_rate") is not None:
            return ""
        reward = run.share("reward/mean")
        return f"; if {reward:.3g} is the largest possible reward, the task is solved and nothing is wrong"


class ReferenceDrifted(LimitRule):
    """The policy is far from its reference.

    Args:
        at_most: largest allowed mean KL (nats per token).
    """

    name = "reference_drifted"
    metric = "policy/kl_to_reference"
    message = (
        "the policy is {value:.2g} nats a token from its reference: raise objective.kl_coef, lower the learning rate "
        "({rate:.2g}), or let the reference follow (update.refresh_reference_every)"
    )

    def __init__(self, at_most: float = 0.5) -> None:
        super().__init__(at_most)


class UselessCritic(Rule):
    """The critic predicts returns no better than their mean would.

    Args:
        at_most: explained variance (share) that counts as useless.
        after: rollouts that the critic is given to learn.
    """

    name = "useless_critic"

    def __init__(self, at_most: float = 0.0, after: int = 30) -> None:
        require_at_least(0, after=after)
        self.at_most, self.after = at_most, after

    def look(self, run: RunHistory) -> str:
        """Compare the explained variance with the limit."""
        explained = run.mean("critic/explained_variance")
        if explained is None or explained > self.at_most or run.rollout_step <= self.after:
            return ""
        return (
            f"the critic explains {explained:.0%} of the returns' variance, so its advantages are noise: raise "
            "critic_update.learning_rate, give it a start (critic_update.warmup_rollouts), or take GRPO, which needs "
            "none"
        )


class StaleEngine(Rule):
    """The engine samples with weights that are older than they need to be.

    Args:
        at_most: largest allowed age (rollouts); sampling that overlaps with training is behind by one.
    """

    name = "stale_engine"

    def __init__(self, at_most: float = 1.0) -> None:
        require_at_least(0, at_most=at_most)
        self.at_most = at_most

    def look(self, run: RunHistory) -> str:
        """Compare the version of the weights that sampled with that of the policy."""
        updates = run.module.update.steps
        age = run.share(LAG) / updates
        if age <= self.at_most:
            return ""
        return (
            f"the engine samples with weights that are {age:.1f} rollouts old: check whether new weights reach it "
            "(mark_stale, then the next session), or let it sample fewer rollouts ahead"
        )


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

    def __init__(self, at_most: float = 0.05, probe: bool = True) -> None:
        require_above(0, at_most=at_most)
        self.at_most = at_most
        self.probe = probe
        self._findings: Findings | None = None

    def reset(self) -> None:
        """Forget the findings."""
        self._findings = None

    def look(self, run: RunHistory) -> str:
        """Compare the gap with the limit; where it is larger, look for the cause once."""
        gap, sampling = run.share("sampling/logprob_gap/mean"), run.module.sampling
        ahead = run.module.sampler.settings.staleness  # then other weights sampled, as they were meant to
        assert sampling is not None  # what learns from rollouts samples
        if gap < self.at_most or sampling.top_k or sampling.top_p < 1 or ahead:
            self._findings = None
            return ""
        said = f"sampler and trainer differ by {gap:.2g} nats a token before the update, so the first ratio is not 1"
        if not self.probe:
            return f"{said}: check the engine's weights, dtype, temperature and filters"
        if self._findings is None:
            self._findings = probe_ratio(run.module, run.rollout, self.at_most)
        return f"{said}: {self._findings.cause}"

    def details(self, run: RunHistory) -> str:
        """Table of all changes that were tried."""
        return self._findings.table() if self._findings is not None else ""


class StillWeights(Rule):
    """The weights do not move although there are gradients.

    Args:
        at_most: move over ``patience`` rollouts, as a share of the weights' norm, that counts as none.
    """

    name = "still_weights"

    def __init__(self, at_most: float = 1e-8) -> None:
        require_at_least(0, at_most=at_most)
        self.at_most = at_most

    def look(self, run: RunHistory) -> str:
        """Compare the weights now with those before the last rollouts."""
        weights = run.weights
        if len(weights) <= run.patience:
            return ""
        moved = float((weights[-1] - weights[0]).norm())
        norm, rate = run.share("policy/gradient_norm"), run.largest("optimizer/learning_rate")
        if norm == 0 or moved > self.at_most * float(weights[0].norm()):
            return ""
        return (
            f"the weights did not move in {run.patience} rollouts despite gradients (norm {norm:.2g}): the "
            f"learning rate {rate:.2g} is too small for the weights' dtype, or the schedule has ended"
        )


class JumpingWeights(Rule):
    """A rollout moves the weights by a large part of the size that they began with.

    Weights that began at 0, such as tables, are not checked.

    Args:
        at_most: largest allowed move in a rollout, as a share of the norm of the run's first weights.
    """

    name = "jumping_weights"

    def __init__(self, at_most: float = 0.2) -> None:
        require_above(0, at_most=at_most)
        self.at_most = at_most

    def look(self, run: RunHistory) -> str:
        """Compare the largest move of the last rollouts with where the run began: a run that is broken stays."""
        weights, norm = run.weights, run.first_norm
        if len(weights) <= run.patience or norm == 0:
            return ""
        moves = [float((after - before).norm()) for before, after in pairwise(weights)]
        share = max(moves) / norm
        if share <= self.at_most:
            return ""
        rate = run.largest("optimizer/learning_rate")
        return (
            f"a rollout moved the weights by {share:.0%} of the size they began with: the learning rate ({rate:.2g}) "
            "is far too high; try a tenth or a hundredth of it, and start from the weights before this run"
        )
