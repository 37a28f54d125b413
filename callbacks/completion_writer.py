"""Write every completion of a validation, test or prediction, with its verdict, to a file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import lightning.pytorch as pl
from lightning.pytorch.trainer.states import TrainerFn
from lightning_utilities.core.rank_zero import rank_zero_info

from lit_rl.callbacks.run_record import run_folder
from lit_rl.reports.recorded_rows import append_rollout_record, build_recorded_rows, rollout_record_part
from lit_rl.rollout import Evaluated
from lit_rl.run_files.files import COMPLETIONS_FILE, drop_records_after
from lit_rl.run_files.records import RecordedRow
from lit_rl.signature_check import ArgumentChecks, ValueLimit
from lit_rl.training.ranks import gather_over_ranks

CompressedFile = Annotated[str, ValueLimit("a file ending in .jsonl.gz", lambda path: path.endswith(".jsonl.gz"))]


class CompletionWriter(pl.Callback, ArgumentChecks):
    """Writes the rows that ``validate``, ``test`` and ``predict`` sample, with their verdicts, as they are judged.

    The file has the format of ``rollouts.jsonl.gz``, with one compressed frame per batch and sampling. ``zcat FILE |
    jq`` and ``lit-rl replay`` read the file, and :class:`lit_rl.data.CompletionFile` trains on it. An earlier file is
    renamed to ``NAME.old``. Validations within ``fit`` are not written.

    The callback is on by default if the run has a folder: that of a logger or of :class:`Checkpointing`.

    Args:
        path: file to write, ending in ``.jsonl.gz``; ``None`` for ``completions.jsonl.gz`` in the run's folder.
    """

    def __init__(self, path: CompressedFile | None = None) -> None:
        self.path = path
        self._verb = ""  # set while something is written
        self._file: Path | None = None  # set on the first rank only
        self._frames = 0
        self._count: Counter[str] = Counter()

    def on_validation_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self._verb, self._file, self._frames, self._count = "", None, 0, Counter()
        if trainer.state.fn in (None, TrainerFn.FITTING):
            return
        self._verb = str(trainer.state.fn.value)
        if trainer.is_global_zero:
            self._file = Path(self.path).expanduser() if self.path else run_folder(trainer) / COMPLETIONS_FILE
            self._file.parent.mkdir(parents=True, exist_ok=True)
            drop_records_after(self._file, 0)

    on_test_start = on_predict_start = on_validation_start

    def on_validation_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if not self._verb:
            return
        evaluated: Evaluated = outputs
        for name, rollout in evaluated.rollouts.items():
            rows, decode = range(len(rollout.judgements)), pl_module.policy.codec.decode
            recorded = list(build_recorded_rows(rollout, evaluated.rewards.get(name), rows, 0, decode))
            parts = gather_over_ranks(rollout_record_part(rollout, recorded, rollout.judgements))
            if self._file is not None:
                self._frames += 1
                head: dict[str, Any] = {
                    "sampled_for": name if name == "predict" else f"validation/{name}",
                    "loader": dataloader_idx,
                    "verb": self._verb,
                }
                kept: list[RecordedRow] = [row for part in parts for row in part["rows"]]
                append_rollout_record(self._file, parts, rollout=self._frames, num_rows=len(kept), seconds={}, **head)
                self._count["rows"] += len(kept)
                self._count["passed"] += sum(row.verdict == "passed" for row in kept)
                self._count["tokens"] += sum(row.num_tokens for row in kept)

    on_test_batch_end = on_predict_batch_end = on_validation_batch_end

    def on_validation_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if self._file is not None:
            count = self._count
            rank_zero_info(
                f"{self._file}: {count['rows']} completions, {count['passed']} passed, {count['tokens']} sampled tokens"
            )

    on_test_end = on_predict_end = on_validation_end
