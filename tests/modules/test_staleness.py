"""Rows of older weights: sampled one rollout ahead, compared with the sampler's own log-probabilities, corrected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from support.asking import AsksAgain, Watches
from support.ill_runs import Copies
from support.late_verdicts import Counting, Late, PassedAndEven, Programs
from support.small_runs import Scored, fit, weights

from lit_rl.data import Corridor
from lit_rl.data.toys.toy_models import CorridorPolicy
from lit_rl.engines import Engine, InProcess
from lit_rl.math.advantages import NoBaseline
from lit_rl.math.losses import (
    CISPO,
    Clipped,
    Correction,
    ImportanceSampling,
    Loss,
    MaskedBand,
    PolicyGradient,
    SequenceMask,
    TruncatedWeights,
    Unclipped,
)
from lit_rl.models import SeparateCritic
from lit_rl.models.sampling import RandomKey
from lit_rl.modules import GRPO, PPO, Objective, RolloutConfig, RolloutModule, UpdateConfig
from lit_rl.rollout import Rollout
from lit_rl.types import Experience, Problem, Sampling

Make = Callable[..., RolloutModule]
CORRECTED = Objective(correction=TruncatedWeights())


def ahead(make_module: Make, cls: Any = GRPO, **options: Any) -> Any:
    """A module that samples one rollout ahead, on programs whose verdicts are there at once."""
    common: dict[str, Any] = {"staleness": 1, "objective": CORRECTED, "sandbox": Late, "rewards": [PassedAndEven()]}
    if cls is PPO:
        common["critic"] = SeparateCritic()
    return make_module(cls, **(common | options))


class Kept(pl.Callback):
    """Keeps the weights' version, the rows and the metrics of each rollout."""

    def __init__(self) -> None:
        self.rollouts: list[tuple[int, Any, Any]] = []

    def on_rollout_end(self, trainer: Any, module: Any, finished: Any) -> None:
        self.rollouts.append((module.policy.version, finished.rollout.completions, finished.metrics))


class Collects(GRPO):
    """Collects each rollout a second time, right after its sampling."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.plain: list[Any] = []
        self.ahead = self.collector._sample
        self.collector._sample = self.write_twice  # type: ignore[method-assign]

    def write_twice(self, problems: Sequence[Problem], *args: Any) -> Any:
        pending = self.ahead(problems, *args)
        plain = self.ahead(problems, self.sampling, RandomKey(self.seed, "train", len(self.plain)))
        self.plain.append(plain.completions())
        return pending


def test_rows_are_those_of_the_rollout_s_own_streams(make_module: Make, tmp_path: Path) -> None:
    """Samples are named by the rollout that they are for, also over the end of an epoch; rows of one or two turns."""
    kept = Kept()
    module = ahead(make_module, Collects, environment=AsksAgain(), max_rollouts=6, minibatches=2)
    fit(module, tmp_path, data=Programs(batch_size=3), callbacks=[kept])
    assert len(module.plain) == len(kept.rollouts) == 6
    for plain, (version, rows, metrics) in zip(module.plain, kept.rollouts, strict=True):
        assert [p.task_id for p in plain.problems] == [p.task_id for p in rows.problems]
        assert torch.equal(plain.completion_ids, rows.completion_ids)
        assert torch.equal(plain.sampler_logprobs, rows.sampler_logprobs)
        assert set(plain.weights_versions) == set(rows.weights_versions)
        assert metrics["policy/updates_behind"] == version - 2 - rows.weights_versions[0]
    assert [rows.weights_versions[0] for _, rows, _ in kept.rollouts] == [0, 0, 2, 4, 6, 8]
    first_four = [p.task_id for _, rows, _ in kept.rollouts[:4] for p in rows.problems[::4]]
    assert len(set(first_four)) == 12
    assert {len(turns) for _, rows, _ in kept.rollouts for turns in rows.turns} == {1, 2}


def test_programs_may_run_until_the_next_rollout_is_written(make_module: Make, tmp_path: Path) -> None:
    """No verdict is there before the next sampling begins; a run that waited for one would wait for ever."""
    runner = Late(at_once=False)

    def answer(number: int) -> None:
        assert runner.answered == (0 if number < 2 else answered[-1])
        if number >= 1:
            runner.answer()
        answered.append(runner.answered)
        runner.at_once = number == 3  # nothing is sampled after the last rollout

    answered: list[int] = []
    module = ahead(make_module, sandbox=runner, engine=Counting(answer), max_rollouts=4)
    fit(module, tmp_path, data=Programs(batch_size=3))
    assert module.clock.count == 4 and len(answered) == 4 and answered[0] == 0 < answered[1] < answered[2]


@pytest.mark.parametrize(
    ("limits", "rollouts"),
    [
        ({"max_rollouts": 1}, 1),
        ({"max_rollouts": 9, "max_epochs": 1}, 4),
        ({"max_epochs": 2, "limit_train_batches": 0.5}, 4),
        ({"max_steps": 2}, 2),
    ],
    ids=str,
)
def test_no_rollout_is_sampled_that_nobody_trains_on(
    make_module: Make, tmp_path: Path, limits: dict[str, Any], rollouts: int
) -> None:
    engine, limits = Counting(), dict(limits)
    module = ahead(make_module, engine=engine, max_rollouts=limits.pop("max_rollouts", None))
    fit(module, tmp_path, data=Programs(batch_size=3), **limits)
    assert module.clock.count == engine.sessions == rollouts
    assert module.collector.pending is None


def test_a_run_that_updates_less_than_foreseen_samples_the_rest_when_it_comes(
    make_module: Make, tmp_path: Path
) -> None:
    """A second update of each rollout begins too far away and is left out, so three steps take three rollouts."""
    options: dict[str, Any] = {"epochs": 2, "max_kl": 1e-9, "max_rollouts": 6}
    options["optimizer"] = lambda params: torch.optim.SGD(params, lr=5.0)
    engine, kept = Counting(), Kept()
    module = ahead(make_module, engine=engine, **options)
    trainer = fit(module, tmp_path, data=Programs(batch_size=3), max_steps=3, callbacks=[kept])
    assert trainer.global_step == 3 and module.clock.count == engine.sessions == 3
    assert [rows.weights_versions[0] for _, rows, _ in kept.rollouts] == [0, 0, 2]  # the last one was not foreseen
    assert [metrics["policy/updates_behind"] for _, _, metrics in kept.rollouts] == [0, 1, 0]


def test_validation_samples_with_the_present_weights_and_disturbs_nothing(make_module: Make, tmp_path: Path) -> None:
    validated: list[int] = []

    def look(trainer: Any, module: Any, outputs: Any, *_: Any) -> None:
        assert set(outputs.rollouts["greedy"].completions.weights_versions) == {module.policy.version}
        validated.append(module.clock.count)

    looks = {"callbacks": [pl.callbacks.LambdaCallback(on_validation_batch_end=look)], "limit_val_batches": 1}
    disturbed, alone = (ahead(make_module, max_rollouts=3) for _ in range(2))
    fit(disturbed, tmp_path, data=Programs(batch_size=3), val_check_interval=1, check_val_every_n_epoch=None, **looks)
    fit(alone, tmp_path, data=Programs(batch_size=3))
    assert torch.equal(weights(disturbed), weights(alone))
    assert validated == [1, 2, 3]


ONES = Scored(lambda rows: (float(text == "1") for text in rows.texts))
"""1 for each completion that is the number one."""


def behind(steps: int) -> Copies:
    """An engine whose weights are renewed after some optimizer steps only."""
    return Copies(lambda copied, now: now - copied >= steps)


class Watched(GRPO):
    def make_experience(self, *args: Any) -> Experience:
        self.seen: list[tuple[Experience, torch.Tensor]] = getattr(self, "seen", [])
        self.seen.append((super().make_experience(*args), self.table()))
        return self.seen[-1][0]

    def table(self) -> torch.Tensor:
        policy: Any = self.policy
        logits: torch.Tensor = policy.weights.weight[1].detach().clone()
        return logits


def two_tokens(folder: Path, engine: Engine, loss: Loss, rate: float, **more: Any) -> Watched:
    """Two rollouts of a policy that says one of two tokens, by plain SGD, without a baseline."""
    module = Watched(
        CorridorPolicy(num_cells=1),
        sampling=Sampling(num_samples=20, max_tokens=1),
        objective=Objective(loss=loss, correction=more.pop("correction", None)),
        baseline=NoBaseline(),
        rewards=[ONES],
        collect=RolloutConfig(engine=engine),
        update=UpdateConfig(optimizer=lambda params: torch.optim.SGD(params, lr=rate), gradient_clip_norm=None, **more),
        max_rollouts=2,
    )
    fit(module, folder, data=Corridor(num_cells=1, batch_size=1))
    return module


Bound = Callable[[torch.Tensor], torch.Tensor]
TRUNCATED: tuple[Correction, Bound] = TruncatedWeights(1.05), lambda weight: weight.clamp(max=1.05)
MASKED: tuple[Correction, Bound] = MaskedBand(0.97, 9.0), lambda weight: weight * (weight >= 0.97)
UNBOUND: tuple[Correction, Bound] = TruncatedWeights(9.0), lambda weight: weight


@pytest.mark.parametrize(
    ("loss", "correction", "epochs"),
    [
        *((loss, None, 1) for loss in (Unclipped(), Clipped())),
        *((loss, TRUNCATED, 1) for loss in (Clipped(), PolicyGradient())),
        *((loss, MASKED, 1) for loss in (Unclipped(), CISPO(0.2, 0.2))),
        (Unclipped(), UNBOUND, 2),
    ],
    ids=lambda one: str(one[0] if isinstance(one, tuple) else one),
)
def test_gradients_carry_the_ratio_to_the_weights_that_sampled(
    tmp_path: Path, loss: Loss, correction: tuple[Correction, Bound] | None, epochs: int
) -> None:
    """By hand: minus the gradient of -mean(weight * ratio * reward); d log p(a) is one-hot(a) - p.

    Without a correction the ratio leads back to the sampler. With one it leads to the rollout's beginning, and the
    weight from there to the sampler, whatever the loss and in later updates too.
    """
    rate = 1.0 if epochs > 1 else 2.0
    given = None if correction is None else correction[0]
    module = two_tokens(tmp_path, behind(9), loss, rate, correction=given, epochs=epochs)
    (first, start), (second, now) = module.seen
    versions = {first.completions.weights_versions, second.completions.weights_versions}
    assert versions == {(0,) * 20} and (second.old_logprobs is None) == (correction is not None and epochs == 1)
    q, begin = start.softmax(0), now.softmax(0)
    assert abs((begin / q)[1] - 1) > 0.2, "the weights have moved"
    chosen, table = second.completions.completion_ids[:, 0].tolist(), now
    for _ in range(epochs):
        p = table.softmax(0)
        if correction is None:
            ratio = p / q * (0 if isinstance(loss, Clipped) else 1)  # beyond 1.2: the clip holds it
        else:
            ratio = correction[1](begin / q) * p / begin
        step = torch.stack([ratio[a] * float(a == 1) * (torch.eye(2)[a] - p) for a in chosen]).mean(0)
        table = table + rate * step
    assert torch.allclose(module.table(), table, atol=1e-6)


def test_fresh_rows_are_changed_by_no_correction_and_by_no_copy_of_the_weights(
    make_module: Make, tmp_path: Path
) -> None:
    """Bit for bit, or up to sampling and training forward, here in float64; weights one step behind are a change."""

    def learned(correction: Correction | None = None, engine: Engine | None = None) -> torch.Tensor:
        objective = Objective(correction=correction)
        module = make_module(objective=objective, engine=engine or InProcess(), max_rollouts=2, epochs=2)
        fit(module, tmp_path)
        return weights(module)

    plain = learned()
    assert torch.allclose(learned(TruncatedWeights()), plain, atol=1e-5)
    assert torch.allclose(learned(SequenceMask()), plain, atol=1e-9)
    assert torch.equal(learned(engine=behind(1)), plain)
    assert not torch.equal(learned(engine=behind(3)), plain)


def test_a_second_correction_is_refused() -> None:
    with pytest.raises(ValueError, match=r"ImportanceSampling already applies .* correction MaskedBand"):
        Objective(loss=ImportanceSampling(), correction=MaskedBand())


def test_old_rows_and_fresh_ones_in_one_rollout(make_module: Make, tmp_path: Path) -> None:
    """Fresh rows are scored by the training forward, old ones as the sampler reported them."""

    class Mixed(Watches, GRPO):
        def collect(self, *args: Any) -> Rollout:
            rollout = super().collect(*args)
            rows = rollout.completions
            versions = tuple(version - i % 2 for i, version in enumerate(rows.weights_versions))
            logprobs = rows.sampler_logprobs - 0.5 * rows.completion_mask
            rows = replace(rows, weights_versions=versions, sampler_logprobs=logprobs)
            return replace(rollout, completions=rows)

    module: Any = make_module(Mixed, max_rollouts=1, objective=Objective(kl_coef=0.1))
    fit(module, tmp_path)
    experience = module.experience
    rows, old = experience.completions, experience.old_logprobs
    assert torch.equal(old[1::2], rows.sampler_logprobs[1::2].to(old.dtype))
    assert torch.equal(old[::2], experience.ref_logprobs[::2])  # nothing has moved yet


def test_old_rows_of_a_filtered_distribution_are_refused(make_module: Make, tmp_path: Path) -> None:
    make = partial(make_module, sampling=Sampling(num_samples=4, max_tokens=6, top_k=200), max_rollouts=2)
    fit(make(engine=behind(1)), tmp_path)
    with pytest.raises(ValueError, match=r"12 rows were sampled by older weights.*leave out top_k and top_p"):
        fit(make(engine=behind(2)), tmp_path)
