"""``lit-rl check-contamination``: find problems of the evaluation in the training data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from lit_rl.cli import options
from lit_rl.cli.check_data import distinct_problems, replace_configs_by_data_part, task_label
from lit_rl.data.contamination import find_overlaps
from lit_rl.data.task import TaskDataModule

MAX_SHOWN = 20


def check_contamination(arguments: Sequence[str]) -> None:
    """Compare the problems of tasks, as :func:`lit_rl.cli.options.check_contamination_parser` says."""
    parser = options.check_contamination_parser(TaskDataModule)
    parsed = parser.parse_args(replace_configs_by_data_part(arguments))
    tasks = parser.instantiate_classes(parsed)
    if tasks.data is None:
        parser.error("no data section says which task to check: give a --config FILE that has one, or --data TASK")
    print(
        f"task {task_label(parsed.data)}" + (f", held out {task_label(parsed.held_out)}" if tasks.held_out else ""),
        flush=True,
    )
    train = distinct_problems(tasks.data, ["train"])
    held_out = distinct_problems(tasks.held_out or tasks.data, ["validation", "test"])
    overlaps = find_overlaps(train, held_out, ngram_words=parsed.ngram_words, min_share=parsed.min_share)
    met = len({overlap.held_out_id for overlap in overlaps})
    print(f"{met} of {len(held_out)} held-out problems occur among {len(train)} training problems")
    for one in overlaps[:MAX_SHOWN]:
        print(f"  {one.held_out_id}: {one.share:.0%} of it in {one.train_id}")
    if len(overlaps) > MAX_SHOWN:
        print(f"  and {len(overlaps) - MAX_SHOWN} more pairs: --output FILE writes all")
    if parsed.output:
        Path(parsed.output).write_text("".join(json.dumps(asdict(one)) + "\n" for one in overlaps))
    if overlaps:
        raise SystemExit(1)
