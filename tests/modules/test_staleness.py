"""Sampling one rollout ahead: which weights sample what, what a correction makes of it, and when it is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from support.late_verdicts import Counting, Late, PassedAndEven, Programs
from support.slow_cases import slow_but
from support.small_runs import fit, quiet_trainer, weights

from lit_rl.data.problem_loader import ProblemLoader
from lit_rl.losses import ImportanceSampling, TruncatedWeights
from lit_rl.models import SeparateCritic
from lit_rl.modules import GRPO, PPO, REINFORCE, Objective, RolloutModule
from lit_rl.rollout import Attempt, Environment
from lit_rl.types import Problem, Sampling

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
    """Collects each rollout a second time, right after its sampling: with the same weights and streams."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.plain: list[Any] = []
        self.ahead = self.sampler._write_ahead
        self.sampler._write_ahead = self.write_twice  # type: ignore[method-assign]

    def write_twice(self, problems: Sequence[Problem], *args: Any) -> Any:
        from lit_rl.models.sampling import StreamKey

        pending = self.ahead(problems, *args)
        plain = self.sampler.collect(problems, self.sampling, StreamKey(self.seed, "train", len(self.plain)))
        self.plain.append(plain.completions)
        return pending


def test_rows_are_those_of_the_rollout_s_own_streams(make_module: Make, tmp_path: Path) -> None:
    """Samples are named by the rollout that they are for, also over the end of an epoch."""
    kept = Kept()
    module = ahead(make_module, Collects, max_rollouts=6, minibatches=2)
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


@pytest.mark.parametrize("cls", slow_but((PPO,), [GRPO, PPO, REINFORCE]))
def test_every_algorithm_learns_from_rows_one_rollout_old(make_module: Make, tmp_path: Path, cls: Any) -> None:
    """The first rollout is on-policy; with a rate of 0 weights never change, and all of them are."""
    learned = {}
    for staleness in (0, 1):
        kept = Kept()
        module = ahead(make_module, cls, staleness=staleness, max_rollouts=3, epochs=1)
        fit(module, tmp_path, data=Programs(batch_size=3), callbacks=[kept])
        learned[staleness] = weights(module)
        behind = [version - 1 - rows.weights_versions[0] for version, rows, _ in kept.rollouts]
        assert behind == ([0, 1, 1] if staleness else [0, 0, 0])
        assert all(("policy/updates_behind" in metrics) == bool(staleness) for _, _, metrics in kept.rollouts)
    assert not torch.equal(learned[0], learned[1])


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
    assert module.sampler.pending is None


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


class Validated(pl.Callback):
    """Keeps what validation sampled, by the rollouts done."""

    def __init__(self) -> None:
        self.rows: dict[int, Any] = {}

    def on_validation_batch_end(self, trainer: Any, module: Any, outputs: Any, *args: Any) -> None:
        rows = outputs.rollouts["greedy"].completions
        assert set(rows.weights_versions) == {module.policy.version}
        self.rows[module.clock.count] = (rows.completion_ids, weights(module))


def test_validation_samples_with_the_present_weights_and_disturbs_nothing(make_module: Make, tmp_path: Path) -> None:
    each = {"limit_val_batches": 1, "val_check_interval": 1, "check_val_every_n_epoch": None}
    validated = Validated()
    disturbed = ahead(make_module, max_rollouts=3)
    fit(disturbed, tmp_path, data=Programs(batch_size=3), callbacks=[validated], **each)
    alone = ahead(make_module, max_rollouts=3)
    fit(alone, tmp_path, data=Programs(batch_size=3))
    assert torch.equal(weights(disturbed), weights(alone))
    assert list(validated.rows) == [1, 2, 3]
    again = Validated()
    fresh = ahead(make_module, staleness=0)
    for number, (ids, learned) in list(validated.rows.items())[1:]:
        fresh.policy.load()
        torch.nn.utils.vector_to_parameters(learned, fresh.policy.model.parameters())
        trainer = quiet_trainer(tmp_path, limit_val_batches=1, callbacks=[again], inference_mode=False)
        trainer.validate(fresh, Programs(batch_size=3), verbose=False)
        assert torch.equal(again.rows.pop(0)[0], ids), number


def test_one_fit_after_another_does_without_what_was_sampled_for_other_problems(
    make_module: Make, tmp_path: Path
) -> None:
    """A time limit or a signal ends a run with a rollout to spare; the sandbox was closed in between."""

    class Ends(pl.Callback):
        def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, *args: Any) -> None:
            trainer.should_stop = pl_module.clock.count == 2

    engine, kept = Counting(), Kept()
    module = ahead(make_module, engine=engine, max_rollouts=4)
    fit(module, tmp_path, data=Programs(batch_size=3), callbacks=[Ends(), kept])
    assert module.clock.count == 2 and engine.sessions == 3 and module.sampler.pending is not None
    with pytest.warns(UserWarning, match=r"sampled ahead for rollout 3 do not match this run.*; sampling them again"):
        fit(module, tmp_path, data=Programs(batch_size=3), callbacks=[kept])  # its loader begins again
    assert module.clock.count == 4 and engine.sessions == 5
    assert [metrics["policy/updates_behind"] for _, _, metrics in kept.rollouts] == [0, 1, 0, 1]


class Counts(Environment):
    """Says how much was written, unless it was an even number of letters."""

    def answer(self, problem: Problem, attempts: Sequence[Attempt]) -> str | None:
        letters = len(attempts[-1].text)
        return f" {letters}! " if letters % 2 else None


def test_rows_of_several_turns_are_sampled_ahead(make_module: Make, tmp_path: Path) -> None:
    kept = Kept()
    module = ahead(make_module, environment=Counts(max_turns=3), max_rollouts=3)
    fit(module, tmp_path, data=Programs(batch_size=3), callbacks=[kept])
    assert {len(turns) for _, rows, _ in kept.rollouts for turns in rows.turns} >= {1, 2}
    assert [metrics["policy/updates_behind"] for _, _, metrics in kept.rollouts] == [0, 1, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"staleness": 2}, r"staleness: expected 0 \(on-policy\) or 1 \(one rollout ahead\), got 2$"),
        (
            {"objective": Objective(correction=None)},
            r"nothing in the objective makes up for that: set objective\.correction, such as",
        ),
        ({"sampling": Sampling(num_samples=4, top_k=5)}, "TruncatedWeights compares .*leave both out"),
        ({"max_resamples": 2}, r"max_resamples=2 waits for verdicts .*staleness=1.*; set one of the two to 0"),
    ],
)
def test_what_cannot_be_right_is_refused(make_module: Make, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as told:
        ahead(make_module, **options)
    assert "\n" not in str(told.value)


def test_a_loss_that_weighs_by_itself_needs_no_correction(make_module: Make) -> None:
    assert ahead(make_module, objective=Objective(loss=ImportanceSampling())).sampler.settings.staleness == 1


@pytest.mark.parametrize(("limit", "ranks"), [(4, 1), (3, 1), (9, 1), (2, 2)])
def test_a_loader_tells_what_it_hands_out_next(limit: int, ranks: int) -> None:
    """Over three epochs of at most this many batches."""
    problems = Programs(batch_size=1).problems("train")
    for rank in range(ranks):
        loader = ProblemLoader(
            problems, 3 // ranks + ranks // 2, shuffle=True, drop_last=True, rank=rank, world_size=ranks
        )
        told: Any = None
        for epoch in range(3):
            loader.set_epoch(epoch)
            for number, batch in enumerate(loader):
                assert told is None or told == (epoch, batch)
                told = loader.following(limit)
                if number + 1 == limit:
                    break
