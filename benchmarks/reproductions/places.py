"""Document 003 on longer programs: PPO with one reward at the end, and on places with the rest spread.

A program runs two errands in 10 to 19 lines. The policy first imitates programs in
which every errand has its family's mistake with probability one half, so that one in four is right.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from lit_rl.data import SimulatorReward
from lit_rl.data.robots.robot_checks import RobotWorlds
from lit_rl.data.robots.trace_checks import check_holds
from lit_rl.models import Policy
from lit_rl.rewards import RewardTerm
from lit_rl.rewards.term import TermScore
from lit_rl.rewards.token_credit import Credit, valueless_score_if_unjudged
from lit_rl.types import Completions, Judgement
from reproductions.learning import Seen, imitate, imitation, learn, measured, without_training
from reproductions.part import Case, Numbers, Part
from reproductions.pictures import Picture, Results, curves
from reproductions.robot_tasks import RobotTask, RobotTasks, one_program
from reproductions.robots import policy_for, ppo

ERRANDS, MISTAKES, NUM_MEASURED = 2, 0.5, 140
MAX_TOKENS = 128
LEVELS, WINDOW = (0.3, 0.4), 5
PASSED, EXPLAINED = "execution/pass_rate", "critic/explained_variance"


class ErrandsReward(RewardTerm):
    """Share of the errands whose condition holds in every world that the program was run in, 0 to 1."""

    default_name = "errands"

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        """Scores of all N completions; none where the sandbox failed."""
        return [valueless_score_if_unjudged(judgement) or TermScore(_share(judgement)) for judgement in judgements]


def _share(judgement: Judgement) -> float:
    check, number = judgement.problem.check, len(judgement.problem.fields["errands"])
    assert isinstance(check, RobotWorlds)
    # A world's condition is ["and", ...] with a formula for each errand, in their order.
    pairs = list(zip(check.tests, judgement.outcome.traces, strict=False))
    done = [all(holds_or_false(test.check[1 + i], trace) for test, trace in pairs) for i in range(number)]
    return sum(done) / number if pairs else 0.0


def holds_or_false(formula: Any, trace: Any) -> bool:
    try:
        return check_holds(formula, trace)
    except TypeError:  # the program offered options that are not text
        return False


def demonstration(task: RobotTask, number: int) -> str:
    """The program to imitate: every errand with its mistake or without, each with its own chance."""
    rng = random.Random(number)
    errands = task.errands or [task]
    return one_program([mistaken(errand) if rng.random() < MISTAKES else errand.reference for errand in errands])


def mistaken(errand: RobotTask) -> str:
    """An errand with its mistake; a search forgets what it says if it finds nothing, as others know the start."""
    unsaid = '    found = "missing"\n'
    return errand.reference.replace(unsaid, "") if unsaid in errand.reference else errand.mistaken


def task(seed: int, batch_size: int = 16, num_errands: int = ERRANDS) -> RobotTasks:
    options: Any = {"batch_size": batch_size, "seed": seed}
    return RobotTasks(demonstration, 6000, NUM_MEASURED, num_errands=num_errands, **options)


def prepare(folder: Path, short: int = 400, long: int = 400) -> None:
    """A tokenizer made from the tasks, and a policy that imitates them; single errands first, to learn to copy."""
    problems = [problem for number in (1, ERRANDS) for problem in task(0, num_errands=number).problems("train")]
    policy = policy_for(problems, folder / "tokenizer")
    imitate(policy, task(0, batch_size=32, num_errands=1), folder / "single errands", short)
    imitate(policy, task(0, batch_size=32), folder, long, lr=4e-3)


def run(
    seed: int,
    folder: Path,
    credit: Credit = "terminal",
    term: type[RewardTerm] = SimulatorReward,
    rollouts: int = 30,
    gae_lambda: float = 0.95,
) -> Numbers:
    """PPO from the imitation."""
    policy, seen = imitation(folder), Seen(PASSED, EXPLAINED)
    module = ppo(policy, seed, rollouts, [term()], MAX_TOKENS, credit, gae_lambda)
    learn(module, task(seed, batch_size=7), folder, seen)
    curve = smoothed(seen.values[PASSED])
    numbers = outcomes(policy) | {"explained": seen.last(EXPLAINED), "curve": curve}
    for level in LEVELS:
        reached = [n for n, value in enumerate(curve, 1) if n >= WINDOW and value >= level]
        numbers |= {f"until_{level}": reached[0]} if reached else {}
    return numbers


def smoothed(values: Sequence[float]) -> list[float]:
    """Means over the last five values, at the beginning over those that are there."""
    return [mean(values[max(0, end - WINDOW) : end]) for end in range(1, len(values) + 1)]


def outcomes(policy: Policy) -> dict[str, Any]:
    """Share of greedy and of sampled programs that succeed, and of the failed ones how many have a place."""
    problems = task(0).problems("validation")
    greedy = measured(policy, problems, MAX_TOKENS)
    sampled = measured(policy, problems, MAX_TOKENS, temperature=1.0)
    failed = [j for rollout in sampled.rollouts for j in rollout.judgements if not j.outcome.passed]
    placed = sum(judgement.outcome.line is not None for judgement in failed) / max(len(failed), 1)
    return {"greedy": greedy.pass_at[1], "sampled": sampled.pass_at[1], "placed": placed}


def draw(figure: Any, results: Results) -> None:
    axes = figure.subplots()
    curves(axes, results, "curve")
    axes.set_title("programs that succeed, over five rollouts")
    figure.legend(loc="outside right upper")


PART = Part(
    name="places",
    prepare=prepare,
    cases=(
        Case("imitation", partial(without_training, measure=outcomes), seeded=False),
        Case("PPO, reward at the end", partial(run, credit="terminal")),
        Case("the same with lambda 1", partial(run, credit="terminal", gae_lambda=1.0)),
        Case("PPO, reward on places", partial(run, credit="tokens")),
        Case("PPO, share of errands as reward, at the end", partial(run, credit="terminal", term=ErrandsReward)),
    ),
    columns={
        **{f"until_{level}": f"rollouts until {level}" for level in LEVELS},
        "greedy": "greedy successes",
        "sampled": "sampled successes",
        "placed": "failures at a known line",
        "explained": "critic's explained variance",
    },
    digits={f"until_{level}": 1 for level in LEVELS},
    picture=Picture("Programs that succeed over the rollouts, by where the reward was put", draw),
)
