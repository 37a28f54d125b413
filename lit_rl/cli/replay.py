"""``lit-rl replay RUN``: judge and reward recorded completions again, as was done when they were sampled.

Letters: N rows.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import yaml

from lit_rl.cli import options
from lit_rl.cli.config_files import config_files_of, inline_init_args, replace_configs_by_parts
from lit_rl.data.task import Split, TaskDataModule
from lit_rl.errors import UsageError
from lit_rl.execution.interface import ProgramRunner
from lit_rl.models.padding import pad_left, pad_right
from lit_rl.modules.module_config import restrict_config_imports
from lit_rl.rewards.composite import Composite
from lit_rl.rewards.term import RewardTerm
from lit_rl.rollout import Judge, find_program
from lit_rl.run_files.files import find_newest_recorded_run, read_rollouts
from lit_rl.run_files.records import RecordedRow
from lit_rl.run_files.row_text import escape_controls, format_number
from lit_rl.run_files.settings import CONFIG_FILE
from lit_rl.signature_check import PositiveInt, check_and_convert
from lit_rl.types import Completions, Judgement, Problem, StopReason, Turn

MAX_SHOWN = 10


def rejudge_recorded_run(arguments: Sequence[str]) -> None:
    """Judge recorded completions again, as :func:`lit_rl.cli.options.replay_parser` says."""
    kinds: Any = list[RewardTerm] | Composite | None
    parser = options.replay_parser(
        TaskDataModule,
        rewards=kinds,
        sandbox=Callable[[], ProgramRunner] | ProgramRunner | None,
    )
    given = add_replay_config_parts(arguments)
    # Text that the user typed may name any class; the configuration in the folder of a run may not.
    typed = re.findall(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+", " ".join(arguments))
    remedy = "read that file, and give it with --config if you trust it"
    if given[-1:] and given[-1].startswith("--rewards="):  # or a mistake would be blamed on the run's configuration
        check_and_convert(
            inline_init_args(json.loads(given[-1].partition("=")[2]), "rewards"), kinds, "rewards", config=True
        )
    with (
        nullcontext()
        if config_files_of(arguments)
        else restrict_config_imports(typed, "config.yaml of the run", remedy)
    ):
        parsed = parser.parse_args(given)
        check_and_convert(parsed.last, PositiveInt | None, "last")
        if not config_files_of(arguments) and parsed.sandbox is not None:
            ignore_sandbox_tier_of_run(parsed.sandbox.init_args, arguments)
        objects = parser.instantiate_classes(parsed)
    if objects.data is None:
        raise UsageError(f"{parsed.run} has no config.yaml with a task (lit-rl fit writes one): give --config FILE")
    folder = find_newest_recorded_run(parsed.run)
    print(escape_controls(f"run {folder}"))
    rewards = Composite(objects.rewards) if isinstance(objects.rewards, list) else objects.rewards
    runner = objects.sandbox if isinstance(objects.sandbox, ProgramRunner) or not objects.sandbox else objects.sandbox()
    print(escape_controls("\n".join(rejudge_and_describe(folder, objects.data, runner, rewards, parsed.last))))


def ignore_sandbox_tier_of_run(sandbox: MutableMapping[str, Any], arguments: Sequence[str]) -> None:
    """Let the machine choose the sandbox's tier unless the user typed one: the run's configuration may ask for none."""
    after = [one for before, one in pairwise(arguments) if before == "--sandbox"]
    typed = " ".join([*(one for one in arguments if one.startswith("--sandbox")), *after])
    for name, default in (("tier", None), ("allow_weak", False)):
        if name in sandbox and not re.search(rf"\b{name}\b", typed):
            sandbox[name] = default


def add_replay_config_parts(arguments: Sequence[str]) -> list[str]:
    """Add to the arguments the task, rewards and sandbox of the configurations, unless --reward overrides them."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--reward", action="append", type=yaml.safe_load, default=[])
    tried, rest = parser.parse_known_args(list(arguments))
    given = replace_configs_by_parts(rest, _config_part_for_replay)
    run = next((one for one in given if not one.startswith("-")), None)
    if run is not None and not any(one.startswith("--config=") for one in given):
        folder = find_newest_recorded_run(run)
        places = (folder.parent if folder.is_file() else folder, Path(run))
        found = [place / CONFIG_FILE for place in places if (place / CONFIG_FILE).is_file()]
        files = ["--config", str(found[0])] if found else []
        given = [*replace_configs_by_parts(files, _config_part_for_replay), *given]
    if tried.reward:
        terms = [{"class_path": one} if isinstance(one, str) else one for one in tried.reward]
        given.append(f"--rewards={json.dumps(terms)}")
    return given


def _config_part_for_replay(content: Mapping[str, Any]) -> dict[str, Any]:
    model = (content.get("model") or {}).get("init_args") or {}
    found = {"data": content.get("data"), "rewards": model.get("rewards"), "sandbox": model.get("sandbox")}
    return {name: value for name, value in found.items() if value}


def rejudge_and_describe(
    folder: Path, task: TaskDataModule, runner: ProgramRunner | None, rewards: Composite | None, last: int | None = None
) -> Iterator[str]:
    """Judge recorded completions again; yield lines about the differences."""
    if rewards is not None:
        rewards.setup()

    @cache
    def problems(split: Split, loader: int) -> dict[str, Problem]:
        tasks = task.validation_tasks if split == "validation" and task.validation_tasks else [task]
        return {one.task_id: one for one in tasks[loader].problems(split)} if loader < len(tasks) else {}

    numbers = [rollout.number for rollout in read_rollouts(folder)]
    if not numbers:
        raise UsageError(f"{folder} holds no completions: give a run's folder, or a file that CompletionWriter wrote")
    first = numbers[-last] if last is not None and 0 < last < len(numbers) else 0
    again: list[RejudgedRow] = []
    left_out: Counter[str] = Counter()
    try:
        for rollout in read_rollouts(folder):
            if rollout.number < first:
                continue
            split: Split = "train"
            if rollout.sampled_for.startswith("validation"):
                split = "test" if rollout.verb == "test" else "validation"
            known = problems(split, rollout.loader)
            here = [row for row in rollout.rows if row.task_id in known]
            whole = [row for row in here if row.tokens]
            missing = f"the task has no such {'training' if split == 'train' else split} problem now"
            left_out["they were too long to be recorded whole"] += len(here) - len(whole)
            left_out[missing] += len(rollout.rows) - len(here)
            again += rejudge_rows(whole, known, runner, rewards) if whole else []
    finally:
        if runner is not None:
            runner.close()
    yield f"{len(again)} completions of {len(numbers) if not first else last} rollouts were judged again"
    yield from (f"{count} left out: {why}" for why, count in left_out.items() if count)
    yield from describe_differing_verdicts(again)
    if rewards is not None:
        yield from describe_differing_rewards(again)


def describe_differing_verdicts(again: Sequence[RejudgedRow]) -> Iterator[str]:
    """Yield counts of changed verdicts, and the first rows that changed."""
    other = [one for one in again if one.verdict_differs]
    yield f"verdicts: {len(other)} differ, {len(again) - len(other)} are as before"
    kinds = Counter((one.row.verdict, one.verdict) for one in other)
    yield from (f"  {count:5}  {before} -> {now}" for (before, now), count in kinds.most_common())
    yield from _describe_changed_rows(other, lambda one: f"{one.row.verdict} -> {one.verdict}")


def describe_differing_rewards(again: Sequence[RejudgedRow]) -> Iterator[str]:
    """Yield the number of rewards that differ, the means of all rewards, and the first rows that changed."""
    other = [one for one in again if one.reward_differs()]
    yield f"rewards: {len(other)} differ, {len(again) - len(other)} are as before"
    before = _mean_text([one.row.reward for one in again])
    yield f"  mean {before} -> {_mean_text([one.reward for one in again])}"
    names = dict.fromkeys(name for one in again for name in (*one.row.terms, *one.terms))
    for name in names:
        was = _mean_text([one.row.terms.get(name) for one in again])
        yield f"  {name} {was} -> {_mean_text([one.terms.get(name) for one in again])}"
    yield from _describe_changed_rows(
        other, lambda one: f"{format_number(one.row.reward)} -> {format_number(one.reward)}"
    )


def _describe_changed_rows(again: Sequence[RejudgedRow], change: Callable[[RejudgedRow], str]) -> Iterator[str]:
    for one in again[:MAX_SHOWN]:
        yield f"    rollout {one.row.rollout} row {one.row.row} {one.row.task_id}: {change(one)}"
    if len(again) > MAX_SHOWN:
        yield f"    and {len(again) - MAX_SHOWN} more"


def _mean_text(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return format_number(math.fsum(known) / len(known) if known else None)


# -- judging again -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RejudgedRow:
    """A recorded row with the new verdict and the new reward, which is ``None`` if the row now has no valid reward.

    ``terms`` are unweighted, and NaN where a term failed.
    """

    row: RecordedRow
    judgement: Judgement
    reward: float | None
    terms: Mapping[str, float]

    @property
    def verdict(self) -> str:
        """New verdict."""
        return str(self.judgement.outcome.verdict)

    @property
    def verdict_differs(self) -> bool:
        """True if a program ran and its verdict is not the recorded one."""
        return self.judgement.problem.check.runs_program and self.row.verdict != self.verdict

    def reward_differs(self, tolerance: float = 1e-5) -> bool:
        """Return whether the new reward differs from the recorded one by more than rounding in single precision."""
        before, now = self.row.reward, self.reward
        if before is None or now is None:
            return before is not now
        return abs(before - now) > tolerance * max(1.0, abs(before))


def rejudge_rows(
    rows: Sequence[RecordedRow],
    problems: Mapping[str, Problem],
    runner: ProgramRunner | None,
    rewards: Composite | None,
) -> list[RejudgedRow]:
    """Extract the programs of recorded rows again, run them, and reward them."""
    judge = Judge(runner)
    started = []
    for row in rows:
        problem = problems[row.task_id]
        program = find_program(problem, row.turns[-1].text, row.turns[-1].in_thought)
        started.append((problem, program, judge.start_program(problem, program, problem.check)))
    judgements = [Judgement(problem, program, outcome.result()) for problem, program, outcome in started]
    if rewards is None:
        return [RejudgedRow(row, one, None, {}) for row, one in zip(rows, judgements, strict=True)]
    found = rewards(completions_from_rows(rows, problems), judgements)
    return [
        RejudgedRow(
            row,
            judgements[i],
            float(found.rewards[i]) if found.valid[i] else None,
            {name: float(values[i]) for name, values in found.term_values.items()},
        )
        for i, row in enumerate(rows)
    ]


def completions_from_rows(rows: Sequence[RecordedRow], problems: Mapping[str, Problem]) -> Completions:
    """Return N recorded rows as the tensors that reward terms read."""
    prompt_ids, prompt_mask = pad_left([row.prompt_ids for row in rows], 0, "cpu")
    ids = pad_right([row.tokens["ids"] for row in rows], 0, torch.long)
    lengths = torch.tensor([len(row.tokens["ids"]) for row in rows], dtype=torch.long)
    chosen = torch.zeros(ids.shape, dtype=torch.bool)
    for number, row in enumerate(rows):
        for turn in row.turns:
            chosen[number, turn.start : turn.end] = True
    return Completions(
        problems=tuple(problems[row.task_id] for row in rows),
        prompt_ids=prompt_ids,
        prompt_mask=prompt_mask,
        completion_ids=ids,
        completion_mask=chosen,
        token_mask=torch.arange(ids.shape[1]) < lengths[:, None],
        sampler_logprobs=pad_right([row.tokens["logprob_sampled"] for row in rows], 0.0, torch.float32),
        turns=tuple(
            tuple(Turn(t.start, t.end, t.text, t.spans, StopReason(t.stop_reason), t.in_thought) for t in row.turns)
            for row in rows
        ),
        group_ids=torch.tensor([row.group for row in rows], dtype=torch.long),
    )
