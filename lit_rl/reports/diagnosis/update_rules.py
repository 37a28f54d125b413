"""Rules about the update: losses, KL, entropy, critic, and how old the weights are that sample."""

from __future__ import annotations

from lit_rl.arguments import require_above, require_at_least, require_share
from lit_rl.reports.diagnosis.base import Rule
from lit_rl.reports.diagnosis.so_far import LAG, RunSoFar


class ExplodingLoss(Rule):
    """The loss is many times what it was at the beginning.

    Args:
        factor: how many times.
        at_least: a loss below this many times ``factor`` is let pass, whatever it was at the beginning.
    """

    name = "exploding_loss"

    def __init__(self, factor: float = 10.0, at_least: float = 1.0) -> None:
        require_above(1, factor=factor)
        require_above(0, at_least=at_least)
        self.factor, self.at_least = factor, at_least

    def look(self, run: RunSoFar) -> str:
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


class ExplodingKL(Rule):
    """The updates of one rollout take the policy far from where it sampled.

    Args:
        at_most: mean KL that is let pass (nats per token).
    """

    name = "exploding_kl"

    def __init__(self, at_most: float = 0.2) -> None:
        require_above(0, at_most=at_most)
        self.at_most = at_most

    def look(self, run: RunSoFar) -> str:
        """Compare the KL between the sampling policy and the present one with the limit."""
        kl = run.share("policy/approximate_kl")
        if kl <= self.at_most:
            return ""
        return (
            f"the updates of one rollout move the policy by {kl:.2g} nats a token: fewer of them (update.epochs, "
            "update.minibatches), an end to them (update.max_kl: 0.05), or a lower learning rate "
            f"({run.largest('optimizer/learning_rate'):.2g})"
        )


class EntropyCollapse(Rule):
    """The policy writes the same again and again before it has solved the task.

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

    def look(self, run: RunSoFar) -> str:
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

    def _unless_solved(self, run: RunSoFar) -> str:
        """Where no program runs, only the user knows which reward is the largest."""
        if run.mean("execution/pass_rate") is not None:
            return ""
        reward = run.share("reward/mean")
        return f"; if {reward:.3g} is the largest possible reward, the task is solved and nothing is wrong"


class ReferenceDrifted(Rule):
    """The policy is far from its reference.

    Args:
        at_most: mean KL that is let pass (nats per token).
    """

    name = "reference_drifted"

    def __init__(self, at_most: float = 0.5) -> None:
        require_above(0, at_most=at_most)
        self.at_most = at_most

    def look(self, run: RunSoFar) -> str:
        """Compare the KL to the reference with the limit."""
        kl = run.share("policy/kl_to_reference")
        if kl <= self.at_most:
            return ""
        return (
            f"the policy is {kl:.2g} nats a token from its reference: raise objective.kl_coef, lower the learning rate "
            f"({run.largest('optimizer/learning_rate'):.2g}), or let the reference follow "
            "(update.refresh_reference_every)"
        )


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

    def look(self, run: RunSoFar) -> str:
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
        at_most: age that is let pass (rollouts); sampling that overlaps with training is behind by one.
    """

    name = "stale_engine"

    def __init__(self, at_most: float = 1.0) -> None:
        require_at_least(0, at_most=at_most)
        self.at_most = at_most

    def look(self, run: RunSoFar) -> str:
        """Compare the version of the weights that sampled with that of the policy."""
        updates = run.module.update.steps
        age = run.share(LAG) / updates
        if age <= self.at_most:
            return ""
        return (
            f"the engine samples with weights that are {age:.1f} rollouts old: check whether new weights reach it "
            "(mark_stale, then the next session), or let it sample fewer rollouts ahead"
        )
