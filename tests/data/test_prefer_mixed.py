"""Problems that are always or never solved come less often: how often, never twice at once, and after a resume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from support.late_verdicts import Counting, Late, PassedAndEven, Sided
from support.saved_runs import CrashAt, run
from support.slow_cases import slow_but
from support.small_runs import Words, fit, weights

from lit_rl.callbacks import Checkpointing
from lit_rl.data import PreferMixed
from lit_rl.losses import TruncatedWeights
from lit_rl.modules import Objective, RolloutModule
from lit_rl.rollout import FinishedRollout

Make = Callable[..., RolloutModule]
SIDES = {"mixed": (3, 8), "always": (8, 8), "never": (0, 8)}


def told(count: int, rarely: float = 0.25, kinds: tuple[str, ...] = ("mixed", "always", "never")) -> PreferMixed:
    """A preference that saw problems 0, 1, ... end in these ways, by turns."""
    prefer = PreferMixed(rarely)
    prefer.count_solved({str(i): SIDES[kinds[i % len(kinds)]] for i in range(count)})
    prefer.count_solved({})
    prefer.begin()
    return prefer


def epochs(prefer: PreferMixed, count: int, global_batch: int, number: int) -> list[list[int]]:
    """Orders of several epochs in which nothing new is learned."""
    names = [str(i) for i in range(count)]
    draws = (torch.randperm(count, generator=torch.Generator().manual_seed(i)).tolist() for i in range(number))
    return [list(prefer.visits(names, draw, global_batch)) for draw in draws]


@pytest.mark.parametrize("rarely", [0.25, 0.1])
def test_one_sided_problems_come_that_much_less_often(rarely: float) -> None:
    found = epochs(told(120, rarely), 120, 4, 50)
    counts = Counter(i % 3 for order in found for i in order)
    assert sum(counts.values()) == 50 * 120
    for side in (1, 2):
        assert counts[side] / counts[0] == pytest.approx(rarely, abs=0.02)
    assert {i for order in found for i in order} == set(range(120)), "none is left out for ever"


def test_no_problem_comes_twice_in_one_rollout() -> None:
    """Of 30 problems one is mixed: it comes in three or four of six rollouts of five, once in each."""
    for order in epochs(told(30, 0.25, ("mixed", *["never"] * 29)), 30, 5, 20):
        assert all(len(set(order[at : at + 5])) == 5 for at in range(0, 30, 5))
        assert Counter(order)[0] in (3, 4)


def test_while_nothing_is_known_the_order_is_that_without_preference() -> None:
    names, draw = list("abcd"), [2, 0, 3, 1]
    prefer = PreferMixed()
    prefer.count_solved({"a": (0, 0), "b": (0, 8)})  # not judged; and not counted before the epoch ends
    assert prefer.visits(names, draw, 2) is draw
    assert prefer.visits(names, draw, 2, ahead=True) is not draw


@pytest.mark.parametrize("rarely", [0.0, -1.0, 1.5])
def test_a_share_that_makes_no_sense_is_refused(rarely: float) -> None:
    with pytest.raises(ValueError, match="rarely: expected a share above 0 and at most 1"):
        PreferMixed(rarely)


def test_a_task_that_runs_no_programs_is_refused() -> None:
    with pytest.raises(ValueError, match="prefer goes by verdicts on programs, and this task runs none"):
        Words(batch_size=3, prefer=PreferMixed()).train_dataloader()


# -- in runs -------------------------------------------------------------------------------------------------


class Order(pl.Callback):
    """Task ids of each rollout."""

    def __init__(self) -> None:
        self.rollouts: list[list[str]] = []

    def on_rollout_end(self, trainer: Any, module: Any, finished: FinishedRollout) -> None:
        self.rollouts.append(sorted({judgement.problem.task_id for judgement in finished.rollout.judgements}))


def module_of(make_module: Make, staleness: int, max_rollouts: int, engine: Any = None) -> RolloutModule:
    correction = TruncatedWeights() if staleness else None
    return make_module(
        sandbox=Late,
        engine=engine,
        rewards=[PassedAndEven()],
        staleness=staleness,
        objective=Objective(correction=correction),
        max_rollouts=max_rollouts,
    )


def sides(order: list[list[str]]) -> Counter[int]:
    """Counts of problems that are sometimes, always and never solved."""
    return Counter(int(task_id.removeprefix("train")) % 3 for batch in order for task_id in batch)


@pytest.mark.slow
@pytest.mark.parametrize("staleness", [0, 1])
def test_a_run_takes_problems_that_are_always_or_never_solved_less_often(
    make_module: Make, tmp_path: Path, staleness: int
) -> None:
    """Epochs of four rollouts, three problems each; sampled ahead, nothing is sampled in vain.

    Another fit on the same data begins without what the one before knew.
    """
    order, plain, again = Order(), Order(), Order()
    engine, data = Counting(), Sided(batch_size=3, prefer=PreferMixed())
    fit(module_of(make_module, staleness, 14, engine), tmp_path, data=data, callbacks=[order])
    assert engine.sessions == 14
    fit(module_of(make_module, staleness, 14), tmp_path, data=Sided(batch_size=3), callbacks=[plain])
    assert order.rollouts[:4] == plain.rollouts[:4]
    assert all(len(batch) == 3 for batch in order.rollouts)
    later, evenly = sides(order.rollouts[4:]), sides(plain.rollouts[4:])
    assert later[0] >= 1.5 * evenly[0]
    assert later[1] < evenly[1] and later[2] < evenly[2]
    if not staleness:
        fit(module_of(make_module, 0, 14), tmp_path, data=data, callbacks=[again])
        assert again.rollouts == order.rollouts


STOPS = [(0, (1, 5)), (0, (4, 8)), (1, (5, 8)), (1, (6,))]


@pytest.mark.parametrize(("staleness", "stops"), slow_but(STOPS[3:], STOPS), ids=str)
def test_a_killed_run_ends_like_one_that_was_not(
    make_module: Make, tmp_path: Path, staleness: int, stops: tuple[int, ...]
) -> None:
    def start(folder: str, *others: Any) -> RolloutModule:
        module = module_of(make_module, staleness, 10)
        data = Sided(batch_size=3, prefer=PreferMixed())
        run(module, Checkpointing(str(tmp_path / folder), 1), *others, data=data)
        return module

    order, after = Order(), Order()
    whole = start("whole", order)
    for stop in stops:
        with pytest.raises(InterruptedError):
            start("a", CrashAt(stop))
    again = start("a", after)
    assert after.rollouts == order.rollouts[-len(after.rollouts) :]
    later = sides(order.rollouts[4:])  # without a preference, six of each
    assert later.total() == 18 and later[0] >= 9 > 6 > max(later[1], later[2])
    assert torch.equal(weights(again), weights(whole))
