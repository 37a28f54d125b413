"""Every algorithm's updates against its formula in plain Python: weights, and the size of what is logged.

One rollout holds rows that could not be judged, one that the token limit cut and rows that earned what was expected of
them. It is learned from in three minibatches of unequal rows and unequal micro-batches. A policy is a table of two
logits for each cell of a corridor, so a gradient can be had by differences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import mean, stdev, variance
from typing import Any, NamedTuple

import pytest
import torch
from support.completions import with_stop_reasons
from support.small_runs import Scored, fit, grouped
from support.two_turns import rows_of
from torch import nn

from lit_rl.data import Corridor, CorridorCritic, CorridorPolicy
from lit_rl.data.preferences import PreferencePair
from lit_rl.data.task import Split, TaskDataModule
from lit_rl.execution import Outcome, TokenTarget, Verdict
from lit_rl.math.advantages import BatchMean, GroupMean
from lit_rl.math.losses import Clipped, PolicyGradient, TruncatedWeights
from lit_rl.models.reference import make_frozen_copy
from lit_rl.modules import DPO, GRPO, PPO, REINFORCE, SFT, Objective, RolloutModule
from lit_rl.rollout import Rollout
from lit_rl.types import Judgement, Problem, Sampling, StopReason

Table = list[list[float]]
"""Numbers by cell: two logits, or one value."""

CELLS, LIMIT, RATE, COEF, TEMPERATURE = 4, 9, 0.5, 0.25, 0.8
START: Table = [[0.0, 0.0], [0.4, -0.3], [-0.2, 0.5], [0.1, 0.7], [0.6, 0.2]]
REFERENCE: Table = [[0.0, 0.0], [0.1, 0.2], [0.3, -0.4], [-0.5, 0.3], [0.2, 0.9]]
VALUES: Table = [[0.0], [0.5], [-0.25], [0.75], [0.3]]


class Row(NamedTuple):
    """A walk: 1 is a step towards the goal (cell 0), 0 one away from it; no reward if nothing judged it."""

    group: int
    start: int
    moves: list[int]
    reward: float | None
    cut: bool = False

    @property
    def cells(self) -> list[int]:
        """The cell before each move, and that after the last."""
        found = [self.start]
        for move in self.moves:
            found.append(found[-1] - 1 if move else min(found[-1] + 1, CELLS))
        return found


# The mean of all eight rewards is 0.5, which is what each judged row of group 1 earned.
ROWS = [
    Row(0, 4, [1, 0, 1, 1, 0, 1], 2.0),
    Row(0, 4, [1, 1, 1, 0], None),
    Row(0, 4, [0, 0, 1], 0.25, cut=True),
    Row(0, 4, [1, 1], -0.5),
    Row(1, 3, [1], 0.5),
    Row(1, 3, [0, 1, 1, 0, 0], 0.5),
    Row(1, 3, [1, 1, 0], None),
    Row(2, 2, [0, 0, 1, 1, 0, 1, 0], 1.0),
    Row(2, 2, [1, 0, 0, 0], 0.0),
    Row(2, 2, [0, 0, 1, 0, 1, 1, 1, 0], 0.25),
]
JUDGED = [i for i, row in enumerate(ROWS) if row.reward is not None]
SAMPLED = [[-0.5 - 0.07 * ((3 * i + 5 * t) % 8) for t in range(len(row.moves))] for i, row in enumerate(ROWS)]
"""Log-probabilities that the sampler reported, nats."""


def chances(table: Table, cell: int, temperature: float) -> list[float]:
    weights = [exp(logit / temperature) for logit in table[cell]]
    return [weight / sum(weights) for weight in weights]


def logprobs(table: Table, row: Row, temperature: float = TEMPERATURE) -> list[float]:
    return [log(chances(table, at, temperature)[move]) for at, move in zip(row.cells, row.moves, strict=False)]


def entropies(table: Table, row: Row) -> list[float]:
    return [-sum(p * log(p) for p in chances(table, at, TEMPERATURE)) for at in row.cells[:-1]]


def descended(loss: Callable[[Table], float], table: Table, rate: float = RATE) -> Table:
    """The table after one step of gradient descent, by central differences."""

    def at(cell: int, column: int, by: float) -> float:
        moved = [list(numbers) for numbers in table]
        moved[cell][column] += by
        return loss(moved)

    return [
        [x - rate * (at(cell, k, 1e-6) - at(cell, k, -1e-6)) / 2e-6 for k, x in enumerate(numbers)]
        for cell, numbers in enumerate(table)
    ]


def reduced(mode: str, losses: dict[int, list[float]], rows: list[int]) -> float:
    """One number from the token losses of the rows that count; those without a loss of their own count too."""
    tokens = sum(len(ROWS[i].moves) for i in rows)
    if mode == "token_mean":
        return sum(map(sum, losses.values())) / tokens
    if mode == "sequence_mean":
        return sum(map(mean, losses.values())) / len(rows)
    return sum(map(sum, losses.values())) / (len(rows) * (LIMIT if mode == "sequence_sum_constant" else 1))


# -- the module's side ---------------------------------------------------------------------------------------


def played(module: Any) -> Any:
    """Give a module the rows above as its only rollout, and have it note the rows of each update."""
    rows = rows_of([[CELLS, row.start] for row in ROWS], [[row.moves] for row in ROWS])
    rows = with_stop_reasons(rows, *(StopReason.LENGTH if row.cut else StopReason.EOS for row in ROWS))
    sampled = rows.sampler_logprobs.clone()
    for i, values in enumerate(SAMPLED):
        sampled[i, : len(values)] = torch.tensor(values)
    ids = rows.completion_ids * rows.completion_mask
    groups = torch.tensor([row.group for row in ROWS])
    rows = replace(rows, completion_ids=ids, sampler_logprobs=sampled, group_ids=groups)
    lost, fine = Outcome(Verdict.INFRASTRUCTURE_FAILURE), Outcome(Verdict.NO_PROGRAM)
    outcomes = [lost if row.reward is None else fine for row in ROWS]
    judgements = tuple(Judgement(p, None, outcome) for p, outcome in zip(rows.problems, outcomes, strict=True))
    module.collect = lambda batch: Rollout(rows, judgements)
    module.updates = []
    update_once = module.update_once
    module.update_once = lambda experience, minibatch, *rest: (
        module.updates.append(minibatch.rows.tolist()) or update_once(experience, minibatch, *rest)
    )
    return module


def embedding(table: Table) -> nn.Embedding:
    return nn.Embedding.from_pretrained(torch.tensor(table, dtype=torch.float64), freeze=False)


def policy() -> CorridorPolicy:
    """In double precision, away from its reference."""
    made = CorridorPolicy(CELLS)
    made.weights, made.frozen_reference = embedding(START), make_frozen_copy(embedding(REFERENCE))
    return made


def learned(folder: Path, cls: type[RolloutModule], **options: Any) -> tuple[Any, dict[str, float]]:
    common: dict[str, Any] = {
        "rewards": [Scored(lambda _: (row.reward for row in ROWS))],
        "sampling": Sampling(num_samples=len(ROWS), max_tokens=LIMIT, temperature=TEMPERATURE),
        "optimizer": lambda params: torch.optim.SGD(params, lr=RATE),
        "gradient_clip_norm": None,
        "minibatches": 3,
        "microbatch_size": 2,
        "max_rollouts": 1,
        "max_failures": 0.5,
    }
    module = played(cls(policy(), **grouped(cls, **(common | options))))
    trainer = fit(module, folder, data=Corridor(CELLS, batch_size=1))
    return module, {name: float(value) for name, value in trainer.callback_metrics.items()}


def close(weights: nn.Module, table: Table) -> bool:
    """Advantages are float32."""
    found: Any = weights.weight
    return torch.allclose(found, torch.tensor(table, dtype=torch.float64), rtol=0, atol=2e-7)


# -- losses of a token ---------------------------------------------------------------------------------------

TokenLoss = Callable[[float, float, float, float], float]
"""From new and old log-probability, that of the sampler, and the advantage."""


def surrogate(new: float, old: float, sampled: float, a: float) -> float:
    ratio = exp(new - old)
    return -min(ratio * a, min(max(ratio, 0.97), 1.05) * a)


CLIPPED = Clipped(clip_low=0.03, clip_high=0.05)
LOSSES: dict[str, tuple[Objective, TokenLoss]] = {
    "clipped": (Objective(loss=CLIPPED), surrogate),
    "corrected": (
        Objective(loss=CLIPPED, correction=TruncatedWeights(cap=1.1)),
        lambda new, old, sampled, a: min(exp(old - sampled), 1.1) * surrogate(new, old, sampled, a),
    ),
    "of_sequences": (Objective(loss=CLIPPED, ratio_level="sequence"), surrogate),
    "plain": (Objective(loss=PolicyGradient()), lambda new, old, sampled, a: -new * a),
}


def expect(
    module: Any,
    logged: dict[str, float],
    advantages: dict[int, list[float]],
    counted: list[int],
    token_loss: TokenLoss,
    mode: str = "token_mean",
    extra: Callable[[Table, int], list[float]] | None = None,
    critic: Callable[[Table, list[int]], float] | None = None,
) -> None:
    """Check the weights after all updates, and the losses that were logged.

    ``counted`` are the rows in the denominator. With an ``extra`` loss of tokens, or a ``critic`` that learns from
    rows, each of them has a gradient.
    """
    table, values, old = START, VALUES, [logprobs(START, row) for row in ROWS]
    totals, per_token, kls = [], [], []
    for update in module.updates:
        rows = [i for i in update if i in counted]
        going = [i for i in rows if extra or critic or any(advantages[i])]  # the others have no gradient
        if not going:
            continue

        def losses(at: Table, going: list[int] = going) -> dict[int, list[float]]:
            found = {}
            for i in going:
                new = logprobs(at, ROWS[i])
                if module.objective.ratio_level == "sequence":  # one ratio for all tokens of a row
                    new = [before + mean(new) - mean(old[i]) for before in old[i]]
                tokens = zip(new, old[i], SAMPLED[i], advantages[i], strict=True)
                found[i] = [token_loss(*token) for token in tokens]
                if extra:
                    found[i] = [one + more for one, more in zip(found[i], extra(at, i), strict=True)]
            return found

        def total(at: Table, rows: list[int] = rows, losses: Any = losses) -> float:
            return reduced(mode, losses(at), rows)

        totals.append(total(table))
        per_token += [loss for of_row in losses(table).values() for loss in of_row]
        for i in going:
            steps = [new - was for new, was in zip(logprobs(table, ROWS[i]), old[i], strict=True)]
            kls += [exp(step) - 1 - step for step in steps]
        table = descended(total, table)
        if critic:
            totals[-1] += critic(values, rows)
            values = descended(lambda at, rows=rows: critic(at, rows), values)
    assert close(module.policy.weights, table)
    assert len(module.updates) == module.update.steps_per_rollout and max(kls) > 1e-6
    assert logged["loss"] == pytest.approx(mean(totals), rel=1e-5)
    assert logged["policy/loss"] == pytest.approx(mean(per_token), rel=1e-5)
    assert logged["policy/approximate_kl"] == pytest.approx(mean(kls), rel=1e-5)
    if critic:
        assert close(module.critic.weights, values)


def over_group(rewards: dict[int, float], normalize: bool) -> dict[int, list[float]]:
    """Reward minus that of the group's judged rows, over their deviation; the same for all tokens of a row."""
    found = {}
    for i, reward in rewards.items():
        of_group = [rewards[j] for j in rewards if ROWS[j].group == ROWS[i].group]
        divisor = stdev(of_group) + 1e-6 if normalize else 1.0
        found[i] = [(reward - mean(of_group)) / divisor] * len(ROWS[i].moves)
    return found


REWARDS = {i: float(ROWS[i].reward) for i in JUDGED}  # type: ignore[arg-type]
KEPT = [i for i in JUDGED if not ROWS[i].cut]


@pytest.mark.parametrize(
    ("loss", "mode", "mask_truncated"),
    [
        ("clipped", "token_mean", False),
        ("clipped", "sequence_mean", True),
        ("clipped", "sequence_sum", False),
        ("clipped", "sequence_sum_constant", True),
        ("corrected", "token_mean", True),
        ("of_sequences", "sequence_mean", False),
    ],
)
def test_grpo_takes_the_steps_of_its_formula(tmp_path: Path, loss: str, mode: str, mask_truncated: bool) -> None:
    """Items 1, 2, 11, 15, 16, 19, 41, 58: in two epochs ratios leave 1; group 1 has no advantage and is counted."""
    objective, token_loss = LOSSES[loss]
    options: dict[str, Any] = {"aggregate": mode, "mask_truncated": mask_truncated, "epochs": 2}
    module, logged = learned(tmp_path, GRPO, objective=objective, **options)
    expect(module, logged, over_group(REWARDS, True), KEPT if mask_truncated else JUDGED, token_loss, mode)
    assert logged["update/trained_fraction"] == pytest.approx((5 if mask_truncated else 6) / 10)
    assert logged["group/zero_advantage_fraction"] == pytest.approx(1 / 3)
    assert any(logged["policy/entropy"] == pytest.approx(mean(entropies(START, row))) for row in ROWS), "of one row"


def test_an_update_without_a_row_that_learns_is_left_out(tmp_path: Path) -> None:
    """Ten minibatches of one row: four rows have no advantage, or nothing judged them."""
    objective, token_loss = LOSSES["clipped"]
    module, logged = learned(tmp_path, GRPO, objective=objective, minibatches=10)
    expect(module, logged, over_group(REWARDS, True), JUDGED, token_loss)
    assert module.policy.version == 6


KINDS: dict[str, Callable[[float, float, float], float]] = {
    "k1": lambda new, ref, old: new - ref,
    "k2": lambda new, ref, old: (new - ref) ** 2 / 2,
    "k3": lambda new, ref, old: exp(ref - new) - 1 - (ref - new),
    "k3_weighted": lambda new, ref, old: exp(new - old) * (exp(ref - new) - 1 - (ref - new)),
}


def drift(table: Table, row: Row, kind: str) -> list[float]:
    tokens = zip(*(logprobs(at, row) for at in (table, REFERENCE, START)), strict=True)
    return [KINDS[kind](*token) for token in tokens]


@pytest.mark.parametrize(
    ("kind", "kl", "bonus"), [("k3", COEF, 0.125), ("k2", COEF, 0), ("k3", 0, 0.125), ("k3_weighted", COEF, 0)]
)
def test_a_kl_and_an_entropy_bonus_are_in_the_loss_of_every_row(
    tmp_path: Path, kind: Any, kl: float, bonus: float
) -> None:
    """Items 37, 43, 48, 74: rows without an advantage have a gradient then."""
    objective = Objective(loss=CLIPPED, kl_coef=kl, kl_kind=kind, entropy_coef=bonus)
    module, logged = learned(tmp_path, GRPO, objective=objective, mask_truncated=True)

    def extra(at: Table, i: int) -> list[float]:
        pairs = zip(drift(at, ROWS[i], kind), entropies(at, ROWS[i]), strict=True)
        return [kl * away - bonus * entropy for away, entropy in pairs]

    expect(module, logged, over_group(REWARDS, True), KEPT, surrogate, extra=extra)


def test_a_kl_in_the_reward_is_taken_off_before_the_baseline(tmp_path: Path) -> None:
    """Item 32: the reward that is logged is that of the task alone."""
    objective = Objective(loss=CLIPPED, kl_coef=COEF, kl_in="reward")
    baseline = GroupMean(normalize="none")
    module, logged = learned(tmp_path, GRPO, objective=objective, baseline=baseline, mask_truncated=True, epochs=2)
    totals = {i: reward - COEF * sum(drift(START, ROWS[i], "k1")) for i, reward in REWARDS.items()}
    expect(module, logged, over_group(totals, False), KEPT, surrogate)
    assert logged["reward/mean"] == 0.5 and logged["reward/invalid_fraction"] == pytest.approx(0.2)


@pytest.mark.parametrize(("gamma", "mask_truncated"), [(1.0, False), (0.5, True)])
def test_reinforce_takes_the_steps_of_its_formula(tmp_path: Path, gamma: float, mask_truncated: bool) -> None:
    """The mean of all other judged rows is taken off."""
    options: dict[str, Any] = {"gamma": gamma, "mask_truncated": mask_truncated, "aggregate": "sequence_mean"}
    options |= {"baseline": BatchMean(normalize="none"), "objective": LOSSES["plain"][0]}
    module, logged = learned(tmp_path, REINFORCE, **options)
    others = {i: (sum(REWARDS.values()) - r) / (len(REWARDS) - 1) for i, r in REWARDS.items()}
    advantages = {
        i: [r * gamma**left - others[i] for left in reversed(range(len(ROWS[i].moves)))] for i, r in REWARDS.items()
    }
    counted = KEPT if mask_truncated else JUDGED
    expect(module, logged, advantages, counted, LOSSES["plain"][1], "sequence_mean")


def test_deltas_take_the_place_of_a_baseline(tmp_path: Path) -> None:
    options: dict[str, Any] = {"deltas": GroupMean(normalize="none"), "objective": LOSSES["clipped"][0], "epochs": 2}
    module, logged = learned(tmp_path, REINFORCE, mask_truncated=True, **options)
    expect(module, logged, over_group(REWARDS, False), KEPT, surrogate)


GAMMA, LAMBDA, WEIGHT, CLIP = 0.9, 0.8, 0.75, 0.04


def of_tokens(treatment: str) -> tuple[dict[int, list[float]], dict[int, list[float]]]:
    """Advantages and returns of the tokens of each judged row, from the last to the first."""
    advantages, returns = {}, {}
    for i in KEPT if treatment == "mask" else JUDGED:
        row, following = ROWS[i], 0.0
        after = VALUES[row.cells[-1]][0] if treatment == "bootstrap" and row.cut else 0.0
        rewards = [-COEF * kl for kl in drift(START, row, "k1")]
        if not (treatment == "bootstrap" and row.cut):  # then the critic's value stands for the outcome
            rewards[-1] += REWARDS[i]
        found: list[float] = []
        for at, reward in zip(reversed(row.cells[:-1]), reversed(rewards), strict=True):
            following = reward + GAMMA * after - VALUES[at][0] + GAMMA * LAMBDA * following
            after = VALUES[at][0]
            found.insert(0, following)
        advantages[i] = found
        returns[i] = [a + VALUES[at][0] for a, at in zip(found, row.cells, strict=False)]
    return advantages, returns


@pytest.mark.parametrize(
    ("treatment", "whiten"), [("zero", False), ("mask", True), ("mask", False), ("bootstrap", True)]
)
def test_ppo_takes_the_steps_of_its_formula(tmp_path: Path, treatment: str, whiten: bool) -> None:
    """Items 5, 58: KL in the reward, a value clip that bites in the second epoch, and a critic's weight."""
    critic = CorridorCritic(CELLS)
    critic.weights = embedding(VALUES)
    options: dict[str, Any] = {"objective": Objective(loss=CLIPPED, kl_coef=COEF), "gamma": GAMMA, "whiten": whiten}
    options |= {"gae_lambda": LAMBDA, "coef": WEIGHT, "value_clip": CLIP, "aggregate": "sequence_mean", "epochs": 2}
    options |= {"critic_gradient_clip_norm": None, "critic_learning_rate": None}
    options |= {"mask_truncated": treatment == "mask", "bootstrap_truncated": treatment == "bootstrap"}
    module, logged = learned(tmp_path, PPO, critic=critic, **options)
    advantages, returns = of_tokens(treatment)
    every = [a for of_row in advantages.values() for a in of_row]
    first_errors = [
        (VALUES[at][0] - target) ** 2
        for i, targets in returns.items()
        for at, target in zip(ROWS[i].cells, targets, strict=False)
    ]
    if whiten:
        advantages = {i: [(a - mean(every)) / stdev(every) for a in of_row] for i, of_row in advantages.items()}

    def of_critic(values: Table, rows: list[int]) -> float:
        losses = {}
        for i in rows:
            losses[i] = []
            for at, target in zip(ROWS[i].cells, returns[i], strict=False):
                value, before = values[at][0], VALUES[at][0]
                near = before + min(max(value - before, -CLIP), CLIP)
                losses[i].append(max((value - target) ** 2, (near - target) ** 2) / 2)
        return WEIGHT * reduced("sequence_mean", losses, rows)

    expect(module, logged, advantages, list(returns), surrogate, "sequence_mean", critic=of_critic)
    spread = variance([target for targets in returns.values() for target in targets])
    assert logged["critic/explained_variance"] == pytest.approx(1 - variance(every) / spread, rel=1e-5)
    assert logged["critic/value_loss"] != pytest.approx(mean(first_errors) / 2), "the critic did not move"


# -- given texts ---------------------------------------------------------------------------------------------


class Walks(TaskDataModule):
    """The judged walks as demonstrations, and as pairs of one walk and the next."""

    name = "walks"

    def load_problems(self, split: Split) -> list[Problem]:
        return [self.problem(number, *pair) for number, pair in enumerate(PAIRS)]

    def problem(self, number: int, chosen: Row, rejected: Row) -> Problem:
        texts = [" ".join(map(str, row.moves)) for row in (chosen, rejected)]
        pair = PreferencePair(f"{number}", "", *texts, 1.0, 0.0)
        fields = {"pair": pair, "demonstration": texts[0]}
        return Problem(f"{number}", "", TokenTarget((CELLS, chosen.start)), fields=fields)


PAIRS = [
    (ROWS[chosen], ROWS[rejected]._replace(start=ROWS[chosen].start))
    for chosen, rejected in [(0, 3), (5, 4), (7, 8), (9, 3), (4, 6)]
]


def of_texts(cls: Any, rate: float) -> dict[str, Any]:
    def sgd(params: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(params, lr=rate)

    return grouped(cls, optimizer=sgd, gradient_clip_norm=None, microbatch_size=2, max_updates=2)


def test_sft_takes_the_steps_of_its_formula(tmp_path: Path) -> None:
    """Five texts in three micro-batches; the loss is the mean over their tokens."""
    module = SFT(policy(), **of_texts(SFT, RATE))
    trainer = fit(module, tmp_path, data=Walks(batch_size=5))

    def loss(table: Table) -> float:
        return -mean(one for row, _ in PAIRS for one in logprobs(table, row, 1.0))

    once = descended(loss, START)
    assert close(module.policy.weights, descended(loss, once))  # type: ignore[arg-type]
    assert float(trainer.callback_metrics["sft/loss"]) == pytest.approx(loss(once), rel=1e-6)


SHAPES: dict[str, Callable[[float], float]] = {
    "sigmoid": lambda margin: log(1 + exp(-margin)),
    "hinge": lambda margin: max(0.0, 1 - margin),
    "ipo": lambda margin: (margin / COEF - 1 / (2 * COEF)) ** 2,
}


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("average", [None, True, False])
def test_dpo_takes_the_steps_of_its_formula(tmp_path: Path, kind: Any, average: bool | None) -> None:
    """Five pairs in three micro-batches, from a policy that is not its reference.

    By default, as in TRL, log-probabilities are averaged over tokens for IPO alone.
    """
    rate = RATE / 10
    module = DPO(policy(), kind=kind, beta=COEF, average=average, **of_texts(DPO, rate))
    trainer = fit(module, tmp_path, data=Walks(batch_size=5))
    of_tokens = mean if average or (average is None and kind == "ipo") else sum

    def rewards(table: Table) -> list[list[float]]:
        return [
            [COEF * (of_tokens(logprobs(table, row, 1.0)) - of_tokens(logprobs(REFERENCE, row, 1.0))) for row in pair]
            for pair in PAIRS
        ]

    def loss(table: Table) -> float:
        return mean(SHAPES[kind](chosen - rejected) for chosen, rejected in rewards(table))

    once = descended(loss, START, rate)
    assert close(module.policy.weights, descended(loss, once, rate))  # type: ignore[arg-type]
    chosen, rejected = zip(*rewards(once), strict=True)
    margins = [a - b for a, b in zip(chosen, rejected, strict=True)]
    expected = {"loss": loss(once), "margin": mean(margins), "accuracy": mean(margin > 0 for margin in margins)}
    expected |= {"chosen_reward": mean(chosen), "rejected_reward": mean(rejected)}
    logged = {name: float(trainer.callback_metrics[f"dpo/{name}"]) for name in expected}
    assert logged == pytest.approx(expected, rel=1e-6)
