"""Write preference pairs, made by comparing the rewards of sampled completions, as JSON lines."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.utilities import rank_zero_info

from lit_rl.data.preferences import PreferencePair, make_preference_pairs, write_preference_pairs
from lit_rl.errors import UsageError
from lit_rl.rollout import Evaluated
from lit_rl.signature_check import ArgumentChecks, PositiveFloat
from lit_rl.training.ranks import gather_over_ranks

Position = tuple[int, int, int]
"""A problem's batch, its index in its rank's batch, and the rank: sorts alike for any number of ranks."""


class PreferenceWriter(pl.Callback, ArgumentChecks):
    """Writes pairs of completions of the same problem with different rewards; runs in ``lit-rl predict``.

    :class:`lit_rl.data.PreferencePairs` reads the file. The first rank writes it once, at the end, in the order of the
    problems. If a row has several turns, its last turn is compared, as the answer to the prompt.

    Args:
        path: file to write; ends in ``.jsonl``.
        margin: smallest difference between the two rewards of a pair.
        max_pairs: largest number of pairs per problem; ``None`` for all.
    """

    def __init__(self, path: str, margin: PositiveFloat = 0.5, max_pairs: int | None = None) -> None:
        self.path, self.margin, self.max_pairs = path, margin, max_pairs
        self._pairs: dict[Position, list[PreferencePair]] = {}

    def setup(self, trainer: pl.Trainer, pl_module: Any, stage: str) -> None:
        if stage != "predict":
            return
        if pl_module.rewards is None or pl_module.evaluate.predict.num_samples == 1:
            raise UsageError(
                "PreferenceWriter compares the rewards of a problem's completions: set model.rewards, and "
                "model.evaluate.predict.num_samples to 2 or more"
            )

    def on_predict_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self._pairs = {}

    def on_predict_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        evaluated: Evaluated = outputs
        completions = evaluated.rollouts["predict"].completions
        rewards = evaluated.rewards["predict"].rewards_or_nan().tolist()
        for number, (problem, rows) in enumerate(zip(batch, completions.rows_by_group().values(), strict=True)):
            texts, scores = [completions.texts[row] for row in rows], [rewards[row] for row in rows]
            finished = (~completions.truncated[rows]).tolist()
            self._pairs[batch_idx, number, trainer.global_rank] = make_preference_pairs(
                problem, texts, scores, finished, margin=self.margin, max_pairs=self.max_pairs
            )

    def on_predict_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        of_problems = {position: pairs for part in gather_over_ranks(self._pairs) for position, pairs in part.items()}
        if trainer.is_global_zero:
            pairs = [pair for position in sorted(of_problems) for pair in of_problems[position]]
            write_preference_pairs(self.path, pairs)
            with_pairs = sum(bool(pairs) for pairs in of_problems.values())
            rank_zero_info(f"{self.path}: {len(pairs)} pairs from {with_pairs} of {len(of_problems)} problems")
