"""Groups that teach nothing: dynamic sampling replaces them, and loaders may take their problems less often.

A group is judged by its verdicts, not by its rewards: with a shaped reward a group that never passes still has
unequal rewards, and a filter on them would keep it.

Source:
    Yu et al. 2025, section 3.2, https://arxiv.org/abs/2503.14476

Letters: B problems of one rank, G completions per problem, N = B * G rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from lit_rl.execution.outcome import Verdict
from lit_rl.models.decoding.streams import StreamKey
from lit_rl.rollout.records import Rollout
from lit_rl.training.ranks import gather_over_ranks
from lit_rl.types import Completions, Problem


def one_sided_groups(rollout: Rollout) -> list[int]:
    """Numbers of the groups whose judged completions all passed or all did not."""
    return [number for number, (passed, judged) in _solved(rollout).items() if passed in (0, judged)]


def tell_loader(loader: Any, rollout: Rollout) -> None:
    """Tell a loader that prefers some problems how each of this rollout was solved; every rank calls it."""
    prefer = getattr(loader, "prefer", None)
    if prefer is None:
        return
    groups, counts = rollout.completions.groups(), _solved(rollout)
    mine = {rollout.judgements[rows[0]].problem.task_id: counts[number] for number, rows in groups.items()}
    prefer.note({task_id: count for of_rank in gather_over_ranks(mine) for task_id, count in of_rank.items()})


def _solved(rollout: Rollout) -> dict[int, tuple[int, int]]:
    """By number of the group, how many of its completions passed, and how many were judged."""
    verdicts = [judgement.outcome.verdict for judgement in rollout.judgements]
    judged = {
        number: [verdicts[row] for row in rows if verdicts[row] is not Verdict.INFRASTRUCTURE_FAILURE]
        for number, rows in rollout.completions.groups().items()
    }
    return {number: (of_group.count(Verdict.PASSED), len(of_group)) for number, of_group in judged.items()}


class FreshProblems:
    """Training problems that are not in this rollout, in an order drawn once per rollout, dealt out to ranks.

    Args:
        problems: all training problems, the same on every rank.
        batch: the problems this rank has already.
        key: names the random stream.
        rank: this process.
    """

    def __init__(self, problems: Sequence[Problem], batch: Sequence[Problem], key: StreamKey, rank: int) -> None:
        taken = {task_id for ids in gather_over_ranks([p.task_id for p in batch]) for task_id in ids}
        left = [problem for problem in problems if problem.task_id not in taken]
        generator = torch.Generator().manual_seed(key.seed_of("problems", 0))
        self._left = [left[i] for i in torch.randperm(len(left), generator=generator).tolist()]
        self._rank = rank

    def take(self, count: int) -> list[Problem]:
        """The next problems, fewer when they run out; every rank calls it as often as the others.

        Args:
            count: how many this rank wants.
        """
        counts = [wanted for of_rank in gather_over_ranks([count]) for wanted in of_rank]
        start = sum(counts[: self._rank])
        mine = self._left[start : start + count]
        self._left = self._left[sum(counts) :]
        return mine


def replace_groups(rollout: Rollout, groups: Sequence[int], fresh: Rollout) -> Rollout:
    """The rollout with some groups replaced by those of another rollout, which take over position and number.

    Args:
        rollout: N rows.
        groups: numbers of the groups to replace, as many as ``fresh`` has.
        fresh: other groups; they may have more rows or fewer.
    """
    new = dict(zip(groups, fresh.completions.groups().values(), strict=True))
    source: list[int] = []
    numbers: list[int] = []
    for number, rows in rollout.completions.groups().items():
        rows = [len(rollout.judgements) + row for row in new[number]] if number in new else rows
        source += rows
        numbers += [number] * len(rows)
    both = concatenate(rollout.completions, fresh.completions).select(source).trim()
    judgements = rollout.judgements + fresh.judgements
    named = replace(both, group_ids=both.group_ids.new_tensor(numbers))
    turn_judgements = (*rollout.turn_judgements, *fresh.turn_judgements)
    return Rollout(
        named,
        tuple(judgements[row] for row in source),
        tuple(turn_judgements[row] for row in source),
        rollout.max_turns,
    )


def concatenate(first: Completions, second: Completions) -> Completions:
    """Rows of both, padded to the same widths: prompts on the left, completions on the right.

    The second's groups are numbered after the first's.
    """
    prompt = max(first.prompt_ids.shape[1], second.prompt_ids.shape[1])
    tokens = max(first.completion_ids.shape[1], second.completion_ids.shape[1])

    offset = int(first.group_ids.max()) + 1 if len(first) else 0

    def joined(name: str, width: int, left: bool) -> Tensor:
        parts = [getattr(part, name) for part in (first, second)]
        gaps = [width - part.shape[1] for part in parts]
        return torch.cat([pad(p, (gap, 0) if left else (0, gap)) for p, gap in zip(parts, gaps, strict=True)])

    return replace(
        first,
        problems=first.problems + second.problems,
        prompt_ids=joined("prompt_ids", prompt, left=True),
        prompt_mask=joined("prompt_mask", prompt, left=True),
        completion_ids=joined("completion_ids", tokens, left=False),
        completion_mask=joined("completion_mask", tokens, left=False),
        token_mask=joined("token_mask", tokens, left=False),
        sampler_logprobs=joined("sampler_logprobs", tokens, left=False),
        turns=first.turns + second.turns,
        group_ids=torch.cat([first.group_ids, second.group_ids + offset]),
        weights_versions=first.weights_versions + second.weights_versions,
    )
