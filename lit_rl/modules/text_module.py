"""What SFT and DPO share: updates on texts that are given, instead of sampled.

One training step is one update. Validation measures the same loss on held-out texts, then runs what the policy writes
itself, as every module does.

Letters: B problems of one rank, G given texts per problem, N = B * G rows (prompt-major), T completion tokens.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from lit_rl.bounds import require_at_least
from lit_rl.models.policy import Policy
from lit_rl.modules.base import PolicyModule
from lit_rl.modules.finite import Evidence, evidence_of_completions
from lit_rl.modules.optimized_module import X_AXIS
from lit_rl.modules.options import PolicyOptions, require_known
from lit_rl.rollout import Evaluated
from lit_rl.training.modes import evaluating
from lit_rl.training.ranks import Means, gather_over_ranks, max_over_ranks, sum_over_ranks, world_size
from lit_rl.types import Completions, Problem

Metrics = dict[str, Tensor]


class TextModule(PolicyModule):
    """Learns from given texts; a subclass says which texts and what their loss is.

    Args:
        policy: the policy to train.
        microbatch_size: problems per forward and backward on one rank; ``None`` for the batch at once. Changes
            memory and speed, never the gradient.
        max_updates: the run ends after this many updates; ``None`` leaves it to the trainer.
        **options: see :class:`PolicyModule`.
    """

    metric_prefix = "text"

    def __init__(
        self,
        policy: Policy,
        *,
        microbatch_size: int | None = None,
        max_updates: int | None = None,
        **options: Unpack[PolicyOptions],
    ) -> None:
        require_known(self, options, PolicyOptions)
        super().__init__(policy, **options)
        require_at_least(1, microbatch_size=microbatch_size, max_updates=max_updates)
        self.microbatch_size = microbatch_size
        self.max_updates = max_updates
        self.validation_means: dict[int, Means] = {}
        self.piece_at_hand: Completions | None = None

    # -- what an algorithm says ----------------------------------------------------------------------------

    @abstractmethod
    def texts(self, problem: Problem) -> tuple[str, ...]:
        """The G given texts of a problem; none if it has no text to learn from."""

    @abstractmethod
    def share(self, completions: Completions) -> Tensor:
        """What these rows add to the count that losses are divided by; shares add up over rows and ranks."""

    @abstractmethod
    def loss(self, completions: Completions, denominator: Tensor) -> tuple[Tensor, Metrics]:
        """Loss of some rows, and means to log.

        Args:
            completions: n rows, all G of a problem together.
            denominator: the count of the whole update, over micro-batches and ranks.
        """

    # -- the road ------------------------------------------------------------------------------------------

    def training_step(self, batch: Sequence[Problem], batch_idx: int) -> None:
        """One update."""
        self.progress.begin("training")
        self.progress.enter("updating")
        completions, group = self.given(batch)
        denominator = sum_over_ranks(self.share(completions)) / world_size()
        pieces = self.pieces(completions, group)
        means = Means()
        self.progress.updates, self.progress.parts = 1, len(pieces)
        for piece in pieces:
            self.piece_at_hand = piece
            loss, metrics = self.loss(piece, denominator)
            self.require_finite("loss", float(loss.detach()))
            self.manual_backward(loss)
            means.add(metrics, count=float(self.share(piece)))
            means.add_sum("loss", loss, 1 / len(pieces))
            self.progress.part += 1
        norms = self.optimizer_step()
        self.piece_at_hand = None
        seconds = sum(taken for phase, taken in self.progress.end().items() if phase != "waiting")
        self.step_schedule()
        values = means.reduce(self.device)
        named = {f"{self.metric_prefix}/{name}": value for name, value in values.items()}
        self.log_dict(named, prog_bar=True)
        tokens = float(completions.completion_mask.sum()) * world_size()
        timed = {"time/step_seconds": seconds, "time/tokens_per_second": tokens / seconds}
        self.log_dict(norms | timed, batch_size=1)
        self.log(X_AXIS, float(self.steps_done), batch_size=1)
        self.step_plateau(named)
        self.stop_when_done()

    def evidence(self) -> Evidence:
        """The last micro-batch."""
        return evidence_of_completions(self.piece_at_hand) if self.piece_at_hand is not None else {}

    def given(self, problems: Sequence[Problem]) -> tuple[Completions, int]:
        """The problems' texts as N completions, and G."""
        texts = [self.texts(problem) for problem in problems]
        group = len(texts[0])
        repeated = [problem for problem in problems for _ in range(group)]
        given = [text for of_one in texts for text in of_one]
        return self.policy.codec.as_completions(repeated, given, self.policy.device), group

    def pieces(self, completions: Completions, group: int) -> list[Completions]:
        """Micro-batches: problems of similar length together, so that little is padding."""
        longest = completions.lengths.view(-1, group).amax(-1).cpu()
        order = longest.argsort(stable=True)
        parts = torch.split(order, self.microbatch_size or max(1, len(order)))
        rows = [(part[:, None] * group + torch.arange(group)).flatten() for part in parts]
        return [completions.select(of_part).trim() for of_part in rows]

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Resume a run of given texts.

        Raises:
            ValueError: the run to resume sampled its texts.
        """
        if self.is_fitting and "rollout_step" in checkpoint:
            raise ValueError(
                f"the checkpoint counts rollouts, so {type(self).__name__} cannot resume from it: export it "
                "(lit-rl export) and start from the folder, as model.policy.model"
            )
        super().on_load_checkpoint(checkpoint)

    # -- ending --------------------------------------------------------------------------------------------

    def on_train_start(self) -> None:
        """Stop if the resumed run has already reached ``max_updates``."""
        self.stop_when_done()

    def on_train_epoch_start(self) -> None:
        """Let the progress bar end where the run does."""
        self.shorten_bar(None if self.max_updates is None else self.max_updates - self.trainer.global_step)

    def stop_when_done(self) -> None:
        """End the run after ``max_updates``."""
        if self.max_updates is not None and self.trainer.global_step >= self.max_updates:
            self.trainer.should_stop = True

    # -- validation ----------------------------------------------------------------------------------------

    def on_validation_epoch_start(self) -> None:
        """Forget the last measurement."""
        self.validation_means = {}

    def validation_step(  # type: ignore[override]
        self, batch: Sequence[Problem], batch_idx: int, dataloader_idx: int = 0
    ) -> Evaluated:
        """Loss on given texts of validation problems, then evaluation by execution."""
        means = self.validation_means.setdefault(dataloader_idx, Means())
        shown = [problem for problem in batch if self.texts(problem)]
        with torch.no_grad(), evaluating(self.policy):
            for piece, counts in self.validation_pieces(shown):
                count = self.share(piece)
                loss, metrics = self.loss(piece, count)
                if counts:
                    means.add(metrics | {"loss": loss}, count=float(count))
        return self.evaluate(batch, batch_idx, dataloader_idx)

    def validation_pieces(self, shown: Sequence[Problem]) -> Iterator[tuple[Completions, bool]]:
        """Micro-batches of given texts and whether they count, as many on every rank.

        A rank that has fewer joins in with a text of another: a sharded policy is gathered by all ranks together.
        """
        pieces = self.pieces(*self.given(shown)) if shown else []
        texts = [problem for of_rank in gather_over_ranks(list(shown[:1])) for problem in of_rank]
        missing = max_over_ranks(len(pieces), self.device) - len(pieces)
        yield from ((piece, True) for piece in pieces)
        yield from ((self.given(texts[:1])[0], False) for _ in range(missing))

    def evaluate(self, batch: Sequence[Problem], batch_idx: int, dataloader_idx: int) -> Evaluated:
        """Evaluation by execution, as every module does it."""
        return super().validation_step(batch, batch_idx, dataloader_idx)

    def on_validation_epoch_end(self) -> None:
        """Log the means over all ranks: ``val/loss``, or ``val/<task>/loss`` where there are several tasks."""
        names: Sequence[str] = getattr(getattr(self.trainer, "datamodule", None), "validation_task_names", ())
        for loader, means in sorted(self.validation_means.items()):
            prefix = f"val/{names[loader]}" if len(names) > 1 else "val"
            self.log_dict({f"{prefix}/{name}": value for name, value in means.reduce(self.device).items()})
        super().on_validation_epoch_end()
