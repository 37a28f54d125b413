"""Document 001: imitation, REINFORCE, PPO and DPO under penalties for length; pass@1 against length.

The embedded task's programs are short, so there would be little to shorten: here the demonstrations go on after the
program, with up to four lines of comment, as a base model goes on after its answer. The document's completions have
about 150 tokens, ours about 30, so ours pay five times as much for a token.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from lit_rl.data import Basics
from lit_rl.data.task import Split
from lit_rl.math.advantages import BatchMean
from lit_rl.modules import GRPO, REINFORCE, Objective
from lit_rl.rewards import LengthPenalty, RewardTerm, TestsReward
from lit_rl.types import Problem, Sampling
from reproductions.learning import imitate, imitation, learn, learn_from_pairs, new_policy, pass_rates, shared
from reproductions.part import Case, Numbers, Part
from reproductions.pictures import Picture, Results, points

MAX_TOKENS, SCALE = 64, 5
COMMENT = "\n    # and that is all"


class Rambling(Basics):
    """The embedded task with demonstrations that go on for up to four lines after the program."""

    def load_problems(self, split: Split) -> list[Problem]:
        """Problems of the embedded task; of the demonstrations one in five ends where its program ends."""
        problems = super().load_problems(split)
        return [
            replace(problem, fields={**problem.fields, "demonstration": rambling(problem.fields["demonstration"], n)})
            for n, problem in enumerate(problems)
        ]


def rambling(program: str, number: int) -> str:
    """A program and the comment after it, up to four times; the count goes round."""
    return program.rstrip("\n") + COMMENT * (number * 3 % 5)


def task(seed: int, batch_size: int = 16, **options: Any) -> Rambling:
    numbers = {"num_train_problems": 2080, "num_validation_problems": 260}
    return Rambling(batch_size=batch_size, seed=seed, **numbers, **options)


def prepare(folder: Path, updates: int = 400) -> None:
    """Imitate what rambles."""
    imitate(new_policy(), task(0, batch_size=32), folder, updates)


def run(seed: int, folder: Path, algorithm: str, alpha: float = 0.0, rollouts: int = 20) -> Numbers:
    """Train from the imitation, and measure on held-out problems.

    The document's PPO has ratios of whole completions, and advantages normalised over the batch.
    """
    policy, data, sampling = imitation(folder), task(seed), Sampling(num_samples=8, max_tokens=MAX_TOKENS)
    rewards: list[RewardTerm] = [TestsReward(), *([LengthPenalty(alpha=alpha * SCALE)] if alpha else [])]
    settings = partial(shared, seed, rollouts, 6e-4, rewards, sampling)
    match algorithm:
        case "DPO":
            pairs = task(seed, max_train_problems=128)
            writer = {"max_tokens": MAX_TOKENS, "margin": 0.02, "max_pairs": 8}
            learn_from_pairs(policy, str(folder.parent / "start"), pairs, rewards, folder, updates=80, **writer)
        case "REINFORCE":
            learn(REINFORCE(policy, baseline=BatchMean(normalize="none"), **settings()), data, folder)
        case "PPO":
            options = settings(aggregate="sequence_mean", epochs=2)
            objective = Objective(ratio_level="sequence_product")
            learn(GRPO(policy, baseline=BatchMean(), objective=objective, **options), data, folder)
    return pass_rates(policy, data.problems("validation"), MAX_TOKENS)


def case(name: str, *theirs: float, seeded: bool = True) -> Case:
    """An algorithm and its alpha, beside the document's figures: pass@1 of 33 problems, and the mean length."""
    algorithm, _, alpha = name.partition(", alpha ")
    figures = dict(zip(("greedy", "greedy_length"), theirs, strict=False))
    return Case(name, partial(run, algorithm=algorithm, alpha=float(alpha or 0)), figures, seeded)


def draw(figure: Any, results: Results) -> None:
    kinds = {"greedy": "greedy completions", "sampled": "sampled completions"}
    for axes, (number, title) in zip(figure.subplots(1, 2), kinds.items(), strict=True):
        points(axes, results, f"{number}_length", number)
        axes.set_title(title)
        axes.set_xlabel("mean length in tokens")
        axes.set_ylabel("pass@1")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center")


PART = Part(
    name="lengths",
    prepare=prepare,
    cases=(
        case("imitation", 0.364, 136.33, seeded=False),
        case("REINFORCE"),
        case("REINFORCE, alpha 0.01", 0.485, 107.55),
        case("REINFORCE, alpha 0.03", 0.424, 136.21),
        case("PPO, alpha 0.01", 0.455, 89.64),
        case("PPO, alpha 0.03", 0.424, 66.33),
        case("DPO, alpha 0.01"),
        case("DPO, alpha 0.03"),
    ),
    columns={
        "greedy": "greedy pass@1",
        "greedy_length": "tokens (greedy)",
        "sampled": "sampled pass@1",
        "sampled_length": "tokens (sampled)",
    },
    digits={"greedy": 3, "sampled": 3, "greedy_length": 1, "sampled_length": 1},
    picture=Picture("Pass@1 against mean length, by algorithm and penalty", draw),
)
