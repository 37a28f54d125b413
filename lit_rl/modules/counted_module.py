"""A run that counts rollouts: what it needs before the first, what it logs of each, when it ends, how it resumes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from lit_rl.modules.base import PolicyModule
from lit_rl.modules.mismatch import with_effective_size
from lit_rl.modules.optimized_module import X_AXIS
from lit_rl.modules.requirements import require_rows
from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import InfrastructureError, Rollout
from lit_rl.training.ranks import Means, world_size
from lit_rl.types import Sampling

MOST_ROLLOUTS_WITHOUT_REWARD = 5
"""A reward term may fail on all of one small rollout; this many failures in a row mean it is broken."""


class CountedModule(PolicyModule):
    """A policy module whose clock is the rollout: schedules, curves and the end of a run go by it."""

    sampling: Sampling
    num_minibatches: int
    max_rollouts: int | None
    rollout_step = 0
    """Rollouts that are done."""
    _rollouts_without_reward = 0

    # -- before the first rollout --------------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        """Check whether rewards and updates fit the task, before the first rollout.

        Raises:
            ValueError: a reward term cannot score a training problem, or a rollout has fewer rows than minibatches.
        """
        super().setup(stage)
        task: Any = getattr(self.trainer, "datamodule", None)
        if stage == "fit" and task is not None and self.rewards is not None:
            require_rows(task, self.sampling.num_samples, self.num_minibatches)
            for problem in task.problems("train"):
                self.rewards.check_problem(problem)

    def on_train_start(self) -> None:
        """Stop if the resumed run has already reached ``max_rollouts``."""
        self.stop_when_done()

    def on_train_epoch_start(self) -> None:
        """Let the progress bar end where the run does."""
        self.shorten_bar(None if self.max_rollouts is None else self.max_rollouts - self.rollout_step)

    @property
    def steps_done(self) -> int:
        """Rollouts that are done."""
        return self.rollout_step

    # -- each rollout --------------------------------------------------------------------------------------

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

    def finish_rollout(self) -> None:
        """Count the rollout, move the schedule, and end the run if it was the last."""
        self.step_schedule()
        self.rollout_step += 1
        self.stop_when_done()

    def stop_when_done(self) -> None:
        """End the run after ``max_rollouts``."""
        if self.max_rollouts is not None and self.rollout_step >= self.max_rollouts:
            self.trainer.should_stop = True

    def log_rollout(
        self, means: Means, rollout_seconds: float, update_seconds: float, rollout: Rollout
    ) -> dict[str, float]:
        """Write the rollout's metrics and return them; the x-axis of every curve is the number of rollouts."""
        tokens = float(rollout.completions.completion_mask.sum())
        means.add({"time/rollout_seconds": rollout_seconds, "time/update_seconds": update_seconds})
        values = with_effective_size(means.reduce(self.device))
        values["time/tokens_per_second"] = tokens * world_size() / (rollout_seconds + update_seconds)
        optimizer: Any = self.optimizers()
        values["optimizer/learning_rate"] = optimizer.param_groups[0]["lr"]
        self.forget_others([*values, X_AXIS])
        self.log_dict(values, batch_size=1)
        self.log(X_AXIS, float(self.steps_done), batch_size=1)
        self.step_plateau(values)
        shown = {"reward/mean": "reward", "execution/pass_rate": "pass", "time/tokens_per_second": "tok/s"}
        for name, short in shown.items():
            if name in values:
                self.log(short, values[name], prog_bar=True, logger=False, batch_size=1)
        return values

    def forget_others(self, values: Collection[str]) -> None:
        """Keep Lightning from writing again, until the epoch ends, what only earlier rollouts logged.

        There is no public way. A run that was resumed in between would not know those values either.
        """
        for key, result in (self.trainer._results or {}).items():
            if key.removeprefix("training_step.") not in values:
                result.reset()

    # -- checkpoints ---------------------------------------------------------------------------------------

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Rollouts are counted here: Lightning counts updates."""
        super().on_save_checkpoint(checkpoint)
        checkpoint["rollout_step"] = self.rollout_step

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore the count of rollouts.

        Raises:
            ValueError: the run to resume was of an algorithm without rollouts.
        """
        if self.is_fitting and "rollout_step" not in checkpoint:
            raise ValueError(
                f"the checkpoint counts no rollouts, so {type(self).__name__} cannot resume from it: export it "
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
