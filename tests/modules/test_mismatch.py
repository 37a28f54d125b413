"""Sampler and trainer are compared on every rollout; an engine that is off is named before it does harm."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.late_verdicts import Late, PassedAndEven, Programs
from support.small_runs import EvenBytes, Scored, fit
from support.two_turns import rows_of

from lit_rl.engines import Engine, InProcess, Session
from lit_rl.losses import TruncatedWeights
from lit_rl.models import CorridorPolicy, Policy
from lit_rl.modules import Collect, Objective, RolloutModule
from lit_rl.rewards.term import RewardTerm
from lit_rl.rollout.sampler import Sampler
from lit_rl.rollout.sampler_check import SamplerCheck, SamplerMismatchError, add_mismatch, with_effective_size
from lit_rl.training.ranks import Means
from lit_rl.types import Generation, Request, Sampling

Make = Callable[..., RolloutModule]
NAMES = {
    *(f"sampling/{name}" for name in ("logprob_gap/mean", "logprob_gap/max", "effective_sample_size")),
    *(f"sampling/importance_ratio/{name}" for name in ("min", "mean", "max")),
}


class Copies(Engine):
    """Samples with a copy of the weights, which is renewed before each rollout unless an arrival is skipped."""

    def __init__(self, skips: Sequence[int] = (), wrong: str = "") -> None:
        self.skips, self.wrong = skips, wrong
        self.copy: Any = None

    @contextmanager
    def session(self, policy: Policy, sampling: Sampling) -> Iterator[Session]:
        if self.copy is None or policy.version not in self.skips:
            self.copy = copy.deepcopy(policy)
        self.copy.version = policy.version  # it says that it is up to date
        used = replace(sampling, top_k=20) if self.wrong == "filter" else sampling
        with InProcess().session(self.copy, used) as session:
            yield AtOne(session, self.copy) if self.wrong == "temperature" else session


class AtOne(Session):
    """Reports log-probabilities at temperature 1, whatever the samples were drawn at."""

    def __init__(self, session: Session, policy: Any) -> None:
        self.session, self.policy = session, policy
        self.prompts: dict[int, tuple[int, ...]] = {}

    def submit(self, requests: Sequence[Request]) -> None:
        self.prompts |= {request.row: request.prompt_ids for request in requests}
        self.session.submit(requests)

    def step(self) -> list[Generation]:
        return [replace(done, logprobs=self.at_one(done)) for done in self.session.step()]

    def at_one(self, done: Generation) -> tuple[float, ...]:
        prompt = self.prompts[done.row]
        logits = self.policy.model(torch.tensor([[*prompt, *done.ids]])).logits[0, len(prompt) - 1 : -1]
        found: list[float] = logits.log_softmax(-1).gather(-1, torch.tensor(done.ids)[:, None])[:, 0].tolist()
        return tuple(found)

    @property
    def num_unfinished(self) -> int:
        return self.session.num_unfinished


def run(make: Make, folder: Path, engine: Engine, **options: Any) -> tuple[list[dict[str, float]], list[str]]:
    """Metrics of each of three rollouts, and the warnings about the sampler."""
    sampling = options.pop("sampling", Sampling(num_samples=4, max_tokens=6))
    module: Any = make(engine=engine, sampling=sampling, max_rollouts=3, **options)
    logged: list[dict[str, float]] = []
    log = module.log_rollout
    module.log_rollout = lambda *given: logged.append(log(*given)) or logged[-1]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fit(module, folder)
    return logged, [str(one.message) for one in said if "sampler and trainer" in str(one.message)]


def test_gap_ratio_and_effective_size_by_hand() -> None:
    """Ratios 4, 1/2 and 1; the fourth token does not count. (5.5)^2 / (3 * 17.25)."""
    means, mask = Means(), torch.tensor([[True, True], [True, False]])
    trainer = torch.tensor([[0.8, 0.1], [0.3, 0.9]]).log()
    add_mismatch(means, trainer, torch.tensor([[0.2, 0.2], [0.3, 0.1]]).log(), mask)
    found = with_effective_size(means.reduce(torch.device("cpu")))
    assert found.keys() == NAMES
    assert found["sampling/logprob_gap/mean"] == pytest.approx(math.log(2))
    assert found["sampling/logprob_gap/max"] == pytest.approx(2 * math.log(2))
    assert found["sampling/importance_ratio/mean"] == pytest.approx(5.5 / 3)
    assert found["sampling/importance_ratio/min"] == pytest.approx(0.5)
    assert found["sampling/importance_ratio/max"] == pytest.approx(4.0)
    assert found["sampling/effective_sample_size"] == pytest.approx(5.5**2 / (3 * 17.25))


def test_a_few_rows_all_over_the_rollout_that_the_present_weights_sampled_are_compared() -> None:
    """Two actions are equally likely. Four rows are fresh, of which the first and the third are looked at."""
    policy = CorridorPolicy(num_cells=2)
    policy.load()
    policy.version = 3
    off = torch.tensor([[0.0625], [2.0], [0.125], [2.0], [0.25], [0.5]])
    rows = replace(rows_of([[2, 2]] * 6, [[[1]]] * 6), weights_versions=(3, 2, 3, 2, 3, 3))
    sampler = Sampler(policy, None, Collect(sampler_check=SamplerCheck(rows=2, largest_gap=0.2, stop=True)), seed=0)
    sampler.compare(replace(rows, sampler_logprobs=math.log(0.5) - off), Sampling())
    assert sampler.gap.local()["sampling/logprob_gap/max"] == pytest.approx(0.25)
    assert sampler.gap.local()["sampling/logprob_gap/mean"] == pytest.approx((0.0625 + 0.25) / 2)


@pytest.mark.parametrize("engine", [InProcess(), Copies()], ids=["shared", "copy"])
@pytest.mark.parametrize("rewards", [EvenBytes(), Scored(1.0)], ids=["learns", "learns nothing"])
def test_every_rollout_logs_them(make_module: Make, tmp_path: Path, engine: Engine, rewards: RewardTerm) -> None:
    logged, said = run(make_module, tmp_path, engine, rewards=[rewards])
    assert len(logged) == 3 and said == []
    for metrics in logged:
        assert metrics.keys() >= NAMES and not any("square" in name for name in metrics)
        assert metrics["sampling/logprob_gap/max"] < 1e-5
        assert metrics["sampling/effective_sample_size"] == pytest.approx(1)


def test_a_skipped_arrival_is_caught_before_anything_is_learned_from_it(make_module: Make, tmp_path: Path) -> None:
    check = SamplerCheck(rows=2, largest_gap=1e-3)
    _, said = run(make_module, tmp_path, Copies(skips=(1, 2)), sampler_check=check)
    assert len(said) == 1, "once"
    assert "nats a token (at most 0.001 is rounding): no other temperature or filter explains it" in said[0]
    module: Any = make_module(
        engine=Copies(skips=(1,)), max_rollouts=3, sampler_check=SamplerCheck(largest_gap=1e-3, stop=True)
    )
    with pytest.raises(SamplerMismatchError, match=r"sampler and trainer differ by .* leaves other weights"):
        fit(module, tmp_path)
    assert module.clock.count == module.policy.version == 1
    assert run(make_module, tmp_path, Copies(skips=(1, 2)), sampler_check=None)[1] == []


def test_rows_sampled_ahead_are_compared_before_those_sampled_earlier_are_learned_from(
    make_module: Make, tmp_path: Path
) -> None:
    module: Any = make_module(
        engine=Copies(skips=(1,)),
        sampler_check=SamplerCheck(largest_gap=1e-3, stop=True),
        max_rollouts=4,
        staleness=1,
        objective=Objective(correction=TruncatedWeights()),
        sandbox=Late,
        rewards=[PassedAndEven()],
    )
    with pytest.raises(SamplerMismatchError, match=r"sampler and trainer differ by .* leaves other weights"):
        fit(module, tmp_path, data=Programs(batch_size=3))
    assert module.clock.count == module.policy.version == 1


def test_a_temperature_and_a_filter_of_its_own_are_named(make_module: Make, tmp_path: Path) -> None:
    check = SamplerCheck(rows=12, largest_gap=1e-3)
    cool = Sampling(num_samples=4, max_tokens=6, temperature=0.5)
    _, said = run(make_module, tmp_path, Copies(wrong="temperature"), sampler_check=check, sampling=cool)
    assert "the engine reports log-probabilities at temperature 1 instead of 0.5" in said[0]
    _, said = run(make_module, tmp_path, Copies(wrong="filter"), sampler_check=check)
    assert "every token is likelier to the sampler, as under a filter of its own" in said[0]


def test_a_filter_that_was_asked_for_is_no_fault(make_module: Make, tmp_path: Path) -> None:
    filtered = Sampling(num_samples=4, max_tokens=6, top_k=20)
    logged, said = run(make_module, tmp_path, Copies(), sampling=filtered)
    assert said == [] and logged[0]["sampling/logprob_gap/mean"] > 0.1


@pytest.mark.parametrize("wrong", [{"rows": 0}, {"largest_gap": 0.0}])
def test_numbers_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SamplerCheck(**wrong)
