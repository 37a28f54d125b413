"""Preference pairs: made from completions and their execution rewards, written, read, and served in batches."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Unpack

from lit_rl.data.rows import Row, parse_rows, read_rows
from lit_rl.data.task import Split, TaskDataModule, TaskOptions
from lit_rl.execution.checks import ReferenceText
from lit_rl.types import Message, Problem


@dataclass(frozen=True)
class PreferencePair:
    """Two completions of one prompt, one of which earned a larger reward.

    Args:
        task_id: task id of the problem; several pairs may share it.
        prompt: text or chat messages, as the policy read it.
        chosen: the completion with the larger reward.
        rejected: the completion with the smaller reward.
        chosen_reward: reward of ``chosen``.
        rejected_reward: reward of ``rejected``.
        chosen_finished: whether the policy, not a token limit, ended ``chosen``; then that end is learned, too.
        rejected_finished: whether the policy ended ``rejected``.
    """

    task_id: str
    prompt: str | tuple[Message, ...]
    chosen: str
    rejected: str
    chosen_reward: float
    rejected_reward: float
    chosen_finished: bool = True
    rejected_finished: bool = True


def make_preference_pairs(
    problem: Problem,
    completions: Sequence[str],
    rewards: Sequence[float | None],
    finished: Sequence[bool] | None = None,
    *,
    margin: float,
    max_pairs: int | None = None,
) -> list[PreferencePair]:
    """Return pairs of completions of one problem whose rewards differ by a margin.

    The next pair always has the completions that were used least, so that a single good completion does not fill
    ``max_pairs``. Among equals the larger difference goes first, then the order of sampling.

    Args:
        problem: gives task id and prompt.
        completions: n texts; repeated texts count once, with their first reward.
        rewards: n rewards; ``None`` or NaN (no verdict, for example after an infrastructure failure) leaves
            the completion out.
        finished: n values, False for completions that a token limit cut; by default no completion was cut.
        margin: smallest difference of rewards, in reward units, above 0.
        max_pairs: largest number of pairs; all pairs if not given.

    Example:
        >>> from lit_rl.execution.checks import TokenTarget
        >>> problem = Problem("p", "2 + 2 =", TokenTarget())
        >>> pairs = make_preference_pairs(problem, ["4", "5", "?"], [1.0, 0.0, None], margin=0.5)
        >>> [(pair.chosen, pair.rejected) for pair in pairs]
        [('4', '5')]
    """
    scored: dict[str, float] = {}
    ends: dict[str, bool] = {}
    for number, (text, reward) in enumerate(zip(completions, rewards, strict=True)):
        if reward is not None and not math.isnan(reward):
            scored.setdefault(text, float(reward))
            ends.setdefault(text, finished is None or finished[number])
    candidates = [(a, b) for a in scored for b in scored if scored[a] - scored[b] >= margin]
    candidates.sort(key=lambda pair: scored[pair[1]] - scored[pair[0]])
    uses = dict.fromkeys(scored, 0)
    pairs: list[PreferencePair] = []
    while candidates and (max_pairs is None or len(pairs) < max_pairs):
        chosen, rejected = min(candidates, key=lambda pair: uses[pair[0]] + uses[pair[1]])
        candidates.remove((chosen, rejected))
        uses[chosen] += 1
        uses[rejected] += 1
        scores = scored[chosen], scored[rejected]
        pairs.append(
            PreferencePair(problem.task_id, problem.prompt, chosen, rejected, *scores, ends[chosen], ends[rejected])
        )
    return pairs


def write_preference_pairs(path: str | Path, pairs: Iterable[PreferencePair]) -> int:
    """Write pairs as JSON lines, whole or not at all; return their number. The path should end in ``.jsonl``."""
    path = Path(path)
    lines = [json.dumps(asdict(pair), ensure_ascii=False) + "\n" for pair in pairs]
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text("".join(lines), encoding="utf-8")
    partial.replace(path)
    return len(lines)


def parse_preference_pair(row: Row) -> PreferencePair:
    """Parse a row as a pair. If it has only prompt, chosen and rejected, the chosen text gets the larger reward."""
    chosen_reward, rejected_reward = row.float_number("chosen_reward", 1.0), row.float_number("rejected_reward", 0.0)
    if not chosen_reward > rejected_reward:
        fault = f"needs to be above rejected_reward {rejected_reward}, got {chosen_reward}"
        raise row.error("chosen_reward", fault)
    chosen, rejected = row.text("chosen"), row.text("rejected")
    if chosen == rejected:
        raise row.error("rejected", "is the same text as chosen, which teaches nothing")
    if isinstance(row["prompt"], str):
        prompt: str | tuple[Message, ...] = row.text("prompt")
    else:
        messages = row.json("prompt", list[dict[str, str]])
        prompt = tuple({"role": message["role"], "content": message["content"]} for message in messages)
    finished = [row.json(f"{which}_finished", bool, default=True) for which in ("chosen", "rejected")]
    return PreferencePair(
        row.text("task_id", str(row.number)), prompt, chosen, rejected, chosen_reward, rejected_reward, *finished
    )


def pair_from_problem(problem: Problem) -> PreferencePair:
    """Return the pair of a problem of :class:`PreferencePairs`."""
    pair: PreferencePair = problem.fields["pair"]
    return pair


class PreferencePairs(TaskDataModule):
    """Preference pairs from JSON lines, as ``lit-rl predict`` writes them.

    Rows have ``prompt`` (text or chat messages), ``chosen`` and ``rejected``, and may have ``task_id``,
    ``chosen_reward``, ``rejected_reward``, and ``chosen_finished`` and ``rejected_finished``, false for texts that a
    token limit cut. A batch holds problems; :func:`pair_from_problem` gives a problem's pair. Nothing is executed: to
    measure pass@1 in addition to the loss, give ``validation_tasks``.

    Args:
        path: file of training pairs.
        validation_path: file of validation pairs, optional.
        name: the task's name in metrics if there are several validation tasks.
        **options: arguments of :class:`TaskDataModule`.
    """

    def __init__(
        self,
        path: str,
        *,
        validation_path: str | None = None,
        name: str = "preferences",
        **options: Unpack[TaskOptions],
    ) -> None:
        super().__init__(**options)
        self.path = path
        self.validation_path = validation_path
        self.name = name

    def load_problems(self, split: Split) -> list[Problem]:
        """Return one problem per pair, in the order of the file; the task id ends in the number of the pair."""
        path = self.path if split == "train" else self.validation_path
        if path is None:
            return []
        pairs = list(parse_rows(read_rows(path), parse_preference_pair))
        return [
            Problem(f"{pair.task_id}/{n}", pair.prompt, ReferenceText(pair.chosen), fields={"pair": pair})
            for n, pair in enumerate(pairs)
        ]
