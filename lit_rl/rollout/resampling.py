"""Dynamic sampling: groups that teach nothing are replaced by groups of other problems.

A group is judged by its verdicts, not by its rewards: with a shaped reward a group that never passes still has unequal
rewards, and a filter on them would keep it.

Source:
    Yu et al. 2025, section 3.2, https://arxiv.org/abs/2503.14476
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.nn.functional import pad

from lit_rl.execution.interface import Verdict
from lit_rl.models.sampling import RandomKey
from lit_rl.rollout.records import Rollout
from lit_rl.training.ranks import gather_over_ranks
from lit_rl.types import Completions, Problem


def one_sided_groups(rollout: Rollout) -> list[int]:
    """Return the numbers of the groups whose judged completions all passed, or none of which passed."""
    found = []
    for number, rows in rollout.completions.rows_by_group().items():
        verdicts = [rollout.judgements[row].outcome.verdict for row in rows]
        passed, failed = verdicts.count(Verdict.PASSED), verdicts.count(Verdict.INFRASTRUCTURE_FAILURE)
        if passed in (0, len(verdicts) - failed):
            found.append(number)
    return found


class FreshProblems:
    """Training problems that are not in this rollout, in an order drawn once per rollout, dealt out to ranks.

    ``problems`` are all training problems, the same on every rank; ``batch`` are those that this rank has already.
    """

    def __init__(self, problems: Sequence[Problem], batch: Sequence[Problem], key: RandomKey, rank: int) -> None:
        taken = {task_id for ids in gather_over_ranks([p.task_id for p in batch]) for task_id in ids}
        left = [problem for problem in problems if problem.task_id not in taken]
        generator = torch.Generator().manual_seed(key.seed_of_stream("problems", 0))
        self._left = [left[i] for i in torch.randperm(len(left), generator=generator).tolist()]
        self._rank = rank

    def take(self, count: int) -> list[Problem]:
        """Return this rank's next ``count`` problems, or fewer if they run out; all ranks call this equally often."""
        counts = [wanted for of_rank in gather_over_ranks([count]) for wanted in of_rank]
        start = sum(counts[: self._rank])
        mine = self._left[start : start + count]
        self._left = self._left[sum(counts) :]
        return mine


def replace_groups(rollout: Rollout, groups: Sequence[int], fresh: Rollout) -> Rollout:
    """Return the rollout with some groups replaced by groups of another one, which take over position and number."""
    new = dict(zip(groups, fresh.completions.rows_by_group().values(), strict=True))
    source: list[int] = []
    numbers: list[int] = []
    for number, rows in rollout.completions.rows_by_group().items():
        rows = [len(rollout.judgements) + row for row in new[number]] if number in new else rows
        source += rows
        numbers += [number] * len(rows)
    both = concatenate_completions(rollout.completions, fresh.completions).select(source).trim()
    judgements = rollout.judgements + fresh.judgements
    named = replace(both, group_ids=both.group_ids.new_tensor(numbers))
    turn_judgements = (*rollout.turn_judgements, *fresh.turn_judgements)
    return Rollout(
        named,
        tuple(judgements[row] for row in source),
        tuple(turn_judgements[row] for row in source),
        rollout.max_turns,
    )


def concatenate_completions(first: Completions, second: Completions) -> Completions:
    """Return the rows of both, padded to the same widths: prompts on the left, completions on the right.

    The groups of ``second`` are numbered after those of ``first``.
    """
    offset = int(first.group_ids.max()) + 1 if len(first) else 0
    joined: dict[str, Any] = {}
    for name in ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "token_mask", "sampler_logprobs"):
        parts = [getattr(part, name) for part in (first, second)]
        gaps = [max(part.shape[1] for part in parts) - part.shape[1] for part in parts]
        places = [(gap, 0) if name.startswith("prompt") else (0, gap) for gap in gaps]
        joined[name] = torch.cat([pad(part, place) for part, place in zip(parts, places, strict=True)])
    return replace(
        first,
        problems=first.problems + second.problems,
        turns=first.turns + second.turns,
        group_ids=torch.cat([first.group_ids, second.group_ids + offset]),
        weights_versions=first.weights_versions + second.weights_versions,
        **joined,
    )
