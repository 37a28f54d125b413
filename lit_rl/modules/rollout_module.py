"""The road that GRPO, PPO and REINFORCE share: collect, make experience, update.

One training step is one rollout: every problem of the batch is sampled ``G`` times, every program is run,
and the policy is updated ``num_epochs * num_minibatches`` times on what happened.

Letters: B problems of one rank, G completions per problem, N = B * G rows, T completion tokens.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Unpack

import torch
from torch import Tensor

from lit_rl.bounds import require_above, require_at_least, require_share
from lit_rl.functional.masking import AggregateMode, aggregate
from lit_rl.kinds import require_kind
from lit_rl.models.policy import Policy
from lit_rl.models.streams import StreamKey
from lit_rl.modules.ahead_module import AheadModule, require_staleness
from lit_rl.modules.at_hand import AtHand
from lit_rl.modules.base import LARGEST_FAILED_SHARE
from lit_rl.modules.counted_module import degenerate_share
from lit_rl.modules.finite import Evidence
from lit_rl.modules.logprobs_module import require_unfiltered
from lit_rl.modules.measures import measure, time_split
from lit_rl.modules.objective import APPROXIMATE_KL, Objective
from lit_rl.modules.options import PolicyOptions, require_known
from lit_rl.modules.resampling import tell_loader
from lit_rl.modules.splits import denominator_over_ranks, idle, minibatches
from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import FinishedRollout, Rollout, require_infrastructure, tell_watchers
from lit_rl.summary import summarise
from lit_rl.training.modes import evaluating
from lit_rl.training.ranks import Means, max_over_ranks
from lit_rl.types import Completions, Experience, Problem, Sampling

Losses = Iterator[tuple[Tensor, dict[str, Tensor]]]


class RolloutModule(AheadModule):
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
        max_tokens_per_microbatch: the same by tokens that go through the model, padding included and a prompt that rows
            share counted once; a row with more goes alone. Beside ``microbatch_size`` both hold.
        aggregate: how token losses become one number, see :func:`lit_rl.functional.masking.aggregate`.
        largest_kl: end a rollout's updates before one that would start further (nats per token, mean over all
            ranks) from where the policy sampled; ``None`` never does.
        refresh_reference_every: make the policy the new reference every this many rollouts; ``None`` never does.
        max_rollouts: the run ends after this many rollouts; ``None`` leaves it to the trainer.
        max_infrastructure_failures: largest share of a rollout's programs that may fail for our own reasons; a
            single one may, unless this is 0.
        staleness: 1 samples the next rollout before this one is trained on, while this one's programs run, with the
            weights of before: for slow programs. It needs a correction in the objective. 0 is on-policy.
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
        max_tokens_per_microbatch: int | None = None,
        aggregate: AggregateMode = "token_mean",
        largest_kl: float | None = None,
        refresh_reference_every: int | None = None,
        max_rollouts: int | None = None,
        max_infrastructure_failures: float = LARGEST_FAILED_SHARE,
        staleness: int = 0,
        **options: Unpack[PolicyOptions],
    ) -> None:
        require_known(self, options, PolicyOptions)
        require_kind(Sampling, "Sampling(num_samples=8)", sampling=sampling)
        require_kind(Objective, "Objective(kl_coef=0.01)", objective=objective)
        if options.get("validation_sampling") is None:
            options["validation_sampling"] = {"greedy": Sampling(temperature=0.0, max_tokens=sampling.max_tokens)}
        super().__init__(policy, **options)
        if self.rewards is None:
            raise ValueError(f"{type(self).__name__} needs rewards: list at least one reward term")
        require_at_least(1, num_epochs=num_epochs, num_minibatches=num_minibatches, microbatch_size=microbatch_size)
        require_at_least(1, max_tokens_per_microbatch=max_tokens_per_microbatch)
        require_at_least(1, max_rollouts=max_rollouts, refresh_reference_every=refresh_reference_every)
        require_above(0, largest_kl=largest_kl)
        require_share(max_infrastructure_failures=max_infrastructure_failures)
        require_staleness(staleness, objective)
        if name := objective.compares_with_sampler:
            require_unfiltered(sampling, f"{name} compares the sampler's probabilities with the policy's")
        self.sampling, self.objective = sampling, objective
        self.num_epochs, self.num_minibatches, self.microbatch_size = num_epochs, num_minibatches, microbatch_size
        self.max_tokens_per_microbatch = max_tokens_per_microbatch
        self.aggregate, self.largest_kl = aggregate, largest_kl
        self.max_rollouts, self.refresh_reference_every = max_rollouts, refresh_reference_every
        self.max_infrastructure_failures, self.staleness = max_infrastructure_failures, staleness
        self.is_on_policy = num_epochs == 1 and num_minibatches == 1
        self.at_hand = AtHand()

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
        """What this algorithm logs of B problems' rollout beside what every one logs; all ranks call it together."""
        return Means()

    # -- the road ------------------------------------------------------------------------------------------

    def training_step(self, batch: Sequence[Problem], batch_idx: int) -> None:
        """One rollout: collect, make experience, update."""
        started = time.perf_counter()
        self.progress.begin("training")
        with evaluating(self):  # dropout off for old, new and reference alike: the first ratio is 1
            with torch.no_grad():
                rollout = self.collect_training(batch)
                require_infrastructure(rollout, self.max_infrastructure_failures)
                self.progress.enter("rewarding")
                rewards = self.reward(rollout)
                self.require_rewards(rewards)
                collected = time.perf_counter()
                self.progress.enter("preparing")
                self.is_on_policy = self.samples_on_policy(rollout.completions)
                before = self.age_of(rollout.completions)
                experience = self.make_experience(rollout, rewards)
                before.merge(self.entropy_of_some(rollout.completions))
            self.progress.enter("updating")
            means = self.update(experience)
        seconds = self.progress.end()
        self.finish_rollout()
        means.merge(summarise(rollout, rewards))
        means.merge(degenerate_share(rollout, rewards))
        means.merge(self.algorithm_metrics(batch, rollout, experience))
        means.merge(measure(rollout, rewards, experience, self.at_hand.found))
        means.merge(self.mismatch_of(rollout.completions))
        means.merge(time_split(seconds, self.progress))
        means.merge(before)
        metrics = self.log_rollout(means, collected - started, time.perf_counter() - collected, rollout)
        tell_watchers(self.trainer, self, FinishedRollout(rollout, rewards, experience, metrics))
        tell_loader(self.trainer.train_dataloader, rollout)

    def mismatch_of(self, completions: Completions) -> Means:
        """Distance of sampler and trainer where the update's forward passes, which tell it for free, did not."""
        if max_over_ranks(int("logprobs" in self.at_hand.found), self.device):
            return Means()
        if self.engine.shares_weights:  # nothing was trained, so the weights are still those that sampled
            self.compare_sampler(completions, self.sampling)
        return self.mismatch

    def reward(self, rollout: Rollout) -> RewardOutput:
        """Rewards of a rollout; rows that could not be judged are not valid."""
        assert self.rewards is not None
        return self.rewards(rollout.completions, rollout.judgements)

    def update(self, experience: Experience) -> Means:
        """Several passes over the experience, each in random minibatches, each one optimizer step."""
        means = Means()
        trained = self.rows_to_train(experience.row_mask, experience.advantages).cpu()
        self.at_hand = AtHand()
        self.progress.updates = self.num_epochs * self.num_minibatches
        for epoch in range(self.num_epochs):
            seed = StreamKey(self.seed, "minibatches", self.rollout_step).seed_of("epoch", epoch)
            for rows in minibatches(len(experience), self.num_minibatches, seed):
                if not self.update_once(experience, rows, trained, means):
                    return means
                self.progress.update += 1
        return means

    def update_once(self, experience: Experience, rows: Tensor, trained: Tensor, means: Means) -> bool:
        """One optimizer step on some rows; none if no row of any rank can move a weight.

        Returns:
            False if the policy had moved too far before this update: then it is left out, on all ranks together.
        """
        denominator = self.denominator(experience.select(rows))
        of_update = Means()
        pieces = list(self.pieces(experience.completions, rows[trained[rows]]))
        self.progress.part, self.progress.parts = 0, len(pieces)
        for piece in pieces:
            micro = experience.select(piece).trim() if len(piece) else idle(experience)
            self.at_hand.take(micro)
            for loss, metrics in self.minibatch_losses(micro, denominator):
                self.require_finite("loss", float(loss.detach()))
                of_update.add(metrics, count=float(micro.loss_mask.sum()))
                of_update.add_sum("loss", loss, 0)
                self.manual_backward(loss)
            self.at_hand.keep(piece, like=experience.advantages)
            self.progress.part += 1
        if not pieces:
            return True
        near = self.largest_kl is None or of_update.reduce(self.device).get(APPROXIMATE_KL, 0.0) <= self.largest_kl
        if near:
            of_update.add(self.optimizer_step())
        else:
            self.zero_grad()
        of_update.add_sum("loss", 0.0, 1)  # the sum of all that went backward, once per update
        self.at_hand.let_go()
        means.merge(of_update)
        return near

    def evidence(self) -> Evidence:
        """The last micro-batch: rows, rewards, advantages, log-probabilities then and now."""
        return {"rollout": self.rollout_step} | self.at_hand.evidence()

    def policy_loss(self, micro: Experience, denominator: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The objective of some rows, reduced to one number, and means per token to log."""
        with_entropy = self.objective.entropy_coef != 0
        logprobs, entropy = self.policy(micro.completions, self.sampling.temperature, with_entropy)
        self.at_hand.note(logprobs, entropy)
        old_logprobs = logprobs.detach() if self.is_on_policy else micro.old_logprobs
        assert old_logprobs is not None
        loss, metrics = self.objective.token_loss(logprobs, old_logprobs, entropy, micro)
        return aggregate(loss, micro.loss_mask, mode=self.aggregate, denominator=denominator), metrics

    def denominator(self, minibatch: Experience) -> Tensor:
        """What the losses of this update are divided by."""
        return self.count(minibatch.loss_mask)

    def count(self, mask: Tensor) -> Tensor:
        """What losses of these tokens of a minibatch are divided by: counted over micro-batches and ranks."""
        return denominator_over_ranks(mask, self.aggregate, self.sampling.max_tokens)
