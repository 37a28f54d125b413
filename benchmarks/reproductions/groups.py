"""Document 002: GRPO with groups of 2 to 16, how many of them teach nothing, and importance weights on and off.

Every rollout has 128 completions, as the document's; the larger the groups, the fewer the problems. Rows that are stale
come from four epochs on one rollout: after the first update another policy sampled them than the one that learns.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from lit_rl.data import Basics
from lit_rl.math.advantages import GroupMean
from lit_rl.math.losses import ImportanceSampling, Loss, PolicyGradient
from lit_rl.models import Policy
from lit_rl.modules import GRPO, Objective
from lit_rl.rewards import TestsReward
from lit_rl.types import Sampling
from reproductions.learning import Seen, imitate, imitation, learn, new_policy, pass_rates, shared, without_training
from reproductions.part import Case, Numbers, Part
from reproductions.pictures import Picture, Results, bars, middle

COMPLETIONS, MAX_TOKENS = 128, 40
EQUAL = "group/zero_advantage_fraction"


def task(seed: int, batch_size: int) -> Basics:
    return Basics(batch_size=batch_size, num_train_problems=2080, num_validation_problems=260, seed=seed)


def prepare(folder: Path, updates: int = 400) -> None:
    """Imitate demonstrations of which 60% carry a bug."""
    imitate(new_policy(), task(0, batch_size=32), folder, updates)


def run(
    seed: int,
    folder: Path,
    group: int = 8,
    epochs: int = 1,
    loss: Loss = ImportanceSampling(),  # noqa: B008  # frozen
    rollouts: int = 20,
) -> Numbers:
    """Train from the imitation with bare deviations from the group's mean, as the document does."""
    policy, seen = imitation(folder), Seen(EQUAL)
    sampling = Sampling(num_samples=group, max_tokens=MAX_TOKENS)
    module = GRPO(
        policy,
        baseline=GroupMean(normalize="none"),
        objective=Objective(loss=loss),
        **shared(seed, rollouts, 6e-4, [TestsReward()], sampling, epochs=epochs),
    )
    learn(module, task(seed, COMPLETIONS // group), folder, seen)
    return {"equal_first": seen.first(EQUAL), "equal_last": seen.last(EQUAL)} | measure(policy)


def measure(policy: Policy) -> dict[str, float]:
    """pass@1 on the held-out problems, which are the same for every seed."""
    return pass_rates(policy, task(0, 1).problems("validation"), MAX_TOKENS)


SIZES = (2, 4, 8, 16)


def draw(figure: Any, results: Results) -> None:
    left, right = figure.subplots(1, 2)
    for number, label in {"equal_first": "first 5 rollouts", "equal_last": "last 5 rollouts"}.items():
        found = [middle(results.get(f"groups of {size}", []), number) for size in SIZES]
        left.errorbar(SIZES, *zip(*found, strict=True), marker="o", capsize=2, label=label)
    left.set_xscale("log", base=2)
    left.set_xticks(SIZES, [str(size) for size in SIZES])
    left.set_xlabel("completions in a group")
    left.set_title("groups of equal rewards")
    left.legend()
    bars(right, results, {"greedy": "greedy", "sampled": "sampled"})
    right.set_title("pass@1")
    figure.legend(*right.get_legend_handles_labels(), loc="outside right upper")


PART = Part(
    name="groups",
    prepare=prepare,
    cases=(
        Case("imitation", partial(without_training, measure=measure), seeded=False),
        *(Case(f"groups of {group}", partial(run, group=group)) for group in SIZES),
        Case("groups of 8, four epochs, weighted", partial(run, epochs=4)),
        Case("groups of 8, four epochs, unweighted", partial(run, epochs=4, loss=PolicyGradient())),
    ),
    columns={
        "equal_first": "groups of equal rewards, first 5 rollouts",
        "equal_last": "last 5",
        "greedy": "greedy pass@1",
        "sampled": "sampled pass@1",
    },
    digits={"greedy": 3, "sampled": 3},
    picture=Picture("Share of groups with equal rewards by their size, and pass@1 of all cases", draw),
)
