"""The loop that GRPO, PPO and REINFORCE share: collect, make experience, update.

One training step is one rollout: every problem of the batch is sampled ``G`` times, every program is run,
and the policy is updated ``epochs * minibatches`` times on what happened.

Letters: B problems of one rank, G completions per problem, N = B * G rows, T completion tokens.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, TypedDict

import torch
from lightning_utilities.core.rank_zero import rank_zero_info, rank_zero_warn
from torch import Tensor

from lit_rl.errors import UsageError
from lit_rl.execution.checks import UnitTests
from lit_rl.execution.interface import ProgramRunner
from lit_rl.math.advantages import RowAdvantages
from lit_rl.math.masking import aggregate, loss_denominator
from lit_rl.models.policy import Policy
from lit_rl.models.reference import NoGradScorer
from lit_rl.models.sampling import RandomKey
from lit_rl.modules.minibatches import (
    LogprobComputer,
    Minibatch,
    equalize_microbatch_count,
    make_minibatches,
    stale_row_mask,
    zero_weight_row,
)
from lit_rl.modules.objective import APPROXIMATE_KL, KLPlacement, Objective, OldAndReferenceLogprobs
from lit_rl.modules.policy_module import X_AXIS, PolicyModule
from lit_rl.modules.settings import EvaluationConfig, UpdateConfig
from lit_rl.modules.setup_check import task_of_trainer
from lit_rl.modules.update_trace import Snapshot, UpdateTrace
from lit_rl.reports.summary import add_entropy_estimate, add_resampled_share, metrics_of_rollout
from lit_rl.rewards.composite import Composite
from lit_rl.rewards.term import RewardOutput, RewardTerm
from lit_rl.rollout import (
    FinishedRollout,
    InfrastructureError,
    Rollout,
    RolloutConfig,
    RunnerFactory,
)
from lit_rl.rollout.sampler_check import add_effective_sample_size
from lit_rl.signature_check import PositiveInt
from lit_rl.training.progress import StepCounter
from lit_rl.training.ranks import Means, eval_mode, max_over_ranks, sum_over_ranks, world_size
from lit_rl.types import Completions, Experience, Problem, Sampling

Losses = Iterator[tuple[Tensor, dict[str, Tensor]]]
MAX_ROLLOUTS_WITHOUT_REWARD = 5
"""A reward term may fail on all of one small rollout; this many failures in a row mean that the term is broken."""


class RolloutModuleBaseOptions(TypedDict, total=False):
    """Arguments of :class:`RolloutModule` that an algorithm passes on if it has its own defaults for the other ones."""

    sandbox: RunnerFactory | ProgramRunner | None
    collect: RolloutConfig
    update: UpdateConfig
    evaluate: EvaluationConfig
    max_rollouts: PositiveInt | None
    seed: int | None


class RolloutModuleOptions(RolloutModuleBaseOptions, total=False):
    """Arguments of :class:`RolloutModule` that an algorithm passes on."""

    sampling: Sampling
    objective: Objective


class RolloutModule(PolicyModule):
    """Train on executed programs; a subclass computes the advantages.

    A subclass implements :meth:`make_experience`, and :meth:`microbatch_losses` if it trains more than the policy.

    Args:
        policy: the policy to train.
        rewards: reward terms.
        sandbox: runs programs; or a function that builds the sandbox when a run starts.
        sampling: sampling settings of training; ``num_samples`` is the group size G.
        objective: the policy's loss.
        collect: how rollouts are collected.
        update: optimizer steps on a rollout.
        evaluate: sampling of validation, test and predict.
        max_rollouts: the run ends after this many rollouts; ``None`` leaves it to the trainer.
        seed: seed of every random stream of the run.
    """

    samples_to_train = True
    kl_in: ClassVar[KLPlacement] = "loss"
    """Place of the KL to the reference unless the objective sets one."""
    sampling: Sampling
    update: UpdateConfig
    reads_reference = False
    """True if something besides the objective's KL reads the reference."""

    def __init__(
        self,
        policy: Policy,
        rewards: list[RewardTerm] | Composite,
        *,
        sandbox: RunnerFactory | ProgramRunner | None = None,
        sampling: Sampling = Sampling(num_samples=8),  # noqa: B008  # frozen
        objective: Objective = Objective(),  # noqa: B008
        collect: RolloutConfig = RolloutConfig(),  # noqa: B008
        update: UpdateConfig = UpdateConfig(),  # noqa: B008
        evaluate: EvaluationConfig = EvaluationConfig(),  # noqa: B008
        max_rollouts: PositiveInt | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            policy,
            rewards=rewards,
            sandbox=sandbox,
            collect=collect,
            update=update,
            evaluate=evaluate,
            clock=StepCounter("rollout", max_rollouts),
            seed=seed,
        )
        # With a filter, the sampler's probabilities are spread over fewer tokens.
        off_policy = bool(collect.staleness) or not (self.collector.engine.shares_weights or sampling.filters)
        self._chose_correction = objective.correction == "auto" and off_policy
        objective = objective.with_defaults(self.kl_in, is_off_policy=off_policy)
        objective.refuse_wrong_aggregate(update.aggregate)
        if off_policy:
            objective.refuse_uncorrected_kl_penalty()
        if fault := _sampling_settings_fault(collect, objective, sampling):
            raise UsageError(fault)
        if sampling.filters:
            rank_zero_warn(
                "the training sampler uses top_k or top_p, but gradients are of the unfiltered policy: gradients are "
                "biased and entropy falls; leave top_k and top_p out of model.sampling (model.evaluate may have them)"
            )
        self.sampling, self.objective = sampling, objective
        self.logprobs = LogprobComputer(policy, objective, update, sampling)
        self.on_policy = update.steps_per_rollout == 1
        self.dealt: tuple[Minibatch, ...] = ()  # of the current rollout
        self.trace = UpdateTrace()
        self._without_reward = 0  # rollouts in a row
        self._compared: RowAdvantages | None = None

    @property
    def reference(self) -> NoGradScorer | None:
        """The policy that the KL is measured to, by default where training began; ``None`` if nothing reads it."""
        return self.logprobs.reference

    @property
    def max_rollouts(self) -> int | None:
        """The run ends after this many rollouts; a larger number lets another fit continue."""
        return self.clock.limit

    @max_rollouts.setter
    def max_rollouts(self, limit: int | None) -> None:
        self.clock.limit = limit

    # -- what an algorithm says ----------------------------------------------------------------------------

    @abstractmethod
    def make_experience(self, rollout: Rollout, rewards: RewardOutput) -> Experience:
        """Make experience for updates from judged completions. Called without gradients, policy in eval mode."""

    def microbatch_losses(self, micro: Experience, denominator: Tensor) -> Losses:
        """Yield the losses of some rows of a minibatch, each with means per token to log.

        Each loss goes backward before the next one is asked for, so only one graph exists at a time.

        Args:
            micro: n rows.
            denominator: divisor of the losses, for all micro-batches and ranks of the update.
        """
        yield self.policy_loss(micro, denominator)

    def rows_to_train(self, row_mask: Tensor, advantages: Tensor) -> Tensor:
        """Return [N] bool: True for rows that count in the loss and can move a weight; others skip the forward pass."""
        if self.objective.affects_every_token:
            return row_mask
        return row_mask & (advantages != 0).any(-1)

    def algorithm_metrics(self, batch: Sequence[Problem], rollout: Rollout, experience: Experience) -> Means:
        """Return extra metrics of this algorithm for the rollout of B problems; all ranks call this together."""
        return Means()

    def register_baseline(self, compared: RowAdvantages, argument: str) -> None:
        """Register the baseline, which sums over ranks and is saved in checkpoints."""
        compared.require_enough_samples(self.sampling.num_samples, argument)
        compared.sum_over_ranks = sum_over_ranks
        self._compared = compared

    # -- one rollout ---------------------------------------------------------------------------------------

    def training_step(self, batch: Sequence[Problem], batch_idx: int) -> None:
        started = time.perf_counter()
        self.progress.begin("training")
        self.dealt = ()
        with eval_mode(self):  # dropout off for old, new and reference alike: the first ratio is 1
            with torch.no_grad():
                rollout = self.collect(batch)
                self.collector.refuse_too_many_unjudged(rollout)
                self.progress.enter_phase("rewarding")
                rewards = self.compute_rewards(rollout)
                collected = time.perf_counter()
                self.progress.enter_phase("preparing")
                before = self.measure_age_and_entropy(rollout.completions)
                experience = self.make_experience(rollout, rewards)
            self.progress.enter_phase("updating")
            means = self.learn_from(experience)
        seconds = self.progress.end_and_take_seconds()
        self.step_schedule()
        self.clock.count += 1
        every = self.update.refresh_reference_every
        if every is not None and self.reference is not None and self.clock.count % every == 0:
            self.reference.refresh_from_policy(self.update.refresh_reference_share)
        self.trainer.should_stop |= self.clock.is_over
        means.merge(before)
        means.merge(metrics_of_rollout(rollout, rewards, experience, self.trace.recorded, seconds, self.progress))
        metrics = self.log_rollout(means, batch, rollout, experience, collected - started, collected)
        callbacks: list[Any] = self.trainer.callbacks  # type: ignore[attr-defined]  # set by a connector
        for callback in callbacks:
            if hasattr(callback, "on_rollout_end"):
                callback.on_rollout_end(self.trainer, self, FinishedRollout(rollout, rewards, experience, metrics))

    def collect(self, batch: Sequence[Problem]) -> Rollout:
        """Collect N judged rows for B problems."""
        loader: Any = self.trainer.train_dataloader
        return self.collector.collect_training(
            batch,
            self.sampling,
            self.clock.count,
            next_problems=self.next_problems,
            others=lambda: loader.problems,
        )

    def compute_rewards(self, rollout: Rollout) -> RewardOutput:
        """Compute a rollout's rewards; a row in which a weighted term has no value is not valid and trains nothing.

        After an infrastructure failure, terms that read verdicts have no value: the row has advantage 0 and leaves
        baseline, loss and denominator.
        """
        assert self.rewards is not None
        rewards = self.rewards(rollout.completions, rollout.judgements)
        if len(rewards.valid):
            self._without_reward = 0 if rewards.valid.any() else self._without_reward + 1
        if self._without_reward >= MAX_ROLLOUTS_WITHOUT_REWARD:
            raise InfrastructureError(
                f"no completion of the last {self._without_reward} rollouts got a reward; the last reason: "
                f"{next(iter(rewards.reasons.values()))}. Check the model, server or program of that reward term"
            )
        return rewards

    def logprobs_of(self, completions: Completions, rows: Tensor) -> OldAndReferenceLogprobs:
        """Return log-probabilities under old policy and reference, each ``None`` if nothing reads them.

        This deals the rollout's rows into the minibatches and micro-batches that the updates use, and computes in
        these. With a single update per rollout, the old policy's log-probabilities are the update's own: its pass is
        left out, unless the KL is in the reward. Stale rows without a correction have the sampler's log-probabilities.
        """
        self.dealt = self.make_minibatches(completions, rows)
        return self.logprobs.compute_old_and_reference(completions, self.dealt, on_policy=self.on_policy)

    def make_minibatches(self, completions: Completions, rows: Tensor) -> tuple[Minibatch, ...]:
        """Return the minibatches of this rollout, with micro-batches of the rows that go through the model."""
        seed = RandomKey(self.seed, "minibatches", self.clock.count).seed_of_stream("epoch", 0)
        return make_minibatches(completions, rows.cpu(), self.update, self.policy.shares_prompts, seed)

    def next_problems(self) -> tuple[Problem, ...] | None:
        """Return the problems of the next rollout; ``None`` if this rollout is the last.

        A limit that cannot be foreseen, such as a time limit, may leave a rollout unused. If updates are skipped, a run
        with ``max_steps`` has more rollouts than predicted here; the additional ones are not sampled ahead.
        """
        trainer: Any = self.trainer
        if self.clock.steps_left is not None and self.clock.steps_left <= 1:
            return None
        if trainer.max_steps != -1 and trainer.global_step + self.update.steps_per_rollout >= trainer.max_steps:
            return None
        epoch, problems = trainer.train_dataloader.peek_next_batch(trainer.num_training_batches)
        ends = trainer.max_epochs not in (None, -1) and epoch >= trainer.max_epochs
        return None if ends else problems

    # -- the update ----------------------------------------------------------------------------------------

    def learn_from(self, experience: Experience) -> Means:
        """Pass several times over the rollout's minibatches, in changing order; each makes one optimizer step."""
        means = Means()
        trained = self.rows_to_train(experience.row_mask, experience.advantages).cpu()
        dealt = self.dealt or self.make_minibatches(experience.completions, trained)
        self.trace.recorded = {}
        self.progress.updates = self.update.steps_per_rollout
        for epoch in range(self.update.epochs):
            order = list(range(self.update.minibatches))  # as they were dealt, in later epochs at random
            if epoch:  # the same on all ranks
                seed = RandomKey(self.seed, "minibatches", self.clock.count).seed_of_stream("epoch", epoch)
                order = torch.randperm(len(order), generator=torch.Generator().manual_seed(seed)).tolist()
            for number in order:
                if not self.update_once(experience, dealt[number], trained, means):
                    return means
                self.progress.update += 1
        return means

    def update_once(self, experience: Experience, minibatch: Minibatch, trained: Tensor, means: Means) -> bool:
        """Take one optimizer step on a minibatch, or none if no row of any rank can move a weight.

        A loss or gradient norm that is not finite ends the run before the step, whatever the settings:
        ``PolicyModule.require_finite`` raises ``NotFiniteError``, for a loss on one rank, for a gradient on all ranks,
        with the evidence in a file.

        Returns:
            False if the KL already exceeds ``max_kl``: no rank takes this step, and the rollout gets no more updates.
        """
        microbatches = [rows for rows in minibatch.microbatches if trained[rows].any()]
        microbatches = equalize_microbatch_count(microbatches, experience.advantages.device)
        self.progress.part, self.progress.parts = 0, len(microbatches)
        if not microbatches:
            return True
        denominator = self.update_denominator(experience.select(minibatch.rows))
        of_update = Means()
        for number, rows in enumerate(microbatches):
            micro = experience.select(rows).trim() if len(rows) else zero_weight_row(experience)
            self.trace.begin_microbatch(micro)
            for loss, metrics in self.microbatch_losses(micro, denominator):
                self.require_finite("loss", float(loss.detach()))
                of_update.add(metrics, count=micro.loss_mask.sum())
                of_update.add_sum("loss", loss, 0)
                self.manual_backward(loss, last=number == len(microbatches) - 1)
            self.trace.store_in_rollout(rows, like=experience.advantages)
            self.progress.part += 1
        max_kl = self.update.max_kl
        near = max_kl is None or of_update.reduce(self.device).get(APPROXIMATE_KL, 0.0) <= max_kl
        if near:
            of_update.add(self.optimizer_step())
        else:
            optimizer: Any = self.optimizers()
            optimizer.zero_grad()
        of_update.add_sum("loss", 0.0, 1)  # counts one: the mean is over updates, each a sum of micro-batches
        self.trace.drop_microbatch()
        means.merge(of_update)
        return near

    def policy_loss(self, micro: Experience, denominator: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the objective of some rows, reduced to one number, and means per token to log."""
        logprobs, entropy = self.policy(micro.completions, self.sampling.temperature, self.objective.has_entropy_bonus)
        loss, metrics = self.token_losses_and_metrics(micro, logprobs, entropy)
        return aggregate(loss, micro.loss_mask, mode=self.update.aggregate, denominator=denominator), metrics

    def token_losses_and_metrics(
        self, micro: Experience, logprobs: Tensor, entropy: Tensor | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the objective's losses [n, T], from the policy's forward pass, and means per token to log."""
        self.trace.record_forward_pass(logprobs, entropy)
        old_logprobs = logprobs.detach() if self.on_policy else micro.old_logprobs
        assert old_logprobs is not None
        return self.objective.token_losses_and_metrics(logprobs, old_logprobs, entropy, micro)

    def update_denominator(self, minibatch: Experience) -> Tensor:
        """Return this rank's divisor of the update's losses, which covers the whole minibatch.

        By default (``token_mean``) it counts the tokens in the loss mask, rows of advantage 0 included; the
        ``sequence_`` modes count rows, ``sequence_sum_constant`` rows times ``max_tokens``. Any split into
        micro-batches and ranks gives the same divisor. Gradients are averaged over ranks afterwards, so each rank
        divides by its share of the total.
        """
        mask, limit = minibatch.loss_mask, self.sampling.max_tokens
        return sum_over_ranks(loss_denominator(mask, self.update.aggregate, constant_tokens=limit)) / world_size()

    def crash_snapshot(self) -> Snapshot:
        return {"rollout": self.clock.count} | self.trace.crash_snapshot()

    # -- metrics -------------------------------------------------------------------------------------------

    def measure_age_and_entropy(self, completions: Completions) -> Means:
        """Set :attr:`on_policy`; measure the age of the sampler's weights, and the entropy of some rows."""
        may_be_stale = bool(self.collector.settings.staleness) or not self.collector.engine.shares_weights
        num_stale = int(stale_row_mask(completions, self.policy.version).sum())
        if may_be_stale:
            num_stale = max_over_ranks(num_stale, self.policy.device)
        if num_stale and self.sampling.filters:
            raise UsageError(
                f"{num_stale} rows were sampled by older weights, so their probabilities must be compared with "
                f"the policy's, but {self.sampling.filters}: leave out top_k and top_p, or use an "
                "engine that samples with the present weights"
            )
        # In a single update of the weights that sampled, every ratio is 1. With a correction, ratios begin at the
        # present weights, whichever weights sampled.
        self.on_policy = self.update.steps_per_rollout == 1 and (not num_stale or self.objective.correction is not None)
        means = Means()
        if may_be_stale and completions.weights_versions:  # engines may not report versions
            ages = [self.policy.version - sampled_by for sampled_by in completions.weights_versions]
            means.add_sum("policy/updates_behind", sum(ages), len(ages))
        if not self.objective.has_entropy_bonus:  # an entropy bonus computes it anyway
            key = RandomKey(self.seed, "entropy", self.clock.count)
            add_entropy_estimate(means, self.policy, completions, self.sampling.temperature, key)
        return means

    def log_rollout(
        self,
        means: Means,
        batch: Sequence[Problem],
        rollout: Rollout,
        experience: Experience,
        rollout_seconds: float,
        collected: float,
    ) -> dict[str, float]:
        """Add the metrics that only the module knows, log all of the rollout's metrics, and return them.

        The x-axis of every curve is the number of rollouts.
        """
        means.merge(self.algorithm_metrics(batch, rollout, experience))
        if self.collector.settings.max_resamples:
            add_resampled_share(means, batch, rollout)
        if not max_over_ranks(int("logprobs" in self.trace.recorded), self.device):
            if self.collector.engine.shares_weights:  # nothing was trained, so the weights are still those that sampled
                self.collector.check_sampler_gap(rollout.completions, self.sampling)
            means.merge(self.collector.gap)
        update_seconds = time.perf_counter() - collected
        tokens = float(rollout.completions.completion_mask.sum())
        means.add({"time/rollout_seconds": rollout_seconds, "time/update_seconds": update_seconds})
        values = add_effective_sample_size(means.reduce(self.device))
        values["time/tokens_per_second"] = tokens * world_size() / (rollout_seconds + update_seconds)
        optimizer: Any = self.optimizers()
        values["optimizer/learning_rate"] = optimizer.param_groups[0]["lr"]
        # Lightning would repeat, until the end of the epoch, metrics that only earlier rollouts logged; a run that was
        # resumed in between would not know them. There is no public API for this.
        for key, result in (self.trainer._results or {}).items():
            if key.removeprefix("training_step.") not in {*values, X_AXIS}:
                result.reset()
        self.log_dict(values, batch_size=1)
        self.log(X_AXIS, float(self.clock.count), batch_size=1)
        self.step_plateau_schedule(values)
        shown = {"reward/mean": "reward", "execution/pass_rate": "pass", "time/tokens_per_second": "tok/s"}
        for name, short in shown.items():
            if name in values:
                self.log(short, values[name], prog_bar=True, logger=False, batch_size=1)
        return values

    # -- life of a run -------------------------------------------------------------------------------------

    def on_fit_start(self) -> None:
        """Report the default correction for a sampler with other weights, if the user did not set one."""
        super().on_fit_start()
        if self._chose_correction and self.objective.correction is not None:
            rank_zero_info(
                f"samples may come from older or other weights, so losses are weighted by "
                f"{self.objective.correction}; objective.correction: null switches this off"
            )

    def setup(self, stage: str) -> None:
        super().setup(stage)
        self.collector.every_case = self.rewards is None or self.rewards.needs_every_case
        task = task_of_trainer(self.trainer)
        if stage == "fit" and task is not None and self.rewards is not None:
            rows = task.batch_size * self.sampling.num_samples
            if self.update.minibatches > rows:
                raise UsageError(
                    f"update.minibatches is {self.update.minibatches}, but a rollout has {rows} rows on each rank "
                    f"(batch_size {task.batch_size}, num_samples {self.sampling.num_samples}): lower "
                    "update.minibatches, or raise batch_size"
                )
            for problem in task.problems("train"):
                self.rewards.check_problem(problem)
            if any(isinstance(problem.check, UnitTests) for problem in task.problems("train")):
                rank_zero_info(
                    f"{task.name} has UnitTests, which share a process with the program, so that a policy can learn to "
                    "forge a pass: train on StdioTests or CallTests"
                )

    def load_models(self) -> None:
        super().load_models()
        self.logprobs.policy = self.policy

    def configure_model(self) -> None:
        super().configure_model()
        positions, wanted = self.policy.codec.max_positions, self.sampling.max_tokens
        if wanted >= positions:
            rank_zero_warn(
                f"sampling.max_tokens is {wanted}, but the policy has {positions} positions, which include the prompt: "
                "lower sampling.max_tokens"
            )
        self.logprobs.create_reference_if_needed(needed=self.reads_reference)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)  # clock, weights' version, threads; Checkpointing adds random generators
        if self._compared is not None:
            checkpoint["baseline"] = self._compared.state_dict()
        self.collector.save_pending_rows(checkpoint, self.sampling, self.clock.count)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_load_checkpoint(checkpoint)
        if self._compared is not None and "baseline" in checkpoint:
            self._compared.load_state_dict(checkpoint["baseline"])
        self.collector.load_pending_rows(checkpoint, resumes=self.is_fitting)


def _sampling_settings_fault(collect: RolloutConfig, objective: Objective, sampling: Sampling) -> str:
    reader = objective.sampler_logprobs_reader_name
    if collect.staleness and not reader:
        return (
            "collect.staleness=1 trains on off-policy rows, which need importance weights: "
            "set objective.correction, such as lit_rl.math.losses.TruncatedWeights, or staleness to 0"
        )
    if collect.max_resamples and sampling.num_samples < 2:
        return (
            f"max_resamples={collect.max_resamples} compares completions of a group, got num_samples="
            f"{sampling.num_samples}: set num_samples to 2 or more, or max_resamples to 0"
        )
    if reader and sampling.filters:
        return (
            f"{reader} compares the sampler's probabilities with the policy's, but {sampling.filters}: leave "
            "out top_k and top_p"
        )
    return ""
