"""Document 003: programs for a service robot, PPO with the reward at the end, and on places and spread over all tokens.

The tasks are ours (``RobotTasks``), written as a comment and the head of a function, with a tokenizer made from them.
The policy first imitates programs of which 60% carry their family's mistake, so that it makes all three kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from build_tokenizer import build_tokenizer

from lit_rl.data import SimulatorReward
from lit_rl.math.advantages import GAE
from lit_rl.models import CausalLM, Policy, SeparateCritic
from lit_rl.modules import PPO, CriticConfig
from lit_rl.rewards import LintReward, RewardTerm, SyntaxReward
from lit_rl.rewards.token_credit import Credit
from lit_rl.types import Problem, Sampling
from reproductions.learning import imitate, imitation, learn, measured, new_policy, shared, without_training
from reproductions.part import Case, Numbers, Part
from reproductions.pictures import Picture, bar_chart
from reproductions.robot_tasks import FAMILIES, RobotTask, RobotTasks

MAX_TOKENS, BUG_SHARE, NUM_MEASURED = 96, 0.6, 140
KINDS = {
    "python": "python_error",
    "simulation": "robot_execution_error",
    "completion": "completion_error",
    "success": "success",
}


def demonstration(task: RobotTask, number: int) -> str:
    """The program to imitate; families take turns: six rounds with mistakes, four without."""
    wrong = number // len(FAMILIES) % 10 < 10 * BUG_SHARE
    return task.mistaken if wrong else task.reference


def task(seed: int, batch_size: int = 16) -> RobotTasks:
    return RobotTasks(demonstration, num_train=2100, num_validation=NUM_MEASURED, batch_size=batch_size, seed=seed)


def prepare(folder: Path, updates: int = 400) -> None:
    """A tokenizer made from the tasks, and a policy that imitates them."""
    problems = task(0).problems("train")
    imitate(policy_for(problems, folder / "tokenizer"), task(0, batch_size=32), folder, updates)


def policy_for(problems: Sequence[Problem], tokenizer: Path) -> CausalLM:
    """A policy with random weights and a tokenizer made from problems."""
    texts = [f"{problem.prompt}{problem.fields['demonstration']}" for problem in problems]
    build_tokenizer(tokenizer, texts + [str(problem.reference) for problem in problems])
    return new_policy(str(tokenizer))


def run(seed: int, folder: Path, credit: Credit = "terminal", dense: bool = False, rollouts: int = 30) -> Numbers:
    """PPO from the imitation, with or without the document's terms beside the simulator's."""
    rewards: list[RewardTerm] = [SimulatorReward()]
    if dense:
        rewards = [SyntaxReward(weight=0.1), LintReward(weight=0.1), SimulatorReward(weight=0.8)]
    policy = imitation(folder)
    learn(ppo(policy, seed, rollouts, rewards, MAX_TOKENS, credit), task(seed, batch_size=7), folder)
    return outcomes(policy)


def ppo(
    policy: Policy,
    seed: int,
    rollouts: int,
    rewards: list[RewardTerm],
    max_tokens: int,
    credit: Credit,
    gae_lambda: float = 1.0,
) -> PPO:
    """PPO whose critic learns alone in the first five rollouts."""
    return PPO(
        policy,
        critic=SeparateCritic(),
        credit=credit,
        estimator=GAE(gae_lambda=gae_lambda),
        critic_update=CriticConfig(learning_rate=1e-3, warmup_rollouts=5),
        **shared(seed, rollouts, 4e-4, rewards, Sampling(num_samples=8, max_tokens=max_tokens)),
    )


def outcomes(policy: Policy) -> Numbers:
    """Counts of how 80 greedy programs ended, and the share of sampled ones that succeed; no program: Python error."""
    problems = task(0).problems("validation")
    rollouts = measured(policy, problems, MAX_TOKENS).rollouts
    ended = [one.outcome.robot_verdict or "python_error" for rollout in rollouts for one in rollout.judgements]
    counts = {name: 80 * ended.count(kind) / len(problems) for name, kind in KINDS.items()}
    return counts | {"sampled": measured(policy, problems, MAX_TOKENS, temperature=1.0).pass_at[1]}


COLUMNS = {
    "python": "Python errors",
    "simulation": "simulation errors",
    "completion": "completion errors",
    "success": "successes",
    "sampled": "sampled successes (share)",
}

THEIRS = [dict(zip(KINDS, counts, strict=True)) for counts in ((77, 3, 0, 0), (11, 28, 27, 14))]
"""The document's counts, before and after."""
draw = partial(bar_chart, numbers={name: COLUMNS[name] for name in KINDS}, label="greedy programs, of 80", stacked=True)
PART = Part(
    name="robots",
    prepare=prepare,
    cases=(
        Case("imitation", partial(without_training, measure=outcomes), THEIRS[0], seeded=False),
        Case("PPO, reward at the end", partial(run, credit="terminal")),
        Case("PPO, reward on places", partial(run, credit="tokens")),
        Case("the same with syntax and lint terms", partial(run, credit="tokens", dense=True), THEIRS[1]),
    ),
    columns=COLUMNS,
    digits={"python": 1, "simulation": 1, "completion": 1, "success": 1},
    picture=Picture("How greedy programs end before and after training", draw, height=2.4),
)
