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

from algorithms import TOKENIZER, adamw, falling, make_pairs

from lit_rl.data import Basics, PreferencePairs
from lit_rl.data.task import Split
from lit_rl.math.advantages import BatchMean
from lit_rl.models import CausalLM
from lit_rl.modules import DPO, GRPO, REINFORCE, Objective, Optimization, PolicyModule
from lit_rl.rewards import LengthPenalty, RewardTerm, TestsReward
from lit_rl.types import Problem, Sampling
from reproductions.learning import imitate, learn, length, measured, shared
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


def task(seed: int, batch_size: int = 16) -> Rambling:
    return Rambling(batch_size=batch_size, num_train_problems=2080, num_validation_problems=260, seed=seed)


def prepare(folder: Path, updates: int = 400) -> None:
    """Imitate what rambles."""
    imitate(folder, task(0, batch_size=32), TOKENIZER, updates)


def run(seed: int, folder: Path, algorithm: str, alpha: float = 0.0, rollouts: int = 20) -> Numbers:
    """Train from the imitation, and measure on held-out problems."""
    policy = CausalLM(str(folder.parent / "start"))
    rewards: list[RewardTerm] = [TestsReward(), *([LengthPenalty(alpha=alpha * SCALE)] if alpha else [])]
    if algorithm == "DPO":
        pairs, how = folder / "pairs.jsonl", {"max_tokens": MAX_TOKENS, "margin": 0.02, "max_pairs": 8}
        make_pairs(pairs, str(folder.parent / "start"), task(seed), rewards, problems=128, **how)
        module: PolicyModule = DPO(
            policy,
            beta=0.1,
            max_updates=80,
            seed=seed,
            update=Optimization(optimizer=adamw(1e-4), lr_scheduler=falling(80)),
        )
        learn(module, PreferencePairs(str(pairs), batch_size=32, seed=seed), folder)
    elif algorithm != "imitation":
        learn(rollout_module(policy, algorithm, rewards, seed, rollouts), task(seed), folder)
    problems = task(seed).problems("validation")
    greedy, sampled = measured(policy, problems, MAX_TOKENS), measured(policy, problems, MAX_TOKENS, temperature=1.0)
    return {
        "greedy": greedy.pass_at[1],
        "sampled": sampled.pass_at[1],
        "greedy_length": length(greedy),
        "sampled_length": length(sampled),
    }


def rollout_module(
    policy: CausalLM, algorithm: str, rewards: list[RewardTerm], seed: int, rollouts: int
) -> PolicyModule:
    """REINFORCE, or the document's PPO: ratios of whole completions, advantages normalised over the batch."""
    options: dict[str, Any] = {"sampling": Sampling(num_samples=8, max_tokens=MAX_TOKENS), "rewards": rewards}
    if algorithm == "REINFORCE":
        bare = BatchMean(normalize="none")
        return REINFORCE(policy, baseline=bare, **options, **shared(seed, rollouts, lr=6e-4))
    options |= shared(seed, rollouts, lr=6e-4, aggregate="sequence_mean", epochs=2)
    return GRPO(policy, baseline=BatchMean(), objective=Objective(ratio_level="sequence_product"), **options)


def case(name: str, algorithm: str, alpha: float, pass_at: float, tokens: float, seeded: bool = True) -> Case:
    """A case beside the document's figures: pass@1 of 33 problems, and the mean length."""
    theirs = {"greedy": pass_at, "greedy_length": tokens}
    return Case(name, partial(run, algorithm=algorithm, alpha=alpha), theirs, seeded)


def draw(figure: Any, results: Results) -> None:
    """Pass@1 against length, of greedy and of sampled completions."""
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
        case("imitation", "imitation", 0.0, 0.364, 136.33, seeded=False),
        Case("REINFORCE", partial(run, algorithm="REINFORCE")),
        case("REINFORCE, alpha 0.01", "REINFORCE", 0.01, 0.485, 107.55),
        case("REINFORCE, alpha 0.03", "REINFORCE", 0.03, 0.424, 136.21),
        case("PPO, alpha 0.01", "PPO", 0.01, 0.455, 89.64),
        case("PPO, alpha 0.03", "PPO", 0.03, 0.424, 66.33),
        Case("DPO, alpha 0.01", partial(run, algorithm="DPO", alpha=0.01)),
        Case("DPO, alpha 0.03", partial(run, algorithm="DPO", alpha=0.03)),
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
