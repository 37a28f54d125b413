"""Document 003: programs for a service robot, PPO with the reward at the end, and on places and spread over all tokens.

The tasks are ours (``RobotTasks``), written as a comment and the head of a function, with a tokenizer made from them.
The policy first imitates programs of which 60% carry their family's mistake, so that it makes all three kinds.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from build_tokenizer import build_tokenizer

from lit_rl.data import SimulatorReward
from lit_rl.evaluation import Evaluation
from lit_rl.models import CausalLM, SeparateCritic
from lit_rl.modules import PPO, CriticConfig
from lit_rl.rewards import LintReward, RewardTerm, SyntaxReward
from lit_rl.rewards.token_credit import Credit
from lit_rl.types import Sampling
from reproductions.learning import imitate, learn, measured, shared
from reproductions.part import Case, Numbers, Part
from reproductions.pictures import Picture, Results, bars
from reproductions.robot_tasks import RobotTask, RobotTasks

MAX_TOKENS, BUG_SHARE, NUM_MEASURED = 96, 0.6, 140
FAMILIES = 7
KINDS = {
    "python": "python_error",
    "simulation": "robot_execution_error",
    "completion": "completion_error",
    "success": "success",
}


def demonstration(task: RobotTask, number: int) -> str:
    """The program to imitate; families take turns: six rounds with mistakes, four without."""
    wrong = number // FAMILIES % 10 < 10 * BUG_SHARE
    return with_mistake(task.reference) if wrong else task.reference


def with_mistake(program: str) -> str:
    """A program with the mistake of its family.

    Two do not run (Python errors), two ask for what the world refuses (simulation errors), three do something else than
    was asked (completion errors).
    """
    lines = program.splitlines()
    if "number += 1" in program:  # count: not Python
        lines = [line.replace("number += 1", "number++") for line in lines]
    elif 'found = "missing"' in program:  # search: a name that is not there
        lines.remove("    start = get_current_location()")
    elif "answer = ask(" in program or (
        lines[2].startswith("    pick(") and len(lines) == 5
    ):  # relay, fetch: does not go
        lines = [line for number, line in enumerate(lines) if not (line.startswith("    go_to(") and number < 3)]
    elif "get_all_rooms()" in program:  # patrol: says nothing
        lines = [line.replace("say(", "go_to(room)  # say(") for line in lines]
    else:  # tell, deliver: does not come back
        lines = [line for line in lines if line.strip() != "go_to(start)"]
    return "\n".join(lines) + "\n"


def task(seed: int, batch_size: int = 16) -> RobotTasks:
    return RobotTasks(demonstration, num_train=2100, num_validation=NUM_MEASURED, batch_size=batch_size, seed=seed)


def prepare(folder: Path, updates: int = 400) -> None:
    """A tokenizer made from the tasks, and a policy that imitates them."""
    problems = task(0).problems("train")
    texts = [f"{problem.prompt}{problem.fields['demonstration']}" for problem in problems]
    build_tokenizer(texts + [str(problem.reference) for problem in problems], folder / "tokenizer")
    imitate(folder, task(0, batch_size=32), str(folder / "tokenizer"), updates)


def run(seed: int, folder: Path, credit: Credit = "terminal", dense: bool = False, rollouts: int = 30) -> Numbers:
    """PPO from the imitation, with or without the document's terms beside the simulator's."""
    terms: list[RewardTerm] = [SimulatorReward()]
    if dense:
        terms = [SyntaxReward(weight=0.1), LintReward(weight=0.1), SimulatorReward(weight=0.8)]
    policy = CausalLM(str(folder.parent / "start"))
    module = PPO(
        policy,
        critic=SeparateCritic(),
        credit=credit,
        sampling=Sampling(num_samples=8, max_tokens=MAX_TOKENS),
        rewards=terms,
        critic_update=CriticConfig(learning_rate=1e-3, warmup_rollouts=5),
        **shared(seed, rollouts, lr=4e-4),
    )
    learn(module, task(seed, batch_size=7), folder)
    return outcomes(policy)


def start(seed: int, folder: Path) -> Numbers:
    """The imitation as it is."""
    return outcomes(CausalLM(str(folder.parent / "start")))


def outcomes(policy: CausalLM) -> Numbers:
    """Counts of how 80 greedy programs ended, and the share of sampled ones that succeed."""
    problems = task(0).problems("validation")
    greedy = kinds(measured(policy, problems, MAX_TOKENS))
    sampled = measured(policy, problems, MAX_TOKENS, temperature=1.0).pass_at[1]
    return {name: 80 * greedy[kind] / len(problems) for name, kind in KINDS.items()} | {"sampled": sampled}


def kinds(evaluation: Evaluation) -> Counter[str]:
    """Programs by how they ended; what is no program counts as a Python error."""
    judgements = [judgement for rollout in evaluation.rollouts for judgement in rollout.judgements]
    return Counter(judgement.outcome.robot_verdict or "python_error" for judgement in judgements)


def theirs(python: int, simulation: int, completion: int, success: int) -> dict[str, float]:
    return {"python": python, "simulation": simulation, "completion": completion, "success": success}


COLUMNS = {
    "python": "Python errors",
    "simulation": "simulation errors",
    "completion": "completion errors",
    "success": "successes",
    "sampled": "sampled successes (share)",
}


def draw(figure: Any, results: Results) -> None:
    """Draw how greedy programs end, in every case."""
    axes = figure.subplots()
    kinds = {name: label for name, label in COLUMNS.items() if name in KINDS}
    bars(axes, results, kinds, stacked=True)
    axes.set_xlabel("greedy programs, of 80")
    figure.legend(loc="outside right upper")


PART = Part(
    name="robots",
    prepare=prepare,
    cases=(
        Case("imitation", start, theirs(77, 3, 0, 0), seeded=False),
        Case("PPO, reward at the end", partial(run, credit="terminal")),
        Case("PPO, reward on places", partial(run, credit="tokens")),
        Case("the same with syntax and lint terms", partial(run, credit="tokens", dense=True), theirs(11, 28, 27, 14)),
    ),
    columns=COLUMNS,
    digits={"python": 1, "simulation": 1, "completion": 1, "success": 1},
    picture=Picture("How greedy programs end before and after training", draw, height=2.4),
)
