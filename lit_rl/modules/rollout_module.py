"""The road that GRPO, PPO and REINFORCE share: collect, make experience, update.

One training step is one rollout: every problem of the batch is sampled ``G`` times, every program is run,
and the policy is updated ``num_epochs * num_minibatches`` times on what happened.

Letters: B problems of one rank, G completions per problem, N = B * G rows, T completion tokens.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Unpack

import torch
from torch import Tensor

from lit_rl.bounds import require_above, require_at_least, require_share
from lit_rl.functional.masking import AggregateMode, aggregate, loss_denominator
from lit_rl.models.policy import Policy
from lit_rl.models.reference import Reference
from lit_rl.models.streams import StreamKey
from lit_rl.modules.base import LARGEST_FAILED_SHARE, PolicyModule
from lit_rl.modules.finite import Evidence, evidence_of_experience
from lit_rl.modules.objective import Objective
from lit_rl.modules.options import PolicyOptions
from lit_rl.modules.pieces import in_order
from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import InfrastructureError, Rollout, require_infrastructure
from lit_rl.summary import summarise
from lit_rl.training.modes import evaluating
from lit_rl.training.ranks import Means, max_over_ranks, sum_over_ranks, world_size
from lit_rl.types import Completions, Experience, Problem, Sampling

MOST_ROLLOUTS_WITHOUT_REWARD = 5
"""A grader may fail on all of one small rollout; when it fails on this many in a row, it does not work."""


class Logprobs(NamedTuple):
    """[N, T] nats of the old policy and of the reference, 0 in rows that were not scored; ``None`` where unread."""

    old: Tensor | None
    ref: Tensor | None


Losses = Iterator[tuple[Tensor, dict[str, Tensor]]]


class RolloutModule(PolicyModule):
    """Learns from executed programs; a subclass says what the advantages are.

    A subclass implements :meth:`make_experience`; one with more than a policy to train also
    :meth:`minibatch_losses`. Nothing else is needed.

    Args:
        policy: what is trained.
        sampling: how training samples; ``num_samples`` is the group size G.
        objective: the policy's loss.
        num_epochs: passes over the experience of one rollout.
        num_minibatches: updates per pass; rows are dealt out at random.
        microbatch_size: rows per forward and backward on one rank; ``None`` for a minibatch at once. Changes
            memory and speed, never the gradient.
        aggregate: how token losses become one number, see :func:`lit_rl.functional.masking.aggregate`.
        largest_kl: end a rollout's updates before one that would start further (nats per token, mean over all
            ranks) from where the policy sampled; ``None`` never does.
        refresh_reference_every: make the policy the new reference every this many rollouts; ``None`` never does.
        max_rollouts: the run ends after this many rollouts; ``None`` leaves it to the trainer.
        max_infrastructure_failures: largest share of a rollout's programs that may fail for our own reasons; a
            single one may, unless this is 0.
        **options: see :class:`PolicyModule`.
    """

    samples_to_train = True

    def __init__(
        self,
        policy: Policy,
        *,
        sampling: Sampling,
        objective: Objective = Objective(),  # noqa: B008  # frozen
        num_epochs: int = 1,
        num_minibatches: int = 1,
        microbatch_size: int | None = None,
        aggregate: AggregateMode = "token_mean",
        largest_kl: float | None = None,
        refresh_reference_every: int | None = None,
        max_rollouts: int | None = None,
        max_infrastructure_failures: float = LARGEST_FAILED_SHARE,
        **options: Unpack[PolicyOptions],
    ) -> None:
        greedy = Sampling(temperature=0.0, max_tokens=sampling.max_tokens)
        if options.get("validation_sampling") is None:
            options["validation_sampling"] = {"greedy": greedy}
        super().__init__(policy, **options)
        if self.rewards is None:
            raise ValueError(f"{type(self).__name__} needs rewards: list at least one reward term")
        require_at_least(1, num_epochs=num_epochs, num_minibatches=num_minibatches, microbatch_size=microbatch_size)
        require_at_least(1, max_rollouts=max_rollouts, refresh_reference_every=refresh_reference_every)
        require_above(0, largest_kl=largest_kl)
        require_share(max_infrastructure_failures=max_infrastructure_failures)
        if objective.surrogate.reads_sampler_logprobs and (sampling.top_k or sampling.top_p < 1):
            raise ValueError(
                f"{type(objective.surrogate).__name__} compares the sampler's probabilities with the policy's, got "
                f"top_k={sampling.top_k} and top_p={sampling.top_p}, under which they are those of fewer tokens: leave "
                "both out"
            )
        self.sampling = sampling
        self.objective = objective
        self.num_epochs = num_epochs
        self.num_minibatches = num_minibatches
        self.microbatch_size = microbatch_size
        self.aggregate = aggregate
        self.largest_kl = largest_kl
        self.refresh_reference_every = refresh_reference_every
        self.max_rollouts = max_rollouts
        self.max_infrastructure_failures = max_infrastructure_failures
        self.rollout_step = 0
        self.is_on_policy = num_epochs == 1 and num_minibatches == 1  # of the rollout at hand
        self._rollouts_without_reward = 0
        self.reference: Reference | None = None
        self.micro_at_hand: Experience | None = None
        self.logprobs_at_hand: Tensor | None = None

    # -- what an algorithm says ----------------------------------------------------------------------------

    @abstractmethod
    def make_experience(self, rollout: Rollout, rewards: RewardOutput) -> Experience:
        """From judged completions to what an update eats. Called without gradients, policy in eval mode."""

    def minibatch_losses(self, micro: Experience, denominator: Tensor) -> Losses:
        """Losses of some rows of a minibatch, each with means per token to log.

        Each loss goes backward before the next one is asked for, so only one graph exists at a time.

        Args:
            micro: n rows.
            denominator: what losses are divided by, for all micro-batches and ranks of the update.
        """
        yield self.policy_loss(micro, denominator)

    def rows_to_train(self, row_mask: Tensor, advantages: Tensor) -> Tensor:
        """[N] bool: rows that can move a weight; the others skip the forward pass.

        Args:
            row_mask: [N] bool, rows that count in the loss.
            advantages: [N, T].
        """
        if self.objective.pulls_on_every_token:
            return row_mask
        return row_mask & (advantages != 0).any(-1)

    def algorithm_metrics(self, batch: Sequence[Problem], rollout: Rollout, experience: Experience) -> Means:
        """What this algorithm logs of a rollout, beside what every one logs; all ranks call it together.

        Args:
            batch: B problems that the rollout was asked for.
            rollout: N judged completions.
            experience: what was made of them.
        """
        return Means()

    # -- the road ------------------------------------------------------------------------------------------

    def training_step(self, batch: Sequence[Problem], batch_idx: int) -> None:
        """One rollout: collect, make experience, update."""
        started = time.perf_counter()
        with evaluating(self):  # dropout off for old, new and reference alike: the first ratio is 1
            with torch.no_grad():
                rollout = self.collect_training(batch)
                require_infrastructure(rollout, self.max_infrastructure_failures)
                rewards = self.reward(rollout)
                self.require_rewards(rewards)
                collected = time.perf_counter()
                self.is_on_policy = self.samples_on_policy(rollout.completions)
                experience = self.make_experience(rollout, rewards)
            means = self.update(experience)
        self.finish_rollout()
        means.merge(summarise(rollout, rewards))
        means.merge(degenerate_share(rollout, rewards))
        means.merge(self.algorithm_metrics(batch, rollout, experience))
        self.log_rollout(means, collected - started, time.perf_counter() - collected, rollout)

    def collect_training(self, batch: Sequence[Problem]) -> Rollout:
        """Sample completions for the batch's problems and run their programs."""
        return self.collect(batch, self.sampling, StreamKey(self.seed, "train", self.rollout_step))

    def reward(self, rollout: Rollout) -> RewardOutput:
        """Rewards of a rollout; rows that could not be judged are not valid."""
        assert self.rewards is not None
        return self.rewards(rollout.completions, rollout.judgements)

    def require_rewards(self, rewards: RewardOutput) -> None:
        """Stop when a reward term fails on everything, rollout after rollout: nothing would be learned.

        Raises:
            InfrastructureError: the last rollouts had not one row with a reward; the message has a reason.
        """
        if not len(rewards.valid):
            return
        self._rollouts_without_reward = 0 if rewards.valid.any() else self._rollouts_without_reward + 1
        if self._rollouts_without_reward >= MOST_ROLLOUTS_WITHOUT_REWARD:
            raise InfrastructureError(
                f"no completion of the last {self._rollouts_without_reward} rollouts got a reward; the last one said: "
                f"{next(iter(rewards.reasons.values()))}. Check whether that term's model, server or program works"
            )

    def update(self, experience: Experience) -> Means:
        """Several passes over the experience, each in random minibatches, each one optimizer step."""
        means = Means()
        trained = self.rows_to_train(experience.row_mask, experience.advantages).cpu()
        for epoch in range(self.num_epochs):
            for rows in self.minibatches(len(experience), epoch):
                if not self.update_once(experience, rows, trained, means):
                    return means
        return means

    def update_once(self, experience: Experience, rows: Tensor, trained: Tensor, means: Means) -> bool:
        """One optimizer step on some rows; none if no row of any rank can move a weight.

        Returns:
            False if the policy had moved too far before this update: then it is left out, on all ranks together.
        """
        denominator = self.denominator(experience.select(rows))
        of_update = Means()
        micros = self.micro_batches(experience, rows[trained[rows]])
        for micro in micros:
            self.micro_at_hand = micro
            for loss, metrics in self.minibatch_losses(micro, denominator):
                self.require_finite("loss", float(loss.detach()))
                of_update.add(metrics, count=float(micro.loss_mask.sum()))
                of_update.add_sum("loss", loss, 0)
                self.manual_backward(loss)
        if not micros:
            return True
        near = self.is_near(of_update)
        if near:
            of_update.add(self.optimizer_step())
        else:
            self.zero_grad()
        of_update.add_sum("loss", 0.0, 1)  # the sum of all that went backward, once per update
        self.micro_at_hand = self.logprobs_at_hand = None
        means.merge(of_update)
        return near

    def is_near(self, of_update: Means) -> bool:
        """Whether the policy is near enough to where it sampled for one more update, over all ranks."""
        if self.largest_kl is None:
            return True
        return of_update.reduce(self.device).get("policy/approximate_kl", 0.0) <= self.largest_kl

    def evidence(self) -> Evidence:
        """The last micro-batch: rows, rewards, advantages, log-probabilities then and now."""
        rows = evidence_of_experience(self.micro_at_hand) if self.micro_at_hand is not None else {}
        logprobs = {"logprobs": self.logprobs_at_hand.cpu()} if self.logprobs_at_hand is not None else {}
        return {"rollout": self.rollout_step} | rows | logprobs

    def policy_loss(self, micro: Experience, denominator: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The objective of some rows, reduced to one number, and means per token to log."""
        with_entropy = self.objective.entropy_coef != 0
        logprobs, entropy = self.policy(micro.completions, self.sampling.temperature, with_entropy)
        self.logprobs_at_hand = logprobs.detach()
        old_logprobs = self.logprobs_at_hand if self.is_on_policy else micro.old_logprobs
        assert old_logprobs is not None
        loss, metrics = self.objective.token_loss(logprobs, old_logprobs, entropy, micro)
        return aggregate(loss, micro.loss_mask, mode=self.aggregate, denominator=denominator), metrics

    def minibatches(self, num_rows: int, epoch: int) -> Iterator[Tensor]:
        """The rows of each minibatch. The order depends on (seed, rollout, epoch) alone."""
        key = StreamKey(self.seed, "minibatches", self.rollout_step)
        generator = torch.Generator().manual_seed(key.seed_of("epoch", epoch))
        order = torch.randperm(num_rows, generator=generator)
        yield from order.tensor_split(self.num_minibatches)

    def denominator(self, minibatch: Experience) -> Tensor:
        """What the losses of this update are divided by."""
        return self.count(minibatch.loss_mask)

    def count(self, mask: Tensor) -> Tensor:
        """What losses of these tokens of a minibatch are divided by: counted over micro-batches and ranks.

        Gradients are averaged over ranks afterwards, so each rank divides by its share of the total.
        """
        constant = self.sampling.max_tokens if self.aggregate == "sequence_sum_constant" else None
        local = loss_denominator(mask, self.aggregate, constant_tokens=constant)
        return sum_over_ranks(local) / world_size()

    def micro_batches(self, experience: Experience, rows: Tensor) -> list[Experience]:
        """The given rows in pieces, rows of similar length together, as many pieces on every rank."""
        pieces = self.pieces(experience.completions, rows)
        return [experience.select(piece).trim() if len(piece) else idle(experience) for piece in pieces]

    def pieces(self, completions: Completions, rows: Tensor) -> Iterator[Tensor]:
        """Row numbers in pieces; empty pieces where other ranks have more.

        Rows are sorted by tokens to read, or by groups where a policy computes prompts once and saves more by that.

        A rank with fewer rows must still take part in every forward and backward pass, or the others wait
        for ever.
        """
        size = self.microbatch_size or max(1, len(rows))
        wanted = max_over_ranks(-(-len(rows) // size), self.device)
        ordered = in_order(completions, rows, size, self.policy.shares_prompts)
        for i in range(wanted):
            yield ordered[i * size : (i + 1) * size]

    # -- log-probabilities that experience needs ---------------------------------------------------------------

    def stale_rows(self, completions: Completions) -> Tensor:
        """[N] bool: rows that older weights than the policy's sampled."""
        versions = completions.weights_versions or [self.policy.version] * len(completions)
        return torch.tensor([version != self.policy.version for version in versions], dtype=torch.bool)

    def samples_on_policy(self, completions: Completions) -> bool:
        """Whether a rollout feeds one update, and of the weights that sampled it: then every ratio is 1.

        The same on all ranks, which ask together.

        Raises:
            ValueError: older weights sampled, and from a filtered distribution, so that there is no ratio.
        """
        num_stale = int(self.stale_rows(completions).sum())
        if not self.engine.shares_weights:
            num_stale = max_over_ranks(num_stale, self.device)
        if num_stale and (self.sampling.top_k or self.sampling.top_p < 1):
            raise ValueError(
                f"{num_stale} rows were sampled by older weights, whose probabilities are compared with the policy's, "
                f"got top_k={self.sampling.top_k} and top_p={self.sampling.top_p}, under which they are those of "
                "fewer tokens: leave both out, or use an engine that samples with the present weights"
            )
        return not num_stale and self.num_epochs == 1 and self.num_minibatches == 1

    def logprobs_of(self, completions: Completions, rows: Tensor) -> Logprobs:
        """Log-probabilities under the policy as it is now and under the reference, each where something reads it.

        Args:
            completions: N rows.
            rows: [N] bool, those to score.
        """
        chosen = rows.nonzero()[:, 0].cpu()
        wants_old = self.objective.penalises_rewards or not self.is_on_policy
        old = self.old_logprobs(completions, chosen) if wants_old else None
        return Logprobs(old, self.score_reference(completions, chosen) if self.objective.kl_coef else None)

    def old_logprobs(self, completions: Completions, rows: Tensor) -> Tensor:
        """[N, T] log-probabilities of the given rows under the weights that sampled them.

        The policy still has those weights, or they are gone, and what the sampler reported is all there is.
        """
        stale = self.stale_rows(completions)
        logprobs = self.score(completions, rows[~stale[rows]])
        sampled = completions.sampler_logprobs.to(logprobs.dtype)
        return torch.where(stale.to(logprobs.device)[:, None], sampled, logprobs)

    def score_reference(self, completions: Completions, rows: Tensor) -> Tensor:
        """[N, T] log-probabilities of the given rows under the reference."""
        assert self.reference is not None
        return self.score(completions, rows, self.reference)

    def score(self, completions: Completions, rows: Tensor, scorer: Policy | Reference | None = None) -> Tensor:
        """[N, T] log-probabilities of the given rows under the policy or another, 0 in the others, in pieces."""
        scorer = self.policy if scorer is None else scorer
        logprobs = torch.zeros_like(completions.sampler_logprobs)
        for piece in self.pieces(completions, rows):
            part = completions.select(piece if len(piece) else [0]).trim()
            scored = scorer.logprobs(part, self.sampling.temperature)
            logprobs = logprobs.to(scored.dtype)  # also on a rank without rows: sums over ranks need one dtype
            if len(piece):
                logprobs[piece.to(logprobs.device), : scored.shape[1]] = scored
        return logprobs

    # -- counting and ending -------------------------------------------------------------------------------

    def configure_model(self) -> None:
        """Load the policy; keep its start as the reference if a KL term needs one."""
        super().configure_model()
        if self.objective.kl_coef:
            self.reference = self.policy.make_reference(will_refresh=self.refresh_reference_every is not None)

    def on_train_start(self) -> None:
        """A run that goes on from its own end has nothing to do."""
        if self.max_rollouts is not None and self.rollout_step >= self.max_rollouts:
            self.trainer.should_stop = True

    def on_train_epoch_start(self) -> None:
        """Show how far it is to the end."""
        self.shorten_bar(None if self.max_rollouts is None else self.max_rollouts - self.rollout_step)

    def finish_rollout(self) -> None:
        """Count the rollout; move the schedule and, when it is time, the reference."""
        self.step_schedule()
        self.rollout_step += 1
        every = self.refresh_reference_every
        if every is not None and self.reference is not None and self.rollout_step % every == 0:
            self.reference.refresh()
        if self.max_rollouts is not None and self.rollout_step >= self.max_rollouts:
            self.trainer.should_stop = True

    def log_rollout(self, means: Means, rollout_seconds: float, update_seconds: float, rollout: Rollout) -> None:
        """Write the rollout's metrics; the x-axis of every curve is the number of rollouts."""
        tokens = float(rollout.completions.completion_mask.sum())
        means.add({"time/rollout_seconds": rollout_seconds, "time/update_seconds": update_seconds})
        values = means.reduce(self.device)
        values["time/tokens_per_second"] = tokens * world_size() / (rollout_seconds + update_seconds)
        optimizer: Any = self.optimizers()
        values["optimizer/learning_rate"] = optimizer.param_groups[0]["lr"]
        self.log_dict(values, batch_size=1)
        self.step_plateau(values)
        shown = {"reward/mean": "reward", "execution/pass_rate": "pass", "time/tokens_per_second": "tok/s"}
        for name, short in shown.items():
            if name in values:
                self.log(short, values[name], prog_bar=True, logger=False, batch_size=1)

    def setup(self, stage: str) -> None:
        """Check whether every reward term can score every training problem, before the first rollout."""
        super().setup(stage)
        datamodule = getattr(self.trainer, "datamodule", None)
        if stage == "fit" and datamodule is not None and self.rewards is not None:
            self.require_rows(datamodule)
            for problem in datamodule.problems("train"):
                self.rewards.check_problem(problem)

    def require_rows(self, task: Any) -> None:
        """Check whether a rollout has a row for each minibatch.

        Raises:
            ValueError: it has fewer, and some updates would be made of nothing.
        """
        batch_size = getattr(task, "batch_size", None)
        rows = None if batch_size is None else batch_size * self.sampling.num_samples
        if rows is not None and self.num_minibatches > rows:
            raise ValueError(
                f"num_minibatches is {self.num_minibatches}, and a rollout has {rows} rows on each rank (batch_size "
                f"{batch_size}, num_samples {self.sampling.num_samples}): lower it, or raise batch_size"
            )

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Rollouts are counted here: Lightning counts updates."""
        super().on_save_checkpoint(checkpoint)
        checkpoint["rollout_step"] = self.rollout_step

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on counting.

        Raises:
            ValueError: the run that is to go on was of an algorithm without rollouts.
        """
        if self.is_fitting and "rollout_step" not in checkpoint:
            raise ValueError(
                f"the checkpoint counts no rollouts, so {type(self).__name__} cannot go on from it: export it "
                "(lit-rl export) and start from the folder, as model.policy.model"
            )
        super().on_load_checkpoint(checkpoint)
        self.rollout_step = checkpoint.get("rollout_step", 0)


def degenerate_share(rollout: Rollout, rewards: RewardOutput) -> Means:
    """The share of groups whose judged rows all have the same reward: they teach nothing."""
    means = Means()
    groups = rollout.completions.groups().values()
    if any(len(rows) > 1 for rows in groups):
        pairs = zip(rewards.rewards.tolist(), rewards.valid.tolist(), strict=True)
        judged = [reward if valid else None for reward, valid in pairs]
        unequal = [len({judged[row] for row in rows} - {None}) > 1 for rows in groups]
        means.add_sum("group/zero_advantage_fraction", unequal.count(False), len(unequal))
    return means


def idle(experience: Experience) -> Experience:
    """One row that counts for nothing: what a rank without rows sends through the model."""
    row = experience.select([0]).trim()
    return replace(row, row_mask=torch.zeros_like(row.row_mask))
