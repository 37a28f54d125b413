"""Comparisons of this rank's rows, for rules; they are not logged."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from torch import Tensor

from lit_rl.execution.interface import Verdict
from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import FinishedRollout, Rollout
from lit_rl.types import Completions, Experience

REPEATED, UNEQUAL, KL_PUSH = "rows/repeated_fraction", "rows/unequal_advantages_fraction", "rows/kl_push"
"""Values of :func:`repeated`, :func:`unequal_advantages` and :func:`kl_push`."""
UNLIKE = "rows/unlike_of_equal_fraction"
"""Share of the groups with equal rewards whose completions differ."""
MISPLACED = "rows/misplaced_fraction/"
"""With the name of a term, the value of :func:`misplaced`."""
_ROUNDING = 1e-4


def row_shares(module: Any, finished: FinishedRollout) -> dict[str, float]:
    """All comparisons that the rollout allows, by name.

    None is NaN or infinite: the rule about such numbers silences all others, which every rank must ask alike.
    """
    rows, rewards, experience = finished.rollout.completions, finished.rewards, finished.experience
    found = {
        **repeated(rows, rewards.rewards.tolist()),
        UNEQUAL: unequal_advantages(experience) if getattr(module, "by_turn", True) is None else None,
        KL_PUSH: kl_push(experience, module.objective.kl_coef),
        **{f"{MISPLACED}{name}": misplaced(name, finished.rollout, rewards) for name in rewards.term_values},
    }
    return {name: value for name, value in found.items() if value is not None and isfinite(value)}


def repeated(rows: Completions, rewards: Sequence[float]) -> dict[str, float]:
    """Share of the rows that repeat another of their group, 1 if all are, and :data:`UNLIKE`; empty without groups."""
    host = rows.on_host
    texts = [ids[mask].numpy().tobytes() for ids, mask in zip(host.completion_ids, host.completion_mask, strict=True)]
    groups = rows.groups().values()
    others = len(rows) - len(groups)
    if not others:
        return {}
    distinct = [len({texts[row] for row in group}) for group in groups]
    pairs = zip(groups, distinct, strict=True)
    equal = [number for group, number in pairs if len({rewards[row] for row in group}) == 1]
    unlike = sum(number > 1 for number in equal) / max(1, len(equal))
    return {REPEATED: (len(rows) - sum(distinct)) / others, UNLIKE: unlike}


def misplaced(term: str, rollout: Rollout, rewards: RewardOutput) -> float | None:
    """Share of the passing rows that lack the larger of a term's two values, where as many rows have it as pass.

    -1 where not as many have it, since the term is then about something else. ``None`` where nothing can be compared:
    all rows pass, or fewer than two do, or the term has not two values.
    """
    values: list[float] = rewards.term_values[term].tolist()
    verdicts = [judgement.outcome.verdict for judgement in rollout.judgements]
    pairs = [
        (value, verdict is Verdict.PASSED)
        for value, verdict in zip(values, verdicts, strict=True)
        if value == value and verdict is not Verdict.INFRASTRUCTURE_FAILURE  # a term that failed gave NaN
    ]
    high, passed = max((value for value, _ in pairs), default=0.0), sum(passes for _, passes in pairs)
    if not 1 < passed < len(pairs) or len({value for value, _ in pairs}) != 2:
        return None
    if sum(value == high for value, _ in pairs) != passed:
        return -1.0
    return sum(passes and value < high for value, passes in pairs) / passed


def unequal_advantages(experience: Experience) -> float | None:
    """Share of the groups in which rows of the same reward have different advantages; ``None`` if none can be compared.

    Rows with advantage 0 are left out: an estimator may drop rows.
    """
    if experience.token_rewards is not None or experience.taught is not None:  # these tell rows of one reward apart
        return None
    mask = experience.loss_mask
    advantages = experience.advantages.gather(1, mask.int().argmax(-1, keepdim=True))[:, 0]
    known = zip(
        *(one.tolist() for one in (experience.completions.group_ids, experience.rewards, advantages)), strict=True
    )
    alike: dict[tuple[int, float], list[float]] = {}
    for (group, reward, advantage), counts in zip(known, mask.any(-1).tolist(), strict=True):
        if counts and advantage:
            alike.setdefault((group, reward), []).append(advantage)
    compared = {key: max(ones) - min(ones) for key, ones in alike.items() if len(ones) > 1}
    limit = _ROUNDING * float(advantages.abs().max()) if compared else 0.0
    groups = {group for group, _ in compared}
    uneven = {group for (group, _), spread in compared.items() if spread > limit}
    return len(uneven) / len(groups) if groups else None


def kl_push(experience: Experience, coef: float) -> float | None:
    """Size of the gradient of the KL to the reference, as a multiple of that of the rewards.

    In the loss: ``coef * |log ratio|``, the gradient of a token's KL to first order, over the mean absolute advantage
    of the same tokens. In the reward: the standard deviation of the rows' penalties over that of their rewards.
    ``None`` without such a KL, or where no row is trained.
    """
    if not coef or experience.ref_logprobs is None:
        return None
    trained = experience.loss_mask & (experience.advantages != 0)
    if not trained.any():
        return None
    if experience.token_rewards is not None:
        rows = trained.any(-1)
        rewards: Tensor = experience.rewards[rows].double()
        taken, spread = rewards - experience.token_rewards.sum(-1)[rows], rewards.std(correction=0)
        return float(taken.std(correction=0) / spread) if spread else None
    sampled = experience.completions.sampler_logprobs if experience.old_logprobs is None else experience.old_logprobs
    moved = (sampled - experience.ref_logprobs)[trained].abs().mean()
    return float(coef * moved / experience.advantages[trained].abs().mean())
