"""Sampling one rollout ahead of the one that is trained on: ``staleness: 1``.

    staleness 0   | sample k | wait for verdicts k | update k | sample k+1 | ...
    staleness 1   | sample k+1 | wait for verdicts k | update k | sample k+2 | ...

Programs of rollout k run while the policy is updated on rollout k-1 and writes rollout k+1, so the trainer waits only
for those that take longer than that. In turn each rollout was sampled by the weights before the latest updates, which
a correction has to make up for. Sampling and updating share one device and never run side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lightning_utilities.core.rank_zero import rank_zero_warn

from lit_rl.models.streams import StreamKey
from lit_rl.modules.logprobs_module import LogprobsModule
from lit_rl.modules.objective import Objective
from lit_rl.modules.requirements import task_of
from lit_rl.rollout import PendingRollout, Rollout, taken_up, write_rows
from lit_rl.training.ranks import Means, gather_over_ranks, max_over_ranks
from lit_rl.types import Completions, Problem

_KEY = "pending_rollout"


class AheadModule(LogprobsModule):
    """A module that may sample its next rollout before it trains on this one."""

    staleness: int
    num_minibatches: int
    pending: PendingRollout | None = None
    """Sampled for the rollout that comes next."""
    _stored: dict[str, Any] | None = None
    """The same as a checkpoint holds it, of all ranks, until its problems come."""

    # -- before the first rollout --------------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        """Check whether there are programs behind whose time sampling can hide.

        Raises:
            ValueError: ``staleness`` with a task that runs no programs.
        """
        super().setup(stage)
        task = task_of(self.trainer)
        if stage == "fit" and self.staleness and task is not None:
            require_programs(task.problems("train"), task.name)

    def on_train_start(self) -> None:
        """Check whether the next problems can be known.

        Raises:
            ValueError: ``staleness`` with a loader that hands out batches only.
        """
        super().on_train_start()
        if self.staleness and not hasattr(self.trainer.train_dataloader, "following"):
            raise ValueError(
                "staleness 1 samples for the problems that come next, and this loader does not tell them: train on a "
                "TaskDataModule or a ProblemLoader, or set staleness to 0"
            )

    # -- each rollout --------------------------------------------------------------------------------------

    def collect_training(self, batch: Sequence[Problem]) -> Rollout:
        """Sample completions for the batch's problems and run their programs.

        With ``staleness`` 1 the batch was sampled one rollout ago; now the next one is, while programs of this run.
        """
        if not self.staleness:
            return self.collect(batch, self.sampling, StreamKey(self.seed, "train", self.rollout_step))
        rollout = self.take_pending(batch) or self.write(batch, self.rollout_step)
        following = self.following()
        self.pending = None if following is None else self.write(following, self.rollout_step + 1)
        return rollout.finish(self.progress)

    def write(self, problems: Sequence[Problem], number: int) -> PendingRollout:
        """Sample the rows of a rollout by its number, start their programs, and compare the sampler with the policy."""
        key = StreamKey(self.seed, "train", number)
        pending = write_rows(
            self.policy, self.engine, self.runner, problems, self.sampling, key, self.environment, self.progress
        )
        if not self.engine.shares_weights:
            self.compare_sampler(pending.completions(), self.sampling)
        return pending

    def following(self) -> tuple[Problem, ...] | None:
        """Problems of the next rollout; ``None`` if this one is the last.

        Limits that cannot be foreseen, such as a time limit, may leave a rollout unused. Where updates are left out,
        a run with ``max_steps`` goes on longer than thought; what was not sampled ahead is then sampled when it comes.
        """
        trainer: Any = self.trainer
        if self.max_rollouts is not None and self.rollout_step + 1 >= self.max_rollouts:
            return None
        updates = self.num_epochs * self.num_minibatches
        if trainer.max_steps != -1 and trainer.global_step + updates >= trainer.max_steps:
            return None
        epoch, problems = trainer.train_dataloader.following(trainer.num_training_batches)
        ends = trainer.max_epochs not in (None, -1) and epoch >= trainer.max_epochs
        return None if ends else problems

    def take_pending(self, batch: Sequence[Problem]) -> PendingRollout | None:
        """What was sampled for these problems; ``None`` on all ranks together if some rank has nothing of the kind."""
        had = self.pending is not None or self._stored is not None
        pending, self.pending = self.pending or self.restored(batch), None
        self._stored = None
        fits = pending is not None and pending.task_ids == [problem.task_id for problem in batch]
        if max_over_ranks(int(not fits), self.device):
            if had:
                rank_zero_warn(
                    f"what was sampled ahead for rollout {self.rollout_step + 1} is of other problems, prompts or "
                    "settings than this run has now: it is sampled again"
                )
            return None
        assert pending is not None
        pending.judge_again(self.runner)
        return pending

    def restored(self, batch: Sequence[Problem]) -> PendingRollout | None:
        """This rank's rows of a checkpoint's rollout, if that is the one that comes now, sampled as now."""
        stored = self._stored
        if stored is None or (stored["rollout"], stored["sampling"]) != (self.rollout_step, asdict(self.sampling)):
            return None
        codec = self.policy.codec
        conversations = taken_up(stored["rows"], batch, self.sampling.num_samples, codec)
        if conversations is None:
            return None
        return PendingRollout(conversations, self.environment.max_turns, codec.pad_id, self.policy.device)

    def age_of(self, completions: Completions) -> Means:
        """By how many updates the weights that sampled were older, where they can be."""
        means = Means()
        if completions.weights_versions and (self.staleness or not self.engine.shares_weights):
            ages = [self.policy.version - version for version in completions.weights_versions]
            means.add_sum("policy/updates_behind", sum(ages), len(ages))
        return means

    # -- the end, and checkpoints --------------------------------------------------------------------------

    def teardown(self, stage: str) -> None:
        """End the sandbox; rows that were sampled ahead stay, for a checkpoint or for another fit."""
        if self.pending is not None:
            self.pending.drop_verdicts()
        super().teardown(stage)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Store the rows that were sampled ahead; all ranks call."""
        super().on_save_checkpoint(checkpoint)
        if self.pending is not None:
            rows = [row for of_rank in gather_over_ranks(self.pending.rows()) for row in of_rank]
            sampling = asdict(self.sampling)
            checkpoint[_KEY] = {"rollout": self.rollout_step, "sampling": sampling, "rows": rows}
        elif self._stored is not None:
            checkpoint[_KEY] = self._stored

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore them; their programs run again."""
        super().on_load_checkpoint(checkpoint)
        self.pending, self._stored = None, None
        if self.is_fitting and self.staleness:
            self._stored = checkpoint.get(_KEY)


def require_staleness(staleness: int, objective: Objective) -> None:
    """Check whether rows may be sampled ahead, and whether something weighs them then.

    Raises:
        ValueError: a number other than 0 and 1, or nothing in the objective reads the sampler's log-probabilities.
    """
    if staleness not in (0, 1):
        raise ValueError(f"staleness must be 0 (on-policy) or 1 (one rollout ahead), got {staleness}")
    if staleness and not objective.compares_with_sampler:
        raise ValueError(
            "staleness 1 trains on rows that older weights sampled, and nothing in the objective makes up for that: "
            "set objective.correction, such as lit_rl.losses.TruncatedWeights, or staleness to 0"
        )


def require_programs(problems: Sequence[Problem], name: str) -> None:
    """Check whether problems have programs to run.

    Raises:
        ValueError: none of them does.
    """
    if not any(problem.check.runs_program for problem in problems):
        raise ValueError(
            f"staleness 1 samples while programs run, and {name} runs none, so rows would be older and nothing "
            "faster: set staleness to 0"
        )
