"""Every completion of a validation, test or prediction with its verdict, in a file that a killed start continues."""

from __future__ import annotations

import json
import sys
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.trainer.states import TrainerFn
from lightning_utilities.core.rank_zero import rank_zero_info

from lit_rl.callbacks.run_record import run_folder
from lit_rl.errors import ArgumentError
from lit_rl.reports.recorded_rows import append_rank_parts, rank_part, recorded_rows
from lit_rl.rollout import Evaluated
from lit_rl.run_files.files import COMPLETIONS_FILE, read_rollouts, to_json, truncate_after
from lit_rl.run_files.records import RecordedRollout, RecordedRow
from lit_rl.signature_check import TypedArguments
from lit_rl.training.ranks import gather_over_ranks
from lit_rl.types import Sampling

Key = tuple[int, str, str]
"""Validation task, what was sampled for, problem."""


class CompletionWriter(pl.Callback, TypedArguments):
    """Writes what ``validate``, ``test`` and ``predict`` sample, each row with its verdict, as it is judged.

    The file has the rows of ``rollouts.jsonl.gz``, one compressed frame per batch and sampling: ``zcat FILE | jq`` and
    ``lit-rl replay`` read it, :class:`lit_rl.data.CompletionFile` trains on it. Started again with the same weights,
    samplings, seed and environment, the command takes rows from the file instead of sampling them, and judges their
    programs again, so the numbers are those of a start that was never stopped. A file of something else is renamed to
    ``NAME.old``. Validations within ``fit`` are not written.

    On by default where the run has a folder: a logger's, or that of :class:`Checkpointing`.

    Args:
        path: file to write, ending in ``.jsonl.gz``; ``None`` for ``completions.jsonl.gz`` in the run's folder.
    """

    def __init__(self, path: str | None = None) -> None:
        if path is not None and not path.endswith(".jsonl.gz"):
            raise ArgumentError("CompletionWriter.path", "a file ending in .jsonl.gz", path)
        self.path = path
        self._made_of: dict[str, Any] = {}
        self._file: Path | None = None  # on the first rank, while something is written
        self._known: dict[Key, list[RecordedRow]] = {}
        self._frames = 0
        self._count: Counter[str] = Counter()

    # -- what an earlier start wrote -----------------------------------------------------------------------

    def on_validation_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self._open(trainer, pl_module, {f"validation/{n}": one for n, one in pl_module.validation_sampling.items()})

    on_test_start = on_validation_start

    def on_predict_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self._open(trainer, pl_module, {"predict": pl_module.evaluate.predict})

    def _open(self, trainer: pl.Trainer, module: Any, samplings: Mapping[str, Sampling]) -> None:
        self._file, self._known, self._made_of = None, {}, {}
        if trainer.state.fn == TrainerFn.FITTING:
            return
        environment = module.collector.environment
        plain = {name: one for name, one in vars(environment).items() if isinstance(one, str | int | float | None)}
        made_of = {
            "verb": str(trainer.state.fn.value) if trainer.state.fn else "",
            "weights": _weights_digest(module.policy),
            "seed": module.seed,
            "environment": {"class": type(environment).__name__, **plain},
            "sampling": {name: asdict(sampling) for name, sampling in samplings.items()},
        }
        self._made_of = json.loads(to_json(made_of))
        found: list[RecordedRollout] = []
        if trainer.is_global_zero:
            self._file = Path(self.path).expanduser() if self.path else run_folder(trainer) / COMPLETIONS_FILE
            found = self._resume_from(self._file)
        for rollout in trainer.strategy.broadcast(found):
            for row in rollout.rows:
                self._known.setdefault((rollout.loader, rollout.sampled_for, row.task_id), []).append(row)
        self._frames = len(found)
        self._count = _count_samples([row for rows in self._known.values() for row in rows])

    def _resume_from(self, file: Path) -> list[RecordedRollout]:
        """The file's rows if they are of this evaluation; else another's file is moved out of the way."""
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            return []
        found = list(read_rollouts(file))
        before = found[0].made_of if found else {}
        changed = [name for name, value in self._made_of.items() if before.get(name) != value]
        if found and not changed:
            truncate_after(file, sys.maxsize)
            num_rows = sum(len(rollout.rows) for rollout in found)
            rank_zero_info(f"{file}: {num_rows} completions are taken from it, and judged again")
            return found
        truncate_after(file, 0)
        of = f"of another run ({', '.join(changed)} differ)" if found else "not readable"
        rank_zero_info(f"{file} was {of}: renamed to {file.name}.old")
        return []

    def on_validation_batch_start(
        self, trainer: pl.Trainer, pl_module: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        known: dict[str, list[Any]] = {}
        for (loader, purpose, _), rows in self._known.items():
            if loader == dataloader_idx:
                known.setdefault(purpose, []).extend(row.as_sampled(number) for number, row in enumerate(rows))
        pl_module.collector.known_rows = known

    on_test_batch_start = on_validation_batch_start
    on_predict_batch_start = on_validation_batch_start

    # -- what this start adds ------------------------------------------------------------------------------

    def on_validation_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        pl_module.collector.known_rows = {}
        if not self._made_of:
            return
        evaluated: Evaluated = outputs
        purposes = {name: name if name == "predict" else f"validation/{name}" for name in evaluated.rollouts}
        for name, rollout in evaluated.rollouts.items():
            rows = [
                row
                for row, judgement in enumerate(rollout.judgements)
                if (dataloader_idx, purposes[name], judgement.problem.task_id) not in self._known
            ]
            decode = pl_module.policy.codec.decode
            recorded = list(recorded_rows(rollout, evaluated.rewards.get(name), rows, 0, decode))
            parts = gather_over_ranks(rank_part(rollout, recorded, [rollout.judgements[row] for row in rows]))
            num_kept = sum(len(part["rows"]) for part in parts)
            if self._file is not None and num_kept:
                self._frames += 1
                head: dict[str, Any] = {
                    "sampled_for": purposes[name],
                    "loader": dataloader_idx,
                    "made_of": self._made_of,
                }
                append_rank_parts(self._file, parts, rollout=self._frames, num_rows=num_kept, seconds={}, **head)
                self._count += sum((_count_samples(part["rows"]) for part in parts), Counter[str]())

    on_test_batch_end = on_validation_batch_end
    on_predict_batch_end = on_validation_batch_end

    def on_validation_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if self._file is not None:
            count = self._count
            rank_zero_info(
                f"{self._file}: {count['rows']} completions, {count['passed']} passed, {count['tokens']} sampled tokens"
            )
        self._known = {}

    on_test_end = on_validation_end
    on_predict_end = on_validation_end


def _count_samples(rows: Sequence[RecordedRow]) -> Counter[str]:
    tokens, passed = sum(row.num_tokens for row in rows), sum(row.verdict == "passed" for row in rows)
    return Counter(rows=len(rows), passed=passed, tokens=tokens)


def _weights_digest(policy: torch.nn.Module) -> list[int]:
    """A checksum of each rank's weights, equal ones once; all ranks call."""
    checksum = 0
    for parameter in policy.parameters():
        local: Any = parameter.detach()
        local = local.to_local() if hasattr(local, "to_local") else local
        data = local.cpu().contiguous().reshape(-1).view(torch.uint8)
        checksum = zlib.crc32(data.numpy(), checksum)
    return sorted(set(gather_over_ranks(checksum)))
