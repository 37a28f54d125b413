"""Base of SFT and DPO: updates on given texts instead of sampled ones.

One training step is one update. Validation measures the same loss on held-out texts, then runs what the policy writes
itself, as every module does.

Letters: B problems of one rank, G given texts per problem, N = B * G rows (prompt-major), T completion tokens.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypedDict

import torch
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor

from lit_rl.data.task import Split
from lit_rl.errors import UsageError
from lit_rl.execution.interface import ProgramRunner
from lit_rl.models.policy import Policy
from lit_rl.modules.policy_module import X_AXIS, PolicyModule
from lit_rl.modules.settings import EvaluationConfig, Optimization
from lit_rl.modules.update_trace import Snapshot, snapshot_of_completions
from lit_rl.rewards.composite import Composite
from lit_rl.rewards.term import RewardTerm
from lit_rl.rollout import Evaluated, RolloutConfig, RunnerFactory
from lit_rl.signature_check import PositiveInt
from lit_rl.training.progress import StepCounter
from lit_rl.training.ranks import Means, eval_mode, gather_over_ranks, max_over_ranks, sum_over_ranks, world_size
from lit_rl.types import Completions, Problem

Metrics = dict[str, Tensor]

_MORE_TOKENS = 8
"""A text's tokens outnumber its bytes by at most this many: EOS, and a space that the tokenizer puts before a text."""


class TextModuleOptions(TypedDict, total=False):
    """Arguments of :class:`TextModule` that an algorithm passes on."""

    rewards: list[RewardTerm] | Composite | None
    sandbox: RunnerFactory | ProgramRunner | None
    collect: RolloutConfig
    update: Optimization
    evaluate: EvaluationConfig
    max_updates: PositiveInt | None
    seed: int | None


class TextModule(PolicyModule):
    """Module that learns from given texts; a subclass defines the texts and their loss.

    Args:
        policy: the policy to train.
        rewards: reward terms, reported in validation.
        sandbox: runs programs in validation; or a function that builds the sandbox when a run starts.
        collect: how validation's rollouts are collected.
        update: how one optimizer step is made; ``microbatch_size`` counts problems.
        evaluate: how the policy is measured.
        max_updates: the run ends after this many updates; ``None`` leaves it to the trainer.
        seed: seed of every random stream of the run; by default that of ``seed_everything``, or 0.
    """

    metric_prefix = "text"
    lacks = "has no text to learn from"
    """The end of the message about a problem without a text."""
    nothing_left = "problems of which nothing is left to learn"
    """The notice's words for problems that are left out once their texts are cut."""

    def __init__(
        self,
        policy: Policy,
        *,
        rewards: list[RewardTerm] | Composite | None = None,
        sandbox: RunnerFactory | ProgramRunner | None = None,
        collect: RolloutConfig = RolloutConfig(),  # noqa: B008  # frozen
        update: Optimization = Optimization(),  # noqa: B008
        evaluate: EvaluationConfig = EvaluationConfig(),  # noqa: B008
        max_updates: PositiveInt | None = None,
        seed: int | None = None,
    ) -> None:
        if collect.staleness or collect.max_resamples:
            raise UsageError(
                f"{type(self).__name__} does not sample for training: set collect.staleness and max_resamples to 0"
            )
        super().__init__(
            policy,
            rewards=rewards,
            sandbox=sandbox,
            collect=collect,
            update=update,
            evaluate=evaluate,
            clock=StepCounter("update", max_updates),
            seed=seed,
        )
        self.validation_means: dict[int, Means] = {}
        self.piece: Completions | None = None  # of the current update
        self.cut: dict[str, int] = {}  # texts of each training problem that do not fit

    @property
    def max_updates(self) -> int | None:
        """The run ends after this many updates; a larger number lets another fit continue."""
        return self.clock.limit

    @max_updates.setter
    def max_updates(self, limit: int | None) -> None:
        self.clock.limit = limit

    # -- what an algorithm says ----------------------------------------------------------------------------

    @abstractmethod
    def texts_to_learn(self, problem: Problem) -> tuple[str, ...]:
        """Return the G given texts of a problem; none if the problem has no text to learn from."""

    def are_texts_finished(self, problem: Problem) -> tuple[bool, ...]:
        """Return for each text whether it is finished: the policy would end it there, and no token limit cut it."""
        return (True,) * len(self.texts_to_learn(problem))

    def encode_texts_if_long(self, problem: Problem, room: int) -> list[tuple[int, ...]]:
        """Return the ids of a problem's texts, empty for a text that certainly fits."""
        given = self.policy.codec.encode_completion
        return [
            given(text, is_finished=is_finished)[0] if len(text.encode()) + _MORE_TOKENS > room else ()
            for text, is_finished in zip(self.texts_to_learn(problem), self.are_texts_finished(problem), strict=True)
        ]

    def has_target_tokens(self, problem: Problem, ids: Sequence[tuple[int, ...]]) -> bool:
        """Return whether texts that were cut to these ids still have something to learn."""
        return True

    @abstractmethod
    def denominator_part(self, completions: Completions) -> Tensor:
        """Return these rows' part of the losses' divisor; parts add up over rows and ranks."""

    @abstractmethod
    def loss_and_metrics(self, completions: Completions, denominator: Tensor) -> tuple[Tensor, Metrics]:
        """Return the loss of some rows, and means to log.

        Args:
            completions: n rows, all G of a problem together.
            denominator: the count of the whole update, over micro-batches and ranks.
        """

    # -- texts that do not fit -------------------------------------------------------------------------------

    def select_usable_problems(self, problems: list[Problem], task: str, split: Split) -> list[Problem]:
        kept = super().select_usable_problems(problems, task, split)
        if split == "train" and not self.is_fitting:
            return kept
        found = {problem.task_id: self.truncated_count_and_trainable(problem) for problem in kept}
        cut = {task_id: number for task_id, (number, _) in found.items()}
        if split == "train":
            self.cut = cut
        number, total = sum(cut.values()), sum(len(self.texts_to_learn(problem)) for problem in kept)
        if not number:
            return kept
        text = (
            f"{task}: {number} of {total} {split} texts, such as that of {max(cut, key=cut.__getitem__)}, do not fit "
            f"after their prompts into the policy's context of {self.policy.codec.max_positions} tokens"
        )
        if number == total and split == "train":
            raise UsageError(f"{text}: take a policy with a longer context, or shorten the texts")
        teach = [problem for problem in kept if found[problem.task_id][1]]
        left = f"; {len(kept) - len(teach)} {self.nothing_left} are left out" if len(teach) < len(kept) else ""
        rank_zero_info(f"{text}, and are cut there{left}")
        return teach

    def truncated_count_and_trainable(self, problem: Problem) -> tuple[int, bool]:
        """Return how many texts of a problem are cut, and whether something to learn is left."""
        room = self.policy.codec.max_completion_tokens(len(self.policy.codec.encode_problem(problem)))
        ids = self.encode_texts_if_long(problem, room)
        cut = sum(len(one) > room for one in ids)
        return cut, not cut or self.has_target_tokens(problem, [one[:room] for one in ids])

    # -- one update ------------------------------------------------------------------------------------------

    def training_step(self, batch: Sequence[Problem], batch_idx: int) -> None:
        self.progress.begin("training")
        self.progress.enter_phase("updating")
        completions, group = self.completions_and_group_size(batch)
        denominator = sum_over_ranks(self.denominator_part(completions)) / world_size()
        microbatches = self.divide_into_microbatches(completions, group)
        means = Means()
        self.progress.updates, self.progress.parts = 1, len(microbatches)
        for piece in microbatches:
            self.piece = piece
            loss, metrics = self.loss_and_metrics(piece, denominator)
            self.require_finite("loss", float(loss.detach()))
            self.manual_backward(loss, last=piece is microbatches[-1])
            means.add(metrics, count=float(self.denominator_part(piece)))
            means.add_sum("loss", loss, 1 / len(microbatches))
            self.progress.part += 1
        for problem in batch:  # problems of a loader without a task are not known yet
            if problem.task_id not in self.cut:
                self.cut[problem.task_id] = self.truncated_count_and_trainable(problem)[0]
        means.add_sum("cut_fraction", sum(self.cut[problem.task_id] for problem in batch), len(completions))
        norms = self.optimizer_step()
        self.clock.count += 1
        self.piece = None
        seconds = sum(taken for phase, taken in self.progress.end_and_take_seconds().items() if phase != "waiting")
        self.step_schedule()
        values = means.reduce(self.device)
        named = {f"{self.metric_prefix}/{name}": value for name, value in values.items()}
        self.log_dict(named, prog_bar=True)
        tokens = float(completions.completion_mask.sum()) * world_size()
        timed = {"time/step_seconds": seconds, "time/tokens_per_second": tokens / seconds}
        self.log_dict(norms | timed, batch_size=1)
        self.log(X_AXIS, float(self.clock.count), batch_size=1)
        self.step_plateau_schedule(named)
        self.trainer.should_stop |= self.clock.is_over

    def crash_snapshot(self) -> Snapshot:
        return snapshot_of_completions(self.piece) if self.piece is not None else {}

    def completions_and_group_size(self, problems: Sequence[Problem]) -> tuple[Completions, int]:
        """Return the problems' texts as N completions, and G."""
        texts = [self.texts_to_learn(problem) for problem in problems]
        if not all(texts):
            raise UsageError(f"problem {problems[texts.index(())].task_id} {self.lacks}")
        group = len(texts[0])
        repeated = [problem for problem in problems for _ in range(group)]
        given = [text for of_one in texts for text in of_one]
        finished = [one for problem in problems for one in self.are_texts_finished(problem)]
        return self.policy.codec.completions_from_texts(repeated, given, self.policy.device, finished=finished), group

    def divide_into_microbatches(self, completions: Completions, group: int) -> list[Completions]:
        """Divide problems into micro-batches of similar length, so that little is padding."""
        longest = completions.lengths.view(-1, group).amax(-1).cpu()
        order = longest.argsort(stable=True)
        parts = torch.split(order, self.update.microbatch_size or max(1, len(order)))
        rows = [(part[:, None] * group + torch.arange(group)).flatten() for part in parts]
        return [completions.select(of_part).trim() for of_part in rows]

    # -- validation ----------------------------------------------------------------------------------------

    def on_validation_epoch_start(self) -> None:
        self.validation_means = {}

    def validation_step(  # type: ignore[override]
        self, batch: Sequence[Problem], batch_idx: int, dataloader_idx: int = 0
    ) -> Evaluated:
        means = self.validation_means.setdefault(dataloader_idx, Means())
        shown = [problem for problem in batch if self.texts_to_learn(problem)]
        with torch.no_grad(), eval_mode(self.policy):
            microbatches = self.divide_into_microbatches(*self.completions_and_group_size(shown)) if shown else []
            # A rank that has fewer joins in with a text of another rank: all ranks gather a sharded policy together.
            texts = [problem for of_rank in gather_over_ranks(list(shown[:1])) for problem in of_rank]
            missing = max_over_ranks(len(microbatches), self.device) - len(microbatches)
            pieces = [(piece, True) for piece in microbatches]
            pieces += [(self.completions_and_group_size(texts[:1])[0], False) for _ in range(missing)]
            for piece, counts in pieces:
                count = self.denominator_part(piece)
                loss, metrics = self.loss_and_metrics(piece, count)
                if counts:
                    means.add(metrics | {"loss": loss}, count=float(count))
        return self.evaluate_by_execution(batch, batch_idx, dataloader_idx)

    def evaluate_by_execution(self, batch: Sequence[Problem], batch_idx: int, dataloader_idx: int) -> Evaluated:
        """Evaluate by execution, as every module does."""
        return super().validation_step(batch, batch_idx, dataloader_idx)

    def on_validation_epoch_end(self) -> None:
        names: Sequence[str] = getattr(getattr(self.trainer, "datamodule", None), "validation_task_names", ())
        for loader, means in sorted(self.validation_means.items()):
            prefix = f"val/{names[loader]}" if len(names) > 1 else "val"
            self.log_dict({f"{prefix}/{name}": value for name, value in means.reduce(self.device).items()})
        super().on_validation_epoch_end()
