"""Tables of texts in whatever a run logs to."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from lightning.pytorch.loggers import CSVLogger, Logger, MLFlowLogger, TensorBoardLogger, WandbLogger

Table = Sequence[Sequence[str]]
"""Rows of cells."""


def write_table(logger: Logger, name: str, columns: Sequence[str], rows: Table, step: int) -> None:
    """Write a table to a logger that can hold one; call it on the first rank.

    TensorBoard shows it under TEXT, its cells as Markdown. Weights & Biases and MLflow have tables of their own. Beside
    the metrics of a CSV logger it is added to a file ``<name>.csv``, with the step in a column of its own.

    Args:
        logger: of the run.
        name: of the table; parts with slashes between them.
        columns: their headings.
        rows: of as many cells as there are columns.
        step: rollouts, or updates, that are done.
    """
    if isinstance(logger, TensorBoardLogger):
        _to_board(logger.experiment, name, [columns, *rows], step)
    elif isinstance(logger, CSVLogger):
        _to_csv(Path(logger.log_dir) / f"{name.replace('/', '_')}.csv", columns, rows, step)
    elif isinstance(logger, WandbLogger):
        logger.log_table(name, list(columns), [list(row) for row in rows], step=step)
    elif isinstance(logger, MLFlowLogger):
        data = {column: [row[place] for row in rows] for place, column in enumerate(columns)}
        logger.experiment.log_table(logger.run_id, data | {"step": [step] * len(rows)}, f"{name}.json")


def _to_board(writer: Any, name: str, cells: Table, step: int) -> None:
    """A text of two dimensions: TensorBoard draws it as a table."""
    from tensorboard.plugins.text.summary import text_pb

    summary = text_pb(name, np.array([[cell.encode() for cell in row] for row in cells], dtype=object))
    for value in summary.value:
        value.metadata.plugin_data.plugin_name = "text"
    writer._get_file_writer().add_summary(summary, step)


def _to_csv(path: Path, columns: Sequence[str], rows: Table, step: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    with path.open("a", newline="", encoding="utf-8", errors="surrogatepass") as file:
        writer = csv.writer(file)
        writer.writerows([["step", *columns]] if is_new else [])
        writer.writerows([step, *row] for row in rows)
