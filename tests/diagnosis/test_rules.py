"""Diagnoses of runs that are given by their numbers and rows, without training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log, nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.ill_runs import Programs

from lit_rl.callbacks import Diagnostics
from lit_rl.execution import AssertTests
from lit_rl.execution.interface import FailedCase, Outcome, Verdict
from lit_rl.modules import RolloutConfig, UpdateConfig
from lit_rl.reports.diagnosis import RULES, Diagnosis, LastRollout, MetricHistory, RunSettings
from lit_rl.reports.diagnosis.failures import ending_stop_string
from lit_rl.reports.diagnosis.history import LAG, MOVED, WEIGHT_SIZE
from lit_rl.reports.diagnosis.rules import sampler_gap, still_weights
from lit_rl.rewards import Composite, TestsReward
from lit_rl.rewards.term import RewardTerm
from lit_rl.rollout import FinishedRollout, Rollout
from lit_rl.training.progress import StepCounter
from lit_rl.types import Completions, Judgement, Problem, Program, Sampling, StopReason

P, W, S = Verdict.PASSED, Verdict.WRONG_ANSWER, Verdict.SYNTAX_ERROR
FLAT = "group/zero_advantage_fraction"


def rows(
    outcomes: Sequence[Outcome],
    stops: tuple[str, ...] = (),
    said: Sequence[str] | None = None,
    ends: StopReason = StopReason.EOS,
    prompt: str = "def f(x):\n",
) -> Rollout:
    """Rows of one group, a token a letter, whose programs are the prompt and what was said."""
    texts = said or ["    return 1"] * len(outcomes)
    problems = tuple(Problem("p/0", prompt, AssertTests("assert f(1)"), stop_strings=stops) for _ in texts)
    ids = torch.zeros(len(texts), max(map(len, texts)) + 9, dtype=torch.long)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor([ord(letter) for letter in text])
    shown = [text.partition(stops[0])[0] if stops else text for text in texts]
    completions = Completions.single_turn(
        problems=problems,
        prompt_ids=ids[:, :1],
        prompt_mask=ids[:, :1] >= 0,
        completion_ids=ids,
        completion_mask=torch.arange(ids.shape[1]) < torch.tensor([[len(text)] for text in texts]),
        sampler_logprobs=ids.float(),
        stop_reasons=(ends,) * len(texts),
        texts=shown,
        token_byte_spans=((),) * len(texts),
        group_size=len(texts),
    )
    judgements = [
        Judgement(problem, Program(f"{prompt}{text}", 0, len(text)), outcome)
        for problem, text, outcome in zip(problems, shown, outcomes, strict=True)
    ]
    return Rollout(completions, tuple(judgements))


def last_of(rollout: Rollout, rewards: Sequence[float] = (), **more: Any) -> LastRollout:
    earned: Any = SimpleNamespace(rewards=torch.tensor(rewards or [0.0] * len(rollout.judgements)))
    return LastRollout(rollout, earned, **more)


def letters(ids: Sequence[int], reason: StopReason, strings: Sequence[str]) -> tuple[str, tuple[()]]:
    return "".join(map(chr, ids)), ()


def diagnose(
    numbers: Sequence[Mapping[str, float]],
    rollout: Rollout | None = None,
    terms: Sequence[RewardTerm] = (),
    optimizer: Mapping[str, Any] | None = None,
    **options: Any,
) -> list[Diagnosis]:
    """Diagnoses of a run with these numbers, all of whose rollouts have the same rows."""
    unlike = [f"    return {number}" for number in range(20)]
    rollout = rollout or rows([Outcome(W)] * 20, said=unlike, ends=StopReason.LENGTH)
    callback = Diagnostics(10, **options)
    module: Any = SimpleNamespace(
        policy=SimpleNamespace(version=0, parameters=lambda: (), codec=SimpleNamespace(decode=letters)),
        clock=StepCounter("rollout"),
        sampling=Sampling(),
        collector=SimpleNamespace(settings=RolloutConfig()),
        update=UpdateConfig(),
        rewards=Composite(list(terms)) if terms else None,
        trace=SimpleNamespace(recorded={}),
    )
    trainer: Any = SimpleNamespace(
        is_global_zero=True,
        loggers=[],
        callbacks=[callback],
        datamodule=Programs(),
        optimizers=[SimpleNamespace(param_groups=[dict(optimizer or {})])],
        log_dir=None,
        precision="32-true",
    )
    callback.on_train_start(trainer, module)
    zeros = torch.zeros(len(rollout.judgements))
    rewards: Any = SimpleNamespace(rewards=zeros, valid=zeros == 0, term_values={})
    for metrics in numbers:
        module.clock.count += 1
        spread = {"reward/std": 0.1 * abs(metrics["reward/mean"])}
        experience: Any = SimpleNamespace(old_logprobs=None)
        finished = FinishedRollout(rollout, rewards, experience, {**spread, **metrics})
        callback.on_rollout_end(trainer, module, finished)
    return callback.found


def names_of(*arguments: Any, **options: Any) -> list[str]:
    return [one.rule for one in diagnose(*arguments, **options)]


def earned(reward: float, passed: float | None = None, **more: float) -> dict[str, float]:
    named = {name.replace("__", "/"): value for name, value in more.items()}
    rate = reward if passed is None else passed
    return {"reward/mean": reward, "execution/pass_rate": rate, "optimizer/learning_rate": 0.04} | named


# -- one sickness by its numbers -----------------------------------------------------------------------------

AGREES, DIFFERS = {"sampling__logprob_gap__mean": 1e-4}, {"sampling__logprob_gap__mean": 0.2}
STARTS = {"policy__entropy": 2.0, "policy__loss": 0.3, "critic__value_loss": 0.4, "completion__format_rate": 0.9}
PLANTED: dict[str, tuple[list[dict[str, float]], str, str]] = {
    "numbers that are not finite": ([earned(0.3), earned(0.3, policy__loss=nan)], "not_finite", "policy/loss"),
    "a sandbox that lacks something": (
        [earned(0.1 + 0.2 * (i % 3), verdict__infrastructure_failure_fraction=0.06) for i in range(10)],
        "sandbox",
        "6% of the programs could not be judged",
    ),
    "a time limit that is too short": (
        [earned(0.1, verdict__timed_out_fraction=0.4)] * 10,
        "sandbox",
        "a time limit too short for this machine (`lit-rl check-data --data support.ill_runs.Programs`)",
    ),
    "an engine with another temperature": ([earned(0.3, **DIFFERS)] * 10, "sampler_gap", "another temperature"),
    "an engine that keeps its first weights and hides it": (
        [earned(0.3, **AGREES)] * 2 + [earned(0.3, **DIFFERS)] * 9,
        "sampler_gap",
        "they agreed in the first rollout (0.0001 nats), so likely new weights do not reach the engine",
    ),
    "a loss that diverges": (
        [earned(0.3, **STARTS)] * 10 + [earned(0.3, **STARTS | {"policy__loss": 30.0})] * 10,
        "exploding_loss",
        "policy/loss went from 0.3 to",
    ),
    "too many updates of a rollout": (
        [earned(0.3, policy__approximate_kl=0.3)] * 10,
        "exploding_kl",
        "move the policy by 0.3 nats a token",
    ),
    "a critic that explains nothing": (
        [earned(0.3, critic__explained_variance=-0.1)] * 31,
        "useless_critic",
        "the critic explains -10%",
    ),
    "answers that lose their form": (
        [earned(0.3, **STARTS)] * 11 + [earned(0.3, completion__format_rate=0.2)] * 9,
        "format_falling",
        "with a program in a fenced block fell from 90% to 69%",
    ),
    "tests that always pass": (
        [earned(0.98, group__all_passed_fraction=0.97, group__zero_advantage_fraction=0.98)] * 10,
        "flat_reward",
        "likely the tests check nothing",
    ),
    "problems that are too hard": (
        [earned(0.02, group__none_passed_fraction=0.97, group__zero_advantage_fraction=0.98)] * 10,
        "flat_reward",
        "100% of the completions are cut by the token limit",
    ),
    "groups that are too small": (
        [earned(0.5, group__all_passed_fraction=0.5, group__none_passed_fraction=0.47) | {FLAT: 0.98}] * 10,
        "flat_reward",
        "or too few completions per problem",
    ),
    "a limit that cuts answers": ([earned(0.3, completion__truncated_fraction=0.6)] * 10, "truncated", "60% of the"),
}


@pytest.mark.parametrize("sickness", PLANTED)
def test_a_planted_cause_is_named_alone(sickness: str) -> None:
    numbers, rule, part = PLANTED[sickness]
    found = diagnose(numbers)
    assert [(one.rule, part in one.message) for one in found] == [(rule, True)], found
    assert f"lit-rl docs monitoring#{rule}" in found[0].message


def test_each_rule_has_an_entry_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text()
    assert [rule.__name__ for rule in RULES if f"### {rule.__name__}\n" not in page] == []
    assert len(RULES) == 14


def test_a_healthy_run_is_silent() -> None:
    """Rewards that rise under noise, a critic that learns, an entropy that falls to a third."""
    noise = noise_of(3)
    numbers = [
        earned(
            min(0.8, 0.1 + 0.003 * i) + 0.02 * one,
            policy__entropy=2.0 - 0.005 * i,
            policy__loss=0.1 * one,
            critic__explained_variance=min(0.6, 0.01 * i),
            completion__format_rate=0.95 + 0.01 * one,
            policy__approximate_kl=0.02,
            group__zero_advantage_fraction=0.4,
            update__trained_fraction=0.6,
            **AGREES,
        )
        for i, one in enumerate(noise)
    ]
    assert diagnose(numbers) == []


def noise_of(seed: int, number: int = 300) -> list[float]:
    found: list[float] = torch.randn(number, generator=torch.Generator().manual_seed(seed)).tolist()
    return found


# -- order ---------------------------------------------------------------------------------------------------

WRECKED = earned(
    0.0, completion__truncated_fraction=0.97, completion__format_rate=0.0, group__zero_advantage_fraction=1
)


@pytest.mark.parametrize(("well", "says"), [(1, 10), (30, 35)])
def test_what_follows_from_a_policy_that_was_lost_is_not_said_beside_it(well: int, says: int) -> None:
    """The demo with a learning rate of 0.04: rollout 1 earned 0.406, the next nothing, and 97% never ended."""
    healthy = earned(0.406, completion__truncated_fraction=0.02, completion__format_rate=1.0) | {FLAT: 0.2}
    found = diagnose([healthy] * well + [WRECKED] * 30)
    assert [(one.rollout, one.rule) for one in found] == [(says, "collapse")]
    facts = f"rollout 1 earned 0.406, from rollout {well + 1} on 0 (100% of the completions are cut by the token limit)"
    assert facts in found[0].message and "too high a learning rate (0.04)" in found[0].message


def test_a_rule_speaks_again_once_its_condition_was_clear_for_as_long_as_it_looks_at() -> None:
    """A share whose mean wavers around the limit of a fifth is one episode; after 30 good rollouts it is another."""
    ill = [earned(0.3, verdict__timed_out_fraction=0.21 + 0.03 * (-1) ** (i // 10)) for i in range(40)]
    well = [earned(0.3, verdict__timed_out_fraction=0.0)] * 30
    found = diagnose([*ill, *well, *ill])
    assert [one.rule for one in found] == ["sandbox"] * 2 and found[0].rollout == 10 and 75 < found[1].rollout <= 80


# -- falls, and what is solved -------------------------------------------------------------------------------
CURVES: dict[str, tuple[list[float], bool]] = {
    "noise around 0": ([0.1 * one for one in noise_of(0)], False),
    "a rise from far below 0 that crosses it again": ([-2.0] * 10 + [0.1] * 20 + [0.01] * 12, False),
    "a fall from below 0": ([-2.0] * 10 + [-0.2] * 20 + [-1.9] * 12, True),
    "a fall within the first rollouts": ([0.9, 0.6, *(0.1 + 0.01 * (i % 3) for i in range(10))], True),
}
"""Mean rewards of rollouts, and whether they collapse: means of ten go up and down by a standard error or two."""


@pytest.mark.parametrize("curve", CURVES)
def test_a_fall_is_told_and_noise_is_not(curve: str) -> None:
    rewards, falls = CURVES[curve]
    assert names_of([earned(one, 0.5) for one in rewards], leave_out=["truncated"]) == ["collapse"] * falls


@pytest.mark.parametrize(("passed", "lost"), [(0.003, False), (0.16, True)])
def test_a_few_lucky_hits_are_no_reward_that_was_lost(passed: float, lost: bool) -> None:
    """Under tests of another problem some constant passes now and then; no learning rate helps there."""
    outcome = Outcome(Verdict.EXCEPTION, exception_type="TypeError")
    numbers = [earned(passed), *(earned(0.0) for _ in range(12))]
    (found,) = diagnose(numbers, rows([outcome] * 20))
    assert found.rule == ("collapse" if lost else "flat_reward")
    assert ("too high a learning rate" in found.message) == lost
    assert ("most often TypeError" in found.message) != lost


@pytest.mark.parametrize(
    ("first", "now", "passed", "trained", "falls"),
    [
        (3.0, 0.2, 0.8, 0.5, True),  # to a fifteenth
        (0.4, 0.06, 0.8, 0.5, False),  # to more than an eighth
        (3.0, 0.2, 0.95, 0.5, False),  # the task is solved
        (1.0, 0.05, 0.1, 0.0, False),  # no update can have moved it: of a few rows it is noise
        (1.0, 0.05, None, 0.5, True),  # no program runs: a small entropy may mean that the task is solved
    ],
)
def test_an_entropy_has_collapsed_compared_to_its_own_beginning_unless_the_task_is_solved(
    first: float, now: float, passed: float | None, trained: float, falls: bool
) -> None:
    alike = {FLAT: 0.9, "update/trained_fraction": trained}
    numbers = [earned(passed or 0.7, policy__entropy=one) | alike for one in [first] * 11 + [now] * 9]
    for one in numbers if passed is None else ():
        del one["execution/pass_rate"]
    found = diagnose(numbers)
    assert [one.rule for one in found] == ["entropy_collapse"] * falls
    assert all(("if 0.7 is the largest possible" in one.message) is (passed is None) for one in found)


@pytest.mark.parametrize(("begins", "speaks"), [(0.2, False), (0.97, True)])
def test_a_solved_task_is_no_fault_and_tests_that_always_passed_may_be(begins: float, speaks: bool) -> None:
    flat = {FLAT: 1.0, "group/all_passed_fraction": 1.0, "policy/entropy": 0.001, "reward/std": 0.0}
    numbers = [earned(begins, policy__entropy=1.0, group__zero_advantage_fraction=0.5)] * 12 + [earned(1.0) | flat] * 30
    assert names_of(numbers, rows([Outcome(P)] * 20)) == ["flat_reward"] * speaks


# -- reward and pass rate ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("passed", "reward", "speaks"),
    [((0.38, 0.12), (-0.1, 0.3), True), ((0.38, 0.12), (0.3, 0.1), False), ((0.38, 0.36), (0.1, 0.3), False)],
    ids=["hacked", "both fall", "hardly falls"],
)
def test_a_pass_rate_that_falls_while_the_reward_rises_is_told_with_the_term_that_rose(
    passed: tuple[float, float], reward: tuple[float, float], speaks: bool
) -> None:
    """The terms rise by 2 * 0.1 and by 0.3."""
    numbers = [
        earned(reward[i] + w, passed[i] + (-1) ** i * w, reward__a=0.1 * i, reward__b=0.3 * i)
        for i in (0, 1)
        for w in [0.02 * (-1) ** j for j in range(15)]
    ]
    terms = [TestsReward(weight=2.0, name="a"), TestsReward(name="b")]
    found = [one for one in diagnose(numbers, terms=terms) if one.rule == "reward_hacking"]
    assert len(found) == speaks
    if speaks:
        assert "pass rate in training fell from 38% to" in found[0].message and found[0].rollout <= 25
        assert "the term b pays for something else" in found[0].message and found[0].details.count("reward 0") == 3


@pytest.mark.parametrize(("noise", "speaks"), [(0.0, True), (0.3, False)])
def test_a_reward_that_rises_by_noise_is_no_sign_of_hacking_where_validation_falls(noise: float, speaks: bool) -> None:
    callback, trainer = Diagnostics(4), SimpleNamespace(state=SimpleNamespace(fn="fit"), is_global_zero=True)
    trainer.loggers, trainer.callbacks, trainer.logged_metrics = [], [], {}
    trainer.callback_metrics = {}
    callback._settings, callback._last = RunSettings(), last_of(rows([Outcome(W)] * 3))
    for passed, reward in ((0.5, 0.3), (0.1, 0.4)):
        for i in range(4):
            callback._metrics.add(1, {"reward/mean": reward + noise * (-1) ** i, "reward/std": 0.5})
        measured = {"val/a/pass@1": torch.tensor(passed), "val/a/num_problems": torch.tensor(50.0)}
        trainer.callback_metrics = trainer.logged_metrics = measured
        callback.on_validation_end(trainer, SimpleNamespace())  # type: ignore[arg-type]
    assert [one.rule for one in callback.found] == ["reward_hacking"] * speaks


# -- what is written, and how programs end -------------------------------------------------------------------

BROKEN = "    for i in x:\n\n        return i"


@pytest.mark.parametrize(
    ("said", "outcome", "speaks"),
    [
        (BROKEN, Outcome(S, line=2, exception_message="expected an indented block after 'for' statement"), True),
        ("    if x >\n\n 1:", Outcome(S, line=2, exception_message="invalid syntax"), True),
        ("    x y z\n\n", Outcome(S, line=2, exception_message="invalid syntax"), False),
        ("    return 1\n\n", Outcome(W), False),
    ],
)
@pytest.mark.parametrize("cut", [1, 8])
def test_a_stop_string_that_cuts_some_of_the_programs_is_told(
    said: str, outcome: Outcome, speaks: bool, cut: int
) -> None:
    """Of 20 rows, 6 pass; the cut ones break off where the string ended them."""
    texts = [said] * cut + ["    return 2\n\n"] * (20 - cut)
    outcomes = [outcome] * cut + [Outcome(W)] * (20 - cut)
    found = diagnose([earned(0.3)] * 10, rows(outcomes, ("\n\n", "\nclass"), texts, StopReason.STOP_STRING))
    assert [one.rule for one in found] == (["truncated"] if speaks and cut > 1 else [])
    if found:
        assert "57% of the programs that fail break off" in found[0].message
        assert r"'\n\n' occurs inside good answers" in found[0].message
        assert "Programs.load_problems" in found[0].message


def test_the_first_of_two_stop_strings_ended_the_row() -> None:
    """A token can bring both; of two at one place the shorter was whole first."""
    for strings, ended in ((("class", "\n\n"), "\n\n"), (("\n\nc", "\n\n"), "\n\n"), (("zz", "class"), "class")):
        stopped = rows([Outcome(W)], strings, ["x\n\nclass"], StopReason.STOP_STRING)
        assert ending_stop_string(stopped, 0, 0, letters) == ended
    assert ending_stop_string(rows([Outcome(W)], ("a", "b")), 0, 0, letters) == ""


CASE = FailedCase(2, "x = int('one')", kind="assert")
BROKEN_TESTS = Outcome(W, exception_type="ValueError", exception_message="invalid literal", failed_case=CASE)


@pytest.mark.parametrize(
    ("number", "other", "speaks"),
    [
        (8, BROKEN_TESTS, True),
        (7, BROKEN_TESTS, False),
        (12, Outcome(P), False),
        (12, Outcome(W, exception_type="AssertionError", failed_case=CASE), False),
    ],
)
def test_tests_that_fail_every_program_with_one_error_at_one_statement_are_named(
    number: int, other: Outcome, speaks: bool
) -> None:
    said = [f"    return {number}" for number in range(number)]
    found = diagnose([earned(0.1)] * 10, rows([BROKEN_TESTS] * (number - 1) + [other], said=said))
    assert [one.rule for one in found] == ["broken_tests"] * speaks
    ended = f"{number} ended with ValueError: invalid literal in its tests (x = int('one'))"
    assert all(ended in one.message and "p/0" in one.message for one in found)


# -- sampler and weights -------------------------------------------------------------------------------------


def said_of_gap(own: torch.Tensor, reported: torch.Tensor, prompts: torch.Tensor | None = None) -> str:
    """Text of the rule about three rows of six tokens with these log-probabilities."""
    rollout = rows([Outcome(W)] * 3, said=["abcdef"] * 3)
    full = torch.zeros(rollout.completions.completion_ids.shape)
    mine, theirs = full.clone(), full.clone()
    mine[:, :6], theirs[:, :6] = own, reported
    mask = torch.ones(3, 2).bool() if prompts is None else prompts
    changed = replace(rollout.completions, sampler_logprobs=theirs, prompt_mask=mask, prompt_ids=mask.long())
    metrics = MetricHistory(1)
    metrics.add(1, {"sampling/logprob_gap/mean": float((own - reported).abs().mean())})
    return sampler_gap(metrics, last_of(Rollout(changed, rollout.judgements), logprobs=mine), RunSettings())


def test_the_sampler_s_numbers_and_the_trainer_s_tell_causes_of_a_gap() -> None:
    own = -torch.rand(3, 6, generator=torch.Generator().manual_seed(0)) - 0.5
    assert said_of_gap(own, own) == ""
    assert "constant: the engine reports 0 for every token" in said_of_gap(own, torch.zeros(3, 6))
    assert "logarithms to base 2" in said_of_gap(own, own / log(2))
    assert "logarithms to base 10" in said_of_gap(own, own / log(10))
    assert "that of the next token" in said_of_gap(own, own.roll(-1, 1))
    assert "that of the token before" in said_of_gap(own, own.roll(1, 1))
    padded = torch.tensor([[1, 1], [0, 1], [0, 1]]).bool()
    assert "rows without padding agree" in said_of_gap(own, own - 0.3 * (~padded[:, :1]).float(), padded)
    assert "likely another temperature" in said_of_gap(own, own - 0.3)


@pytest.mark.parametrize(
    ("settings", "gap", "lag", "part"),
    [
        (
            {"precision": "bf16-mixed", "dropout": ["attention_dropout"]},
            0.2,
            0.0,
            "bf16-mixed), dropout (attention_dro",
        ),
        ({"filtered": True}, 0.2, 0.0, ""),  # there is always a gap then
        ({"staleness": 1}, 0.2, 6.5, "weights that are 2.2 rollouts old"),
        ({}, 0.0, 6.0, "weights that are 2.0 rollouts old"),
    ],
)
def test_a_gap_counts_unless_settings_explain_it_and_so_does_the_age_of_weights(
    settings: dict[str, Any], gap: float, lag: float, part: str
) -> None:
    metrics = MetricHistory(1)
    metrics.add(1, {"sampling/logprob_gap/mean": gap, LAG: lag})
    text = sampler_gap(metrics, last_of(rows([Outcome(W)] * 2)), RunSettings(steps=3, **settings))
    assert part in text and bool(part) == bool(text)


ADAM = {"betas": (0.9, 0.999), "eps": 1e-8}


@pytest.mark.parametrize(
    ("moved", "rates", "optimizer", "clip", "part"),
    [
        (0.0, (0.0, 0.0), ADAM, 1.0, "the learning rate is 0"),
        (1e-10, (0.04, 1e-5), {}, 1.0, "the schedule has ended and leaves 1e-05 of the learning rate 0.04"),
        (1e-10, (0.04, 0.04), {}, 1e-9, "gradient_clip_norm (1e-09) leaves 2e-10 of the gradients"),
        (1e-5, (0.04, 0.04), ADAM | {"eps": 1.0}, 1.0, "Adam's eps (1) is larger than the gradients"),
        (0.0, (1e-9, 1e-9), {}, 1.0, "the learning rate 1e-09 is too small for the weights' dtype"),
        (1e-5, (0.04, 0.04), ADAM, 1.0, ""),  # gradients are larger than eps
    ],
)
def test_weights_that_stand_still_are_told_by_what_holds_them(
    moved: float, rates: tuple[float, float], optimizer: dict[str, Any], clip: float, part: str
) -> None:
    """Weights of size 1, gradients of norm 5 over 100 weights; the first rate was three rollouts ago."""
    metrics = MetricHistory(2)
    for rate in (rates[0], rates[1], rates[1]):
        named = {"policy/gradient_norm": 5.0, "optimizer/learning_rate": rate}
        metrics.add(1, named | {WEIGHT_SIZE: 1.0, MOVED: moved})
    settings = RunSettings(optimizer=optimizer, clip_norm=clip, num_weights=100)
    text = still_weights(metrics, last_of(rows([Outcome(W)])), settings)
    assert part in text and bool(part) == bool(text)


def test_a_history_that_was_saved_goes_on(tmp_path: Path) -> None:
    """First and best means with their errors, through a file that holds plain data."""
    metrics = MetricHistory(2)
    for value in (1.0, 2.0, 5.0, 3.0):
        metrics.add(1, {"x": value, "reward/mean": value})
    torch.save(metrics.state_dict(), tmp_path / "state.pt")
    again = MetricHistory(2)
    again.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert again.first["x"] == pytest.approx((1.5, 0.5)) and again.best["x"] == pytest.approx((3.5, 1.5))
    for one in (metrics, again):
        one.add(2, {"x": 4.0, "reward/mean": 9.0})
    assert vars(again) == vars(metrics) and again.peak == (2, {"x": 4.0, "reward/mean": 9.0})
