"""Diagnoses of runs that are given by their numbers and rows, without training."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from math import nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.ill_runs import (
    AlwaysDrops,
    Dropping,
    NeverRenewed,
    OtherDtype,
    OtherSampling,
    Padding,
    Permuted,
    Programs,
    ReadsPads,
    Reports,
    Shifted,
    WithoutAdapters,
)
from support.slow_cases import slow_but
from support.small_runs import EvenBytes, fit, weights
from support.tiny_models import TINY_QWEN2
from transformers import AddedToken

from lit_rl.callbacks import Diagnostics
from lit_rl.callbacks.diagnostics import place_of, where_of
from lit_rl.execution import AssertTests, TokenTarget
from lit_rl.execution.interface import FailedCase, Outcome, Verdict
from lit_rl.models import CausalLM, LoRA
from lit_rl.modules import GRPO, Collect, Objective, Update
from lit_rl.reports.diagnosis import Diagnosis, FirstRatio, RewardHacking, RunHistory, ValidationDiffers
from lit_rl.reports.diagnosis.failure_mode import failure_mode
from lit_rl.reports.diagnosis.row_shares import (
    REPEATED,
    UNEQUAL,
    UNLIKE,
    kl_push,
    misplaced,
    repeated,
    row_shares,
    unequal_advantages,
)
from lit_rl.reports.diagnosis.run_history import Where
from lit_rl.reports.diagnosis.stop_strings import string_that_ended
from lit_rl.reports.diagnosis.update_rules import WeightDecay
from lit_rl.rewards import Composite, FormatReward, TestsReward
from lit_rl.rollout import FinishedRollout, Rollout
from lit_rl.training.progress import Clock
from lit_rl.types import Completions, Experience, Judgement, Problem, Program, Sampling, StopReason

P, W, S, N, X = (
    Verdict.PASSED,
    Verdict.WRONG_ANSWER,
    Verdict.SYNTAX_ERROR,
    Verdict.NO_PROGRAM,
    Verdict.EXCEPTION,
)


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
        token_bytes=((),) * len(texts),
        group_size=len(texts),
    )
    judgements = [
        Judgement(problem, Program(f"{prompt}{text}", 0, len(text)), outcome)
        for problem, text, outcome in zip(problems, shown, outcomes, strict=True)
    ]
    return Rollout(completions, tuple(judgements))


def letters(ids: Sequence[int], reason: StopReason, strings: Sequence[str]) -> tuple[str, tuple[()]]:
    return "".join(map(chr, ids)), ()


def told(
    numbers: Sequence[dict[str, float]],
    rollout: Rollout | None = None,
    patience: int = 10,
    module: Mapping[str, Any] | None = None,
    data: Programs | None = None,
    **options: Any,
) -> list[Diagnosis]:
    """Diagnoses of a run with these numbers, all of whose rollouts have the same rows."""
    unlike = [f"    return {number}" for number in range(20)]
    rollout = rollout or rows([Outcome(W)] * 20, said=unlike, ends=StopReason.LENGTH)
    callback = Diagnostics(patience, **options)
    policy = SimpleNamespace(version=0, parameters=lambda: (), codec=SimpleNamespace(decode=letters))
    sampler = SimpleNamespace(settings=Collect())
    clock = Clock("rollout")
    settings = {
        **{"sampling": Sampling(), "sampler": sampler, "update": Update(), "rewards": None, "objective": Objective()},
        **dict(module or {}),
    }
    trained: Any = SimpleNamespace(policy=policy, clock=clock, **settings)
    trainer: Any = SimpleNamespace(
        is_global_zero=True,
        loggers=[],
        callbacks=[callback],
        datamodule=data or Programs(),
        optimizers=[],
        log_dir=None,
    )
    callback.on_train_start(trainer, trained)
    zeros = torch.zeros(len(rollout.judgements))
    rewards: Any = SimpleNamespace(rewards=zeros, valid=zeros == 0, term_values={})
    for metrics in numbers:
        clock.count += 1
        finished = FinishedRollout(rollout, rewards, None, {"reward/std": 0.1 * abs(metrics["reward/mean"])} | metrics)  # type: ignore[arg-type]
        callback.on_rollout_end(trainer, trained, finished)
    return callback.found


def earned(reward: float, passed: float | None = None, **more: float) -> dict[str, float]:
    named = {name.replace("__", "/"): value for name, value in more.items()}
    rate = reward if passed is None else passed
    return {"reward/mean": reward, "execution/pass_rate": rate, "optimizer/learning_rate": 0.04} | named


WRECKED = earned(
    0.0, completion__truncated_fraction=0.97, completion__format_rate=0.0, group__zero_advantage_fraction=1
)


@pytest.mark.parametrize(("well", "says"), [(1, 10), (6, 11), (9, 14), (30, 35)])
def test_what_follows_from_a_policy_that_was_lost_is_not_said_beside_it(well: int, says: int) -> None:
    """The demo with a learning rate of 0.04: rollout 1 earned 0.406, the next nothing, and 97% never ended."""
    healthy = earned(0.406, completion__truncated_fraction=0.02, completion__format_rate=1.0)
    said = told([healthy] * well + [WRECKED] * 30)
    assert [(one.rollout, one.rule) for one in said] == [(says, "collapse")]
    facts = f"rollout 1 earned 0.406, from rollout {well + 1} on 0 (100% of the completions are cut by the token limit)"
    assert facts in said[0].message and "lower the learning rate (0.04)" in said[0].message


def test_what_was_held_back_is_said_once_the_reward_is_there_again() -> None:
    cut = {"completion/truncated_fraction": 0.9}
    whole = {"completion/truncated_fraction": 0.0}
    said = told([earned(0.4) | whole] * 8 + [earned(0.4) | cut] * 5 + [earned(0.0) | cut] * 3 + [earned(0.4) | cut] * 5)
    assert [(one.rollout, one.rule) for one in said] == [(17, "truncated")]


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
    alike = {"group/zero_advantage_fraction": 0.9, "update/trained_fraction": trained}
    numbers = [earned(passed or 0.7, policy__entropy=one) | alike for one in [first] * 11 + [now] * 9]
    for one in numbers if passed is None else ():
        del one["execution/pass_rate"]
    said = told(numbers)
    assert [one.rule for one in said] == ["entropy_collapse"] * falls
    assert all(("if 0.7 is the largest possible" in one.message) is (passed is None) for one in said)


@pytest.mark.parametrize(
    ("passed", "entropy", "length", "taught", "says"),
    [
        (0.3, 0.2, 20.0, True, "policy/entropy went from 1 to 0.2, with"),
        (0.3, 0.9, 40.0, True, "completion/length went from 20 to 40, with"),
        (0.3, 0.2, 20.0, False, ""),  # no teacher: the other rules tell
        (0.3, 0.9, 20.0, True, ""),  # nothing else moved
        (0.55, 0.2, 20.0, True, ""),  # hardly a fall
    ],
)
def test_a_policy_that_loses_what_its_teacher_taught_has_collapsed(
    passed: float, entropy: float, length: float, taught: bool, says: str
) -> None:
    """Said once 7 of the last 10 rollouts fell: a mean of 0.39, 0.21 below the best and four errors of 0.046."""
    teacher = {"teacher/gap": 0.03} if taught else {}

    def row(passed: float, entropy: float, length: float) -> dict[str, float]:
        return earned(passed, policy__entropy=entropy, completion__length=length) | teacher

    rollouts = [row(0.4, 1.0, 20.0)] * 10 + [row(0.6, 0.9, 20.0)] * 10 + [row(passed, entropy, length)] * 10
    said = [one.message for one in told(rollouts) if one.rule == "teacher_collapse"]
    assert len(said) == bool(says) and all(says in message for message in said)
    if says:
        assert "execution/pass_rate fell from 0.60 to 0.39" in said[0] and "0.03 nats" in said[0]


BROKEN = "    for i in x:\n\n        return i"


@pytest.mark.parametrize(
    ("said", "outcome", "speaks"),
    [
        (BROKEN, Outcome(S, line=2, exception_message="expected an indented block after 'for' statement"), True),
        ("    return (x +\n\n 2)", Outcome(S, line=2, exception_message="'(' was never closed"), True),
        ("    if x >\n\n 1:", Outcome(S, line=2, exception_message="invalid syntax"), True),
        ("    x y z\n\n", Outcome(S, line=2, exception_message="invalid syntax"), False),
        ("    return 1\n\n", Outcome(W), False),
    ],
)
@pytest.mark.parametrize("cut", [1, 8, 20])
def test_a_stop_string_that_cuts_some_of_the_programs_is_told(
    said: str, outcome: Outcome, speaks: bool, cut: int
) -> None:
    """Of 20 rows, 6 pass; the cut ones break off where the string ended them."""
    other = "    return 2\n\n"
    texts = [said] * cut + [other] * (20 - cut)
    outcomes = [outcome] * cut + [Outcome(W)] * (20 - cut)
    found_ = told([earned(0.3)] * 10, rows(outcomes, ("\n\n", "\nclass"), texts, StopReason.STOP_STRING))
    assert [one.rule for one in found_] == (["stop_string"] if speaks and cut > 1 else [])
    if found_:
        share = "57%" if cut == 8 else "100%"
        assert f"{share} of the programs that fail break off" in found_[0].message
        assert r"'\n\n' comes inside of good answers" in found_[0].message
        assert "Programs.load_problems" in found_[0].message


@pytest.mark.parametrize(("passes", "speaks"), [(0, True), (6, False)])
def test_a_stop_string_whose_rows_never_pass_while_others_do_is_told(passes: int, speaks: bool) -> None:
    """Of 20 rows a bracket ended 12, whose programs are whole and wrong: `return sum` of `return sum(x)`."""
    kept = rows([Outcome(P)] * 4 + [Outcome(W)] * 4)
    cut = [Outcome(P)] * passes + [Outcome(W)] * (12 - passes)
    stopped = rows(cut, ("(", "\nclass"), ["    return sum(x)"] * 12, StopReason.STOP_STRING)
    found_ = told([earned((4 + passes) / 20)] * 10, _beside(kept, stopped))
    assert [one.rule for one in found_] == (["stop_string"] if speaks else [])
    if speaks:
        facts = "a stop string ended 75% of the programs that fail; of all that one ended 0% pass, of the others 50%"
        assert facts in found_[0].message and "'(' comes inside of good answers" in found_[0].message


def _beside(one: Rollout, other: Rollout) -> Rollout:
    """Rows of two rollouts, those of the second in a group of their own."""
    joined: dict[str, Any] = {}
    for field in fields(Completions):
        first, second = getattr(one.completions, field.name), getattr(other.completions, field.name)
        if isinstance(first, torch.Tensor) and first.ndim == 2:
            width = max(first.shape[1], second.shape[1])
            first, second = (F.pad(part, (0, width - part.shape[1])) for part in (first, second))
        joined[field.name] = torch.cat([first, second]) if isinstance(first, torch.Tensor) else first + second
    joined["group_ids"] = torch.arange(2).repeat_interleave(torch.tensor([len(one.judgements), len(other.judgements)]))
    return Rollout(Completions(**joined), (*one.judgements, *other.judgements))


def test_the_first_of_two_stop_strings_ended_the_row() -> None:
    """A token can bring both; of two at one place the shorter was whole first."""
    for strings, ended in ((("class", "\n\n"), "\n\n"), (("\n\nc", "\n\n"), "\n\n"), (("zz", "class"), "class")):
        told_of = rows([Outcome(W)], strings, ["x\n\nclass"], StopReason.STOP_STRING)
        assert string_that_ended(told_of, 0, 0, letters) == ended
    assert string_that_ended(rows([Outcome(W)], ("a", "b")), 0, 0, letters) == ""


@pytest.mark.parametrize(
    ("own", "where"),
    [
        (None, "stop_strings are set where Programs.load_problems makes its problems"),
        (["ret"], "data.stop_strings sets them"),
    ],
)
def test_a_stop_string_inside_of_every_answer_is_named_with_where_it_is_set(own: list[str] | None, where: str) -> None:
    cut = rows([Outcome(N)] * 20, ("ret", "\nclass"), ["    return 1"] * 20, StopReason.STOP_STRING)
    (one,) = told([earned(0.0)] * 10, cut, data=Programs(stop_strings=own))
    assert one.rule == "flat_reward"
    assert "a stop string ends 100% of the completions, after 12.0 tokens: likely 'ret' comes" in one.message
    assert where in one.message


@pytest.mark.parametrize(
    ("message", "prompt", "other"),
    [
        ("the program defines no limit", "def f(x):\n", True),
        ("name 'limit' is not defined", "def f(x):\n", True),
        ("the program defines no limit", "Write limit.\ndef f(x):\n", False),
        ("name 'y' is not defined", "def f(x):\n    return y\n", False),
    ],
)
def test_tests_that_call_other_names_than_the_prompt_asks_for_are_told_as_that(
    message: str, prompt: str, other: bool
) -> None:
    outcome = Outcome(X, exception_type="NameError", exception_message=message)
    (one,) = told([earned(0.0)] * 10, rows([outcome] * 20, prompt=prompt))
    said = "the tests call other names than the prompt asks for (limit where the program defines f)"
    assert (said in one.message) == other
    assert "`lit-rl check-data --data support.ill_runs.Programs`" in one.message


@pytest.mark.parametrize(("passed", "lost"), [(0.003, False), (0.04, False), (0.16, True), (None, True)])
def test_a_few_lucky_hits_are_no_reward_that_was_lost(passed: float | None, lost: bool) -> None:
    """Under tests of another problem some constant passes now and then; no learning rate helps there."""
    outcome = Outcome(Verdict.EXCEPTION, exception_type="TypeError")
    numbers = [earned(passed or 0.1), *(earned(0.0) for _ in range(12))]
    if passed is None:
        for one in numbers:
            del one["execution/pass_rate"]
    said = told(numbers, rows([outcome] * 20))
    assert [one.rule for one in said] == (["collapse"] if lost else ["flat_reward"])
    assert ("lower the learning rate" in said[0].message) == lost
    assert ("most often TypeError" in said[0].message) != lost


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (Outcome(Verdict.NO_PROGRAM), "100% end as no_program: no program is found"),
        (Outcome(Verdict.WRONG_ANSWER, failed_case=FailedCase(1, "f(3)", "5", "6")), "(f(3): 5, not 6)"),
        (Outcome(Verdict.EXCEPTION, exception_type="NameError"), "most often NameError; likely"),
        (
            Outcome(Verdict.EXCEPTION, exception_type="NameError", exception_message="name 'f'"),
            "NameError (name 'f'); ",
        ),
        (Outcome(Verdict.SYNTAX_ERROR), "although 100% ended by themselves: no limit or stop string cut them"),
        (Outcome(Verdict.OUTPUT_LIMIT), "in the tests"),
    ],
)
def test_what_nothing_that_passes_has_in_common(outcome: Outcome, said: str) -> None:
    run = RunHistory(1)
    run.rollout = rows([outcome] * 2)
    assert said in str(failure_mode(run))


@pytest.mark.parametrize(
    ("prompt", "text", "speaks"),
    [
        ("def f(x):\n", "    return '\\d'", True),
        ("def f(x):\n", "def f(x):\n    return 1 +", False),
        ("Write f.", "def f(x):", False),
        ("def f(x):\n", "    return \0", False),
        ("def f(x):\n", f"    return {'(' * 4000}", False),
        ("def f(x):\n", f"    return {'-' * 4900}1", False),
    ],
)
def test_completions_that_are_run_without_the_prompt_that_they_continue_are_told(
    prompt: str, text: str, speaks: bool, recwarn: pytest.WarningsRecorder
) -> None:
    for before, told_ in (("", speaks), (prompt, False)):
        run = RunHistory(1)
        run.rollout = rows([Outcome(S)] * 4, said=[text] * 4, prompt=before)
        for one in run.rollout.judgements:
            vars(one.problem)["prompt"] = prompt
        assert ("set Problem.program_prefix to the prompt" in str(failure_mode(run))) is told_
    assert not recwarn.list


def test_a_command_names_a_task_by_where_it_can_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "train.py", raising=False)
    mine = type("Mine", (Programs,), {"__module__": "__main__", "__qualname__": "Mine"})
    for text, place in (("fit()", "my_task.Mine  # with Mine moved to my_task.py"), ("if __name__ ==", "train.Mine")):
        script.write_text(text)
        assert place_of(mine) == place
    trainer = SimpleNamespace(log_dir=None, callbacks=[], datamodule=mine())
    assert where_of(trainer).check_data == "lit-rl check-data --data train.Mine"
    mine.__qualname__ = "main.<locals>.Mine"
    assert place_of(mine) == "my_task.Mine  # with Mine moved to my_task.py"
    assert place_of(Programs) == "support.ill_runs.Programs"


CASE = FailedCase(2, "x = int('one')", kind="assert")
BROKEN_TESTS = Outcome(W, exception_type="ValueError", exception_message="invalid literal", failed_case=CASE)


def test_tests_that_fail_every_program_with_one_error_at_one_statement_are_named():
    said = [f"    return {number}" for number in range(12)]
    found = told([{"reward/mean": 0.1}] * 10, rows([BROKEN_TESTS] * 12, said=said))
    (message,) = [one.message for one in found if one.rule == "broken_tests"]
    ended = "ended with ValueError: invalid literal in its tests (x = int('one'))"
    assert all(part in message for part in ("p/0", ended, "reference", "check-data"))


@pytest.mark.parametrize(
    "other",
    [
        Outcome(P),
        Outcome(W, exception_type="AssertionError", failed_case=FailedCase(2, "x = int('one')")),
        Outcome(W, exception_type="ValueError", failed_case=FailedCase(1, "y = int('two')")),
        Outcome(X, exception_type="ValueError"),
    ],
)
def test_one_program_that_ends_in_another_way_clears_the_tests(other):
    said = [f"    return {number}" for number in range(12)]
    rules = {one.rule for one in told([{"reward/mean": 0.1}] * 10, rows([BROKEN_TESTS] * 11 + [other], said=said))}
    assert "broken_tests" not in rules


# -- falls, and what is solved -------------------------------------------------------------------------------


def noise(seed: int, number: int = 300) -> list[float]:
    found: list[float] = torch.randn(number, generator=torch.Generator().manual_seed(seed)).tolist()
    return found


WOBBLE = [0.1, -0.06, -0.03, 0.04, -0.05, -0.02, 0.0, -0.04, -0.02, 0.03, -0.02, -0.01, -0.03, 0.02]
SURE = [0.45 + 0.01 * (i % 3) for i in range(20)]
CURVES: dict[str, tuple[list[float], bool]] = {
    "noise around 0": ([0.1 * one for one in noise(0)], False),
    "a rise through 0 under noise": ([0.0004 * i + 0.08 * one for i, one in enumerate(noise(0))], False),
    "from below 0 to noise around it": ([*(-0.6 + 0.05 * i for i in range(12)), *WOBBLE], False),
    "a rise from far below 0 that crosses it again": ([-2.0] * 10 + [0.1] * 20 + [0.01] * 12, False),
    "one rollout in ten earns ten times as much": ([0.4 if one > 1.28 else 0.04 for one in noise(1)], False),
    "a fall from below 0": ([-2.0] * 10 + [-0.2] * 20 + [-1.9] * 12, True),
    "a fall within the first rollouts": ([0.9, 0.6, *(0.1 + 0.01 * (i % 3) for i in range(10))], True),
}
"""Mean rewards of rollouts, and whether they collapse: means of ten go up and down by a standard error or two."""


@pytest.mark.parametrize("curve", CURVES)
def test_a_fall_is_told_and_noise_is_not(curve: str) -> None:
    rewards, falls = CURVES[curve]
    said = told([earned(one, 0.5) for one in rewards], leave_out=["truncated"])
    assert [one.rule for one in said] == ["collapse"] * falls


def test_a_fall_is_one_episode_until_most_of_it_is_made_up_for() -> None:
    """From 0.8 to 0.3, then in waves around the half of the best, then back, then down again."""
    levels = [0.8] * 20 + [0.3] * 15 + ([0.5] * 12 + [0.3] * 12) * 2 + [0.8] * 20 + [0.3] * 15
    said = [one.rollout for one in told([earned(level, 0.5) for level in levels]) if one.rule == "collapse"]
    assert len(said) == 2 and 20 < said[0] <= 32 and said[1] > 95


def test_no_verdict_is_quoted_where_nothing_runs() -> None:
    rollout = rows([Outcome(N)] * 20)
    without = [replace(one, problem=replace(one.problem, check=TokenTarget())) for one in rollout.judgements]
    played = Rollout(rollout.completions, tuple(without))
    numbers = [{n: v for n, v in earned(level).items() if "pass_rate" not in n} for level in [0.4] * 10 + [0.0] * 10]
    (said,) = told(numbers, played)
    assert said.rule == "collapse" and "no_program" not in said.message


@pytest.mark.parametrize(
    ("all_passed", "none_passed", "part"),
    [(0.97, 0.0, "the tests check nothing"), (0.0, 0.97, "no program passes"), (0.5, 0.47, "groups too small")],
)
def test_groups_that_all_pass_are_told_apart_from_those_of_which_none_does(
    all_passed: float, none_passed: float, part: str
) -> None:
    shares = {"group/all_passed_fraction": all_passed, "group/none_passed_fraction": none_passed}
    (said,) = told([earned(max(all_passed, 0.02), **{"group__zero_advantage_fraction": 0.98}) | shares] * 10)
    assert said.rule == "flat_groups" and part in said.message


@pytest.mark.parametrize(("begins", "speaks"), [(0.2, False), (0.97, True)])
def test_a_solved_task_is_no_fault_and_tests_that_always_passed_may_be(begins: float, speaks: bool) -> None:
    flat = {"group/zero_advantage_fraction": 1.0, "group/all_passed_fraction": 1.0, "policy/entropy": 0.001}
    numbers = [earned(begins, policy__entropy=1.0)] * 12 + [earned(1.0) | flat | {"reward/std": 0.0}] * 30
    assert {one.rule for one in told(numbers, rows([Outcome(P)] * 20))} == (
        {"flat_groups", "flat_reward"} if speaks else set()
    )


# -- reward and pass rate ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("passed", "reward", "speaks"),
    [((0.38, 0.12), (-0.1, 0.3), True), ((0.38, 0.12), (0.3, 0.1), False), ((0.38, 0.36), (0.1, 0.3), False)],
    ids=["hacked", "both fall", "hardly falls"],
)
def test_a_pass_rate_that_falls_while_the_reward_rises_is_told_without_validation(
    passed: tuple[float, float], reward: tuple[float, float], speaks: bool
) -> None:
    wobble = [0.02 * (-1) ** i for i in range(15)]
    numbers = [earned(reward[0] + w, passed[0] + w) for w in wobble] + [
        earned(reward[1] + w, passed[1] - w) for w in wobble
    ]
    said = [one for one in told(numbers) if one.rule == "reward_hacking"]
    assert len(said) == speaks
    if speaks:
        assert "pass rate in training fell from 38% to" in said[0].message and said[0].rollout <= 25


def test_noise_in_reward_and_pass_rate_is_no_reward_hacking() -> None:
    """Rewards that have nothing to do with passing: means of ten differ by a standard error or two, some by 0.05."""
    pairs = zip(noise(0), noise(2), strict=True)
    assert told([earned(0.5 + 0.1 * reward, 0.4 + 0.1 * passed) for reward, passed in pairs]) == []


def test_a_negative_weight_on_tests_is_named_after_the_first_rollout() -> None:
    rewards = Composite([TestsReward(weight=-1.0)])
    (said,) = told([earned(-0.1, 0.1)], module={"rewards": rewards})
    assert (said.rollout, said.rule) == (1, "negative_weight")
    paid = FormatReward()
    assert told([earned(0.1)] * 3, module={"rewards": Composite([TestsReward(weight=0.0), paid])}) == []
    (said,) = told([earned(0.1)] * 3, module={"rewards": Composite([TestsReward(weight=0.0)])})
    assert "all reward terms have weight 0" in said.message


@pytest.mark.parametrize(("decay", "rollout", "speaks"), [(0.01, 300, False), (30.0, 300, True), (30.0, 2, False)])
def test_weight_decay_is_blamed_for_what_it_takes_alone(decay: float, rollout: int, speaks: bool) -> None:
    """Weights that lost 30%: 0.01 at a rate of 1e-3 takes 0.3% in 300 rollouts, 30 takes 3% in each."""
    where = SimpleNamespace(fit="lit-rl fit")
    run: Any = SimpleNamespace(
        optimizer={"weight_decay": decay},
        weights=[torch.tensor([0.0, 0.7])],
        first_norm=1.0,
        rate=1e-3,
        rollout_step=rollout,
        module=SimpleNamespace(update=Update()),
        where=where,
    )
    assert bool(WeightDecay().look(run)) == speaks


# -- the update ----------------------------------------------------------------------------------------------

OBJECTIVE = {"objective": Objective()}


@pytest.mark.parametrize("name", ["update/advantage_agreement", "update/reward_agreement"])
@pytest.mark.parametrize(
    ("agreement", "speaks"),
    [
        ([-0.9] * 10, True),
        ([-0.9, 0.9] * 5, False),
        ([0.8] * 10, False),
        ([-0.25] * 10, True),
        ([-0.1] * 10, False),
        ([-0.9, 0.4] * 5, False),
    ],
)
def test_updates_against_their_advantages_are_told(name: str, agreement: list[float], speaks: bool) -> None:
    said = told([earned(0.3) | {name: one} for one in agreement], module=OBJECTIVE)
    assert [one.rule for one in said] == ["wrong_sign"] * speaks


def test_a_reward_that_a_wrong_sign_lost_is_not_blamed_on_the_learning_rate_later_either() -> None:
    """Nothing is measured once all rewards are 0."""
    against = {"update/advantage_agreement": -0.9}
    numbers = [earned(0.4) | against] * 6 + [earned(0.1) | against] * 4 + [WRECKED] * 40
    assert [one.rule for one in told(numbers, module=OBJECTIVE)] == ["wrong_sign"]


# -- rows compared with each other ---------------------------------------------------------------------------


def test_a_sign_that_few_rollouts_still_measure_stays_the_cause_of_a_collapse() -> None:
    against = {"update/advantage_agreement": -0.9, "update/reward_agreement": 1.0}
    measured = [earned(0.5 + 0.01 * (i % 3)) | against for i in range(12)]
    seldom = [earned(0.02) | (against if i % 9 == 0 else {"update/reward_agreement": 1.0}) for i in range(18)]
    found = told([*measured, *seldom], leave_out=["truncated", "jumping_weights"], module=OBJECTIVE)
    assert [one.rule for one in found] == ["wrong_sign"]


def four(advantages: Sequence[float], rewards: Sequence[float], groups: Sequence[int], **more: Any) -> Experience:
    """Four rows of two tokens."""
    done = rows([Outcome(P), Outcome(W), Outcome(P), Outcome(W)], said=["ab", "cd", "ab", "ef"]).completions
    done = replace(done, group_ids=torch.tensor(groups)).trim()
    mask = done.completion_mask
    return Experience(
        completions=done,
        rewards=torch.tensor(rewards),
        row_mask=torch.ones(4).bool(),
        advantages=torch.tensor(advantages)[:, None] * mask,
        **more,
    )


@pytest.mark.parametrize(
    ("advantages", "groups", "share"),
    [
        ([0.5, -0.5, 0.5, -0.5], [7, 7, 7, 7], 0.0),
        ([0.5, -0.5, 0.4, -0.5], [7, 7, 7, 7], 1.0),  # both earned 1
        ([0.5, -0.5, 0.0, -0.5], [7, 7, 7, 7], 0.0),  # the third row was dropped
        ([0.5, -0.5, 0.4, -0.4], [7, 7, 9, 9], None),  # no two rows of a group earned the same
    ],
)
def test_rows_of_equal_rewards_have_equal_advantages(
    advantages: list[float], groups: list[int], share: float | None
) -> None:
    assert unequal_advantages(four(advantages, [1.0, 0.0, 1.0, 0.0], groups)) == share


def test_rows_that_repeat_another_of_their_group_are_counted() -> None:
    def shares(groups: list[int], rewards: list[float]) -> dict[str, float]:
        return repeated(four([1.0] * 4, [1.0] * 4, groups).completions, rewards)

    assert shares([7, 7, 7, 9], [1.0] * 4) == {REPEATED: 1 / 2, UNLIKE: 1 / 2}  # of ab, cd, ab; and ef alone
    assert shares([7, 7, 7, 9], [1.0, 0.0, 1.0, 1.0]) == {REPEATED: 1 / 2, UNLIKE: 0.0}
    assert shares([7, 8, 9, 10], [1.0] * 4) == {}


@pytest.mark.parametrize(
    ("values", "share"),
    [
        ([1.0, 0.0, 1.0, 0.0], 0.0),
        ([1.0, 1.0, 0.0, 0.0], 1 / 2),
        ([0.0, 1.0, 0.0, 1.0], 1.0),
        ([1.0, 1.0, 1.0, 0.0], -1.0),  # about something else
        ([1.0, 0.5, 0.0, 0.0], None),  # graded
        ([1.0, nan, 0.0, 0.0], -1.0),  # one has the larger value, and two passed
    ],
)
def test_a_term_that_pays_other_rows_than_those_that_pass_is_seen(values: list[float], share: float | None) -> None:
    rollout = rows([Outcome(P), Outcome(W), Outcome(P), Outcome(W)])
    rewards: Any = SimpleNamespace(term_values={"tests": torch.tensor(values)})
    assert misplaced("tests", rollout, rewards) == share


def test_the_push_of_a_kl_is_compared_with_that_of_the_rewards() -> None:
    apart = torch.tensor([[0.3, -0.1], [0.0, 0.2], [5.0, 5.0], [0.1, 0.1]])  # the third row is not trained
    old = torch.full((4, 2), -1.0)
    ours = four([0.5, -0.25, 0.0, 0.75], [1.0, 0.0, 1.0, 0.0], [7] * 4, old_logprobs=old, ref_logprobs=old - apart)
    assert kl_push(ours, 10.0) == pytest.approx(10 * (0.8 / 6) / (3.0 / 6))
    assert kl_push(ours, 0.0) is None
    taken = torch.tensor([[0.0, 1.0], [2.0, 1.0], [9.0, 9.0], [0.0, 5.0]])  # 1, 3 and 5 of the rows that are trained
    credit = torch.tensor([[0.0, 1.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    paid = replace(ours, token_rewards=credit - taken)
    assert kl_push(paid, 10.0) == pytest.approx((8 / 3) ** 0.5 / (2 / 9) ** 0.5)


def test_comparisons_that_are_not_finite_are_left_out() -> None:
    old = torch.full((4, 2), -1.0)
    one = four([0.5, -0.5, 0.5, -0.5], [1.0, 0.0, 1.0, 0.0], [7] * 4, old_logprobs=old, ref_logprobs=old * nan)
    rewards: Any = SimpleNamespace(term_values={}, rewards=one.rewards)
    finished = FinishedRollout(Rollout(one.completions, ()), rewards, one, {})
    found = row_shares(SimpleNamespace(objective=Objective(kl_coef=1.0), by_turn=None), finished)
    assert found == {REPEATED: 1 / 3, UNLIKE: 0.0, UNEQUAL: 0.0}


ENTROPY = [4.0 + 0.05 * i for i in range(30)]


@pytest.mark.parametrize(
    ("coef", "reward", "speaks"), [(1.0, 0.0, True), (0.01, 0.0, False), (0.0, 0.0, False), (1.0, 0.02, False)]
)
def test_an_entropy_that_rises_is_told_where_a_bonus_pays_for_it_and_the_reward_does_not_rise(
    coef: float, reward: float, speaks: bool
) -> None:
    numbers = [earned(0.1 + reward * i, policy__entropy=one) for i, one in enumerate(ENTROPY)]
    found = told(numbers, leave_out=["truncated"], module={"objective": Objective(entropy_coef=coef)})
    assert [one.rule for one in found] == ["paid_entropy"] * speaks
    upwards = Objective(entropy_coef=coef, target_entropy=9.0)
    assert told(numbers, leave_out=["truncated"], module={"objective": upwards}) == []


@pytest.mark.parametrize(
    ("alike", "equal", "speaks"), [(20, 1.0, True), (20, 0.3, False), (18, 1.0, False), (0, 1.0, False)]
)
def test_rows_that_repeat_are_told_where_that_is_why_rewards_are_equal(alike: int, equal: float, speaks: bool) -> None:
    """Repetition is not why if other rows earn the same too."""
    said = ["same"] * alike + [f"no {i}" for i in range(20 - alike)]
    rollout = rows([Outcome(W)] * 20, said=said)
    numbers = [earned(0.1, group__zero_advantage_fraction=equal) for _ in range(12)]
    found = told(numbers, rollout, module={"sampling": Sampling(temperature=0.1)}, leave_out=["flat_groups"])
    assert [one.rule for one in found] == ["repeated_rows"] * speaks
    assert all("(0.1)" in one.message for one in found)


@pytest.mark.parametrize(("cut", "says"), [(20, ["flat_reward"]), (4, ["repeated_rows"])])
def test_rows_that_repeat_since_a_stop_string_cuts_them_are_told_by_that(cut: int, says: list[str]) -> None:
    ended = rows([Outcome(N)] * cut, ("return",), ["    return 1"] * cut, StopReason.STOP_STRING)
    rollout = ended if cut == 20 else _beside(rows([Outcome(W)] * (20 - cut), said=["no"] * (20 - cut)), ended)
    found = told([earned(0.0, group__zero_advantage_fraction=1.0) for _ in range(12)], rollout)
    assert [one.rule for one in found] == says
    assert ("'return' comes inside of good answers" in found[0].message) is (cut == 20)


@pytest.mark.parametrize(("own", "begins", "speaks"), [(False, 1.0, True), (True, 1.0, False), (False, 0.3, False)])
def test_a_policy_that_comes_closer_to_a_worse_teacher_is_told(own: bool, begins: float, speaks: bool) -> None:
    teacher = SimpleNamespace(is_policy=own, reads_reference=False)
    numbers = [earned(begins, teacher__gap=0.8), *(earned(0.25, teacher__gap=0.1) for _ in range(12))]
    found = told(numbers, leave_out=["truncated", "collapse"], module={"teacher": teacher})
    assert [one.rule for one in found] == ["worse_teacher"] * speaks


def test_a_fall_from_the_best_is_found_after_a_first_rollout_whose_reward_is_uncertain() -> None:
    lucky = earned(0.5) | {"reward/std": 0.5}
    numbers = [lucky, *map(earned, SURE), *(earned(0.1) for _ in range(10))]
    assert [one.rule for one in told(numbers, leave_out=["truncated"])] == ["collapse"]


@pytest.mark.parametrize(
    ("ends", "truncated", "speaks"),
    [("no_program", 0.0, True), ("wrong_answer", 0.0, False), ("timed_out", 0.0, False), ("no_program", 1.0, False)],
)
def test_a_validation_that_ends_otherwise_is_told_and_one_that_is_harder_is_not(
    ends: str, truncated: float, speaks: bool
) -> None:
    rule, run = ValidationDiffers(), RunHistory(10)
    measured = {f"verdict/{ends}_fraction": 1.0, "completion/truncated_fraction": truncated}
    measured |= {"pass@1": 0.0, "num_problems": 50.0}
    run.add_validation({f"val/a/{name}": value for name, value in measured.items()})
    module: Any = SimpleNamespace(policy=SimpleNamespace(), clock=SimpleNamespace(count=1))
    for _ in range(10):
        run.add_numbers(module, {"execution/pass_rate": 0.5, "verdict/wrong_answer_fraction": 0.5})
    assert bool(rule.look(run)) == speaks


@pytest.mark.parametrize(("limit", "cut", "speaks"), [(6, 1.0, True), (40, 1.0, False), (6, 0.1, False)])
def test_a_validation_with_a_smaller_limit_is_told(limit: int, cut: float, speaks: bool) -> None:
    """Harder problems are cut more often under the same limit."""
    run = RunHistory(10)
    measured = {"pass@1": 0.0, "num_problems": 50.0, "completion/truncated_fraction": cut}
    run.add_validation({f"val/a/{name}": value for name, value in measured.items()})
    module: Any = SimpleNamespace(
        policy=SimpleNamespace(),
        clock=SimpleNamespace(count=1),
        sampling=Sampling(max_tokens=40),
        validation_sampling={"a": Sampling(max_tokens=limit)},
    )
    for _ in range(10):
        run.add_numbers(module, {"execution/pass_rate": 0.5})
    assert ("max_tokens of evaluate.sampling a is 6, of training 40" in ValidationDiffers().look(run)) == speaks


@pytest.mark.parametrize(
    ("limits", "invalid", "part"),
    [
        ({}, 0.0, "tell them apart; tests gives all rows of a problem the same"),
        ({"clip_high": 0.0}, 0.0, "tell them apart; likely tests gives"),
        ({}, 0.5, "groups too small"),  # of most groups one row may be left
    ],
)
def test_rewards_that_do_not_tell_rows_of_a_group_apart(limits: dict[str, float], invalid: float, part: str) -> None:
    flat = {
        "group__zero_advantage_fraction": 1.0,
        "group__all_passed_fraction": 0.1,
        "reward__invalid_fraction": invalid,
    }
    numbers = [earned(0.3 + 0.01 * i, **flat, group__none_passed_fraction=0.3) for i in range(12)]
    (said,) = told(numbers, leave_out=["truncated"], module={"rewards": Composite([TestsReward()], **limits)})
    assert said.rule == "flat_groups" and part in said.message


@pytest.mark.parametrize(("first", "stale"), [(1e-7, True), (0.06, False)])
def test_an_engine_that_agreed_in_the_first_rollout_has_old_weights(first: float, stale: bool) -> None:
    numbers = [earned(0.3, sampling__logprob_gap__mean=gap) for gap in (first, *[0.1] * 11)]
    found = told(numbers, leave_out=["truncated"], rules=[FirstRatio(probe=False)])
    assert [("new weights do not reach it" in one.message) for one in found] == [stale]


@pytest.mark.parametrize(("eos", "first"), [({120}, "too small a limit"), ({0}, "x, which 100% of these hold")])
def test_the_end_that_a_policy_writes_and_nothing_reads_is_named(eos: set[int], first: str) -> None:
    run = RunHistory(1)
    run.rollout = rows([Outcome(W)] * 2, said=["ax b", "abcx"], ends=StopReason.LENGTH)
    tokenizer = SimpleNamespace(added_tokens_decoder={120: AddedToken("x", special=True)})  # ord of x
    policy = SimpleNamespace(codec=SimpleNamespace(eos_ids=frozenset(eos), tokenizer=tokenizer))
    run.module = SimpleNamespace(policy=policy)  # type: ignore[assignment]
    assert f"likely {first}" in str(failure_mode(run))


@pytest.mark.parametrize(("noise", "speaks"), [(0.0, True), (0.2, False)])
def test_a_reward_that_rises_by_noise_is_no_sign_of_hacking_where_validation_falls(noise: float, speaks: bool) -> None:
    run = RunHistory(10)
    for passed, reward in ((0.5, 0.3), (0.1, 0.4)):
        measured = {"val/a/pass@1": passed, "val/a/num_problems": 50.0}
        run.add_validation(measured | {"reward/mean": reward, "reward/error": noise})
    run.module = SimpleNamespace(rewards=None)  # type: ignore[assignment]
    assert bool(RewardHacking().look(run)) == speaks


def test_what_is_not_finite_is_said_alone_and_at_once() -> None:
    broken = earned(0.3, policy__loss=float("nan"), completion__truncated_fraction=0.9) | {
        "sampling/logprob_gap/mean": 3.0
    }
    said = told([earned(0.3)] + [broken] * 20)
    assert [(one.rollout, one.rule) for one in said] == [(2, "not_finite")] and "policy/loss" in said[0].message


def test_of_one_rollout_causes_are_said_before_symptoms() -> None:
    """A time limit too short for this machine, and groups that are flat for that."""
    numbers = earned(0.0, 0.01, verdict__timed_out_fraction=0.9, group__zero_advantage_fraction=1.0) | {
        "reward/std": 0.1
    }
    said = told([numbers] * 10)
    assert [one.rule for one in said] == ["timed_out", "flat_groups"] and {one.rollout for one in said} == {10}


def test_a_rule_of_a_saved_run_knows_its_levels(tmp_path: Path) -> None:
    """Best and first means with their errors, through a file that holds plain data."""
    run = RunHistory(2)
    module: Any = SimpleNamespace(policy=SimpleNamespace(parameters=lambda: ()), clock=Clock("rollout"))
    run.begin(module, Where())
    for value in (1.0, 2.0, 5.0, 3.0):
        run.add_numbers(module, {"x": value})
    torch.save(run.state_dict(), tmp_path / "state.pt")
    again = RunHistory(2)
    again.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert (again.first, again.best, again.least) == (run.first, run.best, run.least)
    assert run.first["x"] == pytest.approx((1.5, 0.5)) and run.best["x"] == pytest.approx((3.5, 1.5))
    old = run.state_dict() | {"first": {"x": 1.5}, "best": {"x": 3.5}}
    again.load_state_dict({name: value for name, value in old.items() if name not in ("least", "highest", "worst")})
    assert again.best["x"].mean == 3.5


@pytest.mark.parametrize(
    ("rate", "optimizer", "advised"),
    [(6e4, {"betas": (0.9, 0.999)}, "0.0001"), (0.1, {"betas": (0.9, 0.999)}, "0.01"), (6.0, {"momentum": 0}, "0.6")],
)
def test_a_slower_rate_is_one_that_the_optimizer_can_mean(rate: float, optimizer: Any, advised: str) -> None:
    run = RunHistory(1)
    module: Any = SimpleNamespace(policy=SimpleNamespace(parameters=lambda: ()), clock=Clock("rollout"))
    run.begin(module, Where(), optimizer)
    run.add_numbers(module, {"optimizer/learning_rate": rate})
    assert run.slower == f"lit-rl fit --config FILE --model.update.optimizer.init_args.lr {advised}"


SHARP = TINY_QWEN2 | {"initializer_range": 0.3}
"""Random weights that are large enough to prefer some tokens."""
FEW = 2
OTHERS = ("truncated", "jumping_weights", "collapse", "flat_groups", "entropy_collapse")


def small(tokenizer: str, rollouts: int, engine: Any, cls: type[CausalLM] = CausalLM, **policy: Any) -> GRPO:
    return GRPO(
        cls(tokenizer=tokenizer, **policy),
        sampling=Sampling(num_samples=4, max_tokens=6),
        rewards=[EvenBytes()],
        max_rollouts=rollouts,
        update=Update(optimizer=partial(torch.optim.Adam, lr=0.01)),
        collect=Collect(engine=engine),
    )


def diagnosed(
    tokenizer: str, folder: Path, engine: Any, cls: type[CausalLM] = CausalLM, at_most: float = 0.05, **policy: Any
) -> Any:
    """Finding of the rule in a run; ``None`` if it is silent."""
    module = small(tokenizer, FEW, engine, cls, **{"config": SHARP} | policy)
    callback = Diagnostics(FEW, rules=[FirstRatio(at_most)], leave_out=OTHERS)
    fit(module, folder, callbacks=[callback])
    return callback.found[0] if callback.found else None


CAUSES: dict[str, tuple[dict[str, Any], str]] = {
    "temperature": ({"engine": OtherSampling({"temperature": 0.6})}, "numbers are those of temperature 0.6, and"),
    "top_k": ({"engine": OtherSampling({"top_k": 20})}, "its numbers are those of temperature 1 and top_k 20"),
    "top_p": ({"engine": OtherSampling({"top_p": 0.8})}, "its numbers are those of temperature 1 and top_p 0.8"),
    "trainer's positions": ({"engine": None, "cls": ReadsPads}, "when the trainer reads each alone"),
    "sampler's positions": ({"engine": Padding()}, "when the engine samples each alone"),
    "trainer's dropout": ({"engine": None, "cls": AlwaysDrops}, "dropout in the training forward"),
    "sampler's dropout": (
        {"engine": Dropping(), "config": SHARP | {"attention_dropout": 0.5}, "share_prompts": False},
        "dropout in the sampler",
    ),
    "adapters": ({"engine": WithoutAdapters(), "lora": LoRA(rank=4)}, "adapters: the sampler's numbers are those"),
    "dtype": ({"engine": OtherDtype(), "at_most": 0.003}, "dtype: the sampler's numbers are those of bfloat16"),
    "later token": ({"engine": Reports(lambda said: (*said[1:], -4.0))}, "log-probability of the token after"),
    "earlier token": ({"engine": Reports(lambda said: (-4.0, *said[:-1]))}, "log-probability of the token before"),
    "zero": ({"engine": Reports(lambda said: [0.0] * len(said))}, "constant: the engine reports 0 for every token"),
    "numbers of others": ({"engine": Permuted(whole=False)}, "rows permuted: the engine's log-probabilities are"),
    "answers of others": ({"engine": Permuted(whole=True)}, "rows permuted: the engine's answers are"),
    "another": ({"engine": Shifted()}, "none of the "),
    "old weights": ({"engine": NeverRenewed(claims=True), "at_most": 0.01}, "new weights do not reach it, whatever"),
}  # fmt: skip


IN_SHORT = (
    "temperature",
    "trainer's positions",
    "trainer's dropout",
    "adapters",
    "dtype",
    "later token",
    "another",
    "old weights",
)


@pytest.mark.parametrize("cause", slow_but(IN_SHORT, CAUSES))
def test_each_cause_of_a_first_ratio_off_1_is_named(byte_tokenizer: str, tmp_path: Path, cause: str) -> None:
    arguments, said = CAUSES[cause]
    one = diagnosed(byte_tokenizer, tmp_path, **arguments)
    assert one is not None and one.rule == "sampler_gap"
    assert said in one.message, f"{one.message}\n{one.details}"


def test_a_healthy_engine_is_let_pass(byte_tokenizer: str, tmp_path: Path) -> None:
    assert diagnosed(byte_tokenizer, tmp_path, None, at_most=1e-4) is None


@pytest.mark.parametrize("cause", slow_but(["trainer's dropout"], ["temperature", "trainer's dropout"]))
def test_a_probe_leaves_the_run_as_it_was(byte_tokenizer: str, tmp_path: Path, cause: str) -> None:
    """Weights after the probe's passes are those of a run without it, also where training draws random numbers."""
    ends = []
    for rollouts_first in (FEW, 99):  # the second never has enough to judge by
        torch.manual_seed(0)
        module = small(byte_tokenizer, FEW + 2, **{"config": SHARP} | CAUSES[cause][0])
        callback = Diagnostics(rollouts_first, leave_out=OTHERS)
        fit(module, tmp_path, callbacks=[callback])
        assert [one.rule for one in callback.found] == (["sampler_gap"] if rollouts_first == FEW else [])
        ends.append(weights(module))
    assert torch.equal(*ends)
