"""Runs made ill on purpose: what is said first names the cause, and nothing else is blamed with certainty.

The tiny model learns to write texts of mostly ASCII, which the judge passes, within some 40 rollouts. The table
of docs/monitoring.md is that of ``PLANTED``; ``pytest -s`` prints the messages in full.
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support.ill_runs import (
    AsCompleted,
    AskedOtherwise,
    FlippedAdvantages,
    FlippedLoss,
    Judged,
    MixesGroups,
    NeverRenewed,
    NoAdvantages,
    OncePerProblem,
    OtherSampling,
    Permuted,
    Programs,
    Reports,
)
from support.small_runs import Scored, build_module, corridor, fit, grouped, sorting
from support.tiny_models import TINY_QWEN2

from lit_rl.advantages import NoBaseline
from lit_rl.callbacks import Diagnostics, ExecutionEvaluation
from lit_rl.cli.main import main
from lit_rl.data import Basics, Corridor, Sorting
from lit_rl.data.task import Split
from lit_rl.execution import AssertTests, Sandbox, TokenTarget
from lit_rl.execution.interface import Check, Outcome, Verdict
from lit_rl.models import CausalLM
from lit_rl.modules import GRPO, Distillation, Evaluate, Objective
from lit_rl.rewards import TestsReward
from lit_rl.rewards.program_tests import GRADES
from lit_rl.types import Completions, Problem, Sampling

pytestmark = pytest.mark.slow

SIX = Sampling(num_samples=8, max_tokens=6)
"""All rows end at the limit, so the rule about that is left out."""


def ascii_share(text: str) -> float:
    return sum(letter.isascii() for letter in text) / max(1, len(text))


class PassesAscii(Judged):
    """Passes texts of mostly ASCII."""

    def judge(self, program: str) -> Verdict:
        return Verdict.PASSED if ascii_share(program) >= 0.7 else Verdict.WRONG_ANSWER


class PassesNearlyAll(Judged):
    """Tests nothing: only what holds no program at all fails."""

    def judge(self, program: str) -> Verdict:
        return Verdict.PASSED if ascii_share(program) > 0.01 else Verdict.WRONG_ANSWER


class EndsAs(PassesAscii):
    """Ends all programs in one way."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome

    def submit(self, program: str, check: Check) -> Future[Outcome]:
        done: Future[Outcome] = Future()
        done.set_result(self.outcome)
        return done


class SomeEndAs(PassesAscii):
    """Ends a share of the programs in one way."""

    def judge(self, program: str) -> Verdict:
        own = super().judge(program)
        before, self.calls = self.calls, self.calls + self.share
        return self.verdict if int(before) < int(self.calls) else own


def around_zero(rows: Completions) -> list[float]:
    """A game that is won or lost: a little for ASCII under noise of many times its size."""
    noise = torch.randn(len(rows)).tolist()
    return [x + 0.3 * (ascii_share(t) - 0.5) for x, t in zip(noise, rows.texts, strict=True)]


class WithReference(Programs):
    """References define what the tests call; the prompt was cut before it says so."""

    def load_problems(self, split: Split) -> list[Problem]:
        check = AssertTests("assert area(1)")
        return [Problem(f"{split}{i}", "Write a fun", check, reference="def area(x):\n  ...") for i in range(12)]


class OnlyRewarded(Programs):
    """Prompts whose completions are only rewarded."""

    def load_problems(self, split: Split) -> list[Problem]:
        return [Problem(f"{split}{i}", "g" * (1 + i % 5), TokenTarget()) for i in range(12)]


FOREIGN = Scored(lambda rows: (1 - ascii_share(text) for text in rows.texts), "foreign")
"""Pays for what no test passes."""
NAME_ERROR = Outcome(Verdict.EXCEPTION, exception_type="NameError", exception_message="name 'area' is not defined")


def adam(lr: float, kind: Any = torch.optim.Adam, **options: Any) -> Any:
    return partial(kind, lr=lr, **options)


# What is planted: arguments of the module and the run, the rule that is to speak first, and a part of what it says.
PLANTED: dict[str, tuple[dict[str, Any], str, str]] = {
    "tests of other problems": ({"sandbox": EndsAs(NAME_ERROR)}, "flat_reward", "those of other problems"),
    "learning rate 0": ({"optimizer": adam(0.0)}, "still_weights", "the learning rate is 0"),
    "TestsReward weight -1": ({"rewards": [TestsReward(weight=-1)]}, "negative_weight", "pays for failing the tests"),
    "a term that pays for the opposite of passing": (
        {"rewards": [TestsReward(weight=0.1), FOREIGN], "rollouts": 60},
        "reward_hacking",
        "the term foreign pays for something else",
    ),
    "loss without its minus sign": (
        {"objective": Objective(loss=FlippedLoss())},
        "wrong_sign",
        "the sign of the loss: read FlippedLoss",
    ),
    "advantages upside down": (
        {"baseline": FlippedAdvantages()},
        "wrong_sign",
        "the sign of the advantages: read FlippedAdvantages",
    ),
    "optimizer that maximises": ({"optimizer": adam(0.003, maximize=True)}, "wrong_sign", "maximises the loss"),
    "weight decay 30": (
        {"optimizer": adam(0.003, torch.optim.AdamW, weight_decay=30.0)},
        "weight_decay",
        "weight_decay 30",
    ),
    "log-probabilities shifted by one token": (
        {"engine": Reports(lambda said: (*said[1:], -5.0))},
        "sampler_gap",
        "shifted by one",
    ),
    "engine returns 0 everywhere": ({"engine": Reports(lambda said: [0.0] * len(said))}, "sampler_gap", "constant"),
    "engine reports logarithms to base 2": (
        {"engine": Reports(lambda said: [one / math.log(2) for one in said])},
        "sampler_gap",
        "the engine reports logarithms to base 2",
    ),
    "answers in the wrong order": (
        {"engine": Permuted(whole=True), "model": {"initializer_range": 0.3}},
        "sampler_gap",
        "rows permuted",
    ),
    "engine at temperature 0.6": (
        {"engine": OtherSampling({"temperature": 0.6}), "model": {"initializer_range": 0.3}},
        "sampler_gap",
        "those of temperature 0.6",
    ),
    "engine that keeps its first weights": ({"engine": NeverRenewed()}, "stale_engine", "new weights do not reach it"),
    "tests that always pass": (
        {"sandbox": PassesNearlyAll(), "rollouts": 40},
        "flat_groups",
        "likely the tests check nothing",
    ),
    "prompts cut": (
        {"sandbox": EndsAs(NAME_ERROR), "data": WithReference(batch_size=4)},
        "flat_reward",
        "the prompt is not whole",
    ),
    "stop string inside of every answer": (
        {
            "sandbox": EndsAs(Outcome(Verdict.SYNTAX_ERROR)),
            "data": Programs(batch_size=4, stops=tuple("abcdefghijklmnopqrstuvwxyz0123456789!?$%&/()[]{}")),
            "sampling": Sampling(num_samples=8, max_tokens=24),
        },
        "flat_reward",
        "comes inside of good answers",
    ),
    "time limit too short": (
        {"sandbox": SomeEndAs(Verdict.TIMED_OUT, 0.4)},
        "timed_out",
        "a time limit too short for this machine",
    ),
    "learning rate 1": ({"optimizer": adam(1.0)}, "jumping_weights", "the learning rate (1) is far too high"),
    "learning rate 1e9": (
        {"optimizer": partial(torch.optim.SGD, lr=1e9)},
        "jumping_weights",
        "the learning rate (1e+09) is far too high",
    ),
    "rewards in another order than rows": (
        {"rewards": [AsCompleted()]},
        "misplaced_reward",
        "tests returns its values in another order",
    ),
    "groups mixed up": ({"baseline": MixesGroups()}, "wrong_advantages", "MixesGroups mixes up groups"),
    "advantages lost": ({"baseline": NoAdvantages()}, "wrong_advantages", "NoAdvantages returns advantages of 0"),
    "kl_coef 1000": ({"objective": Objective(kl_coef=1000.0)}, "stiff_kl", "kl_coef (1000) is too large"),
    "entropy_coef 1": (
        {"objective": Objective(entropy_coef=1.0), "model": {"initializer_range": 0.3}, "rollouts": 24},
        "paid_entropy",
        "likely entropy_coef (1) is too large",
    ),
    "temperature 0.02": (
        {"sampling": Sampling(num_samples=8, max_tokens=6, temperature=0.02), "model": {"initializer_range": 0.3}},
        "repeated_rows",
        "likely the temperature of training (0.02)",
    ),
    "a stop string in validation alone": (
        {"data": AskedOtherwise(batch_size=4), "validates": True, "rollouts": 40},
        "validation_differs",
        "100% end as no_program, of the training rows 0%",
    ),
    "memory limit too small": (
        {"sandbox": SomeEndAs(Verdict.OUT_OF_MEMORY, 0.7)},
        "out_of_memory",
        "likely a limit too small for honest programs",
    ),
    "gradient_clip_norm 1e-9": ({"gradient_clip_norm": 1e-9}, "still_weights", "gradient_clip_norm (1e-09) leaves"),
    "learning rate ends after 5 rollouts": (
        {"lr_scheduler": partial(torch.optim.lr_scheduler.StepLR, step_size=5, gamma=0.0)},
        "still_weights",
        "the schedule has ended",
    ),
    "a teacher that is worse": (
        {"cls": Distillation, "from_trained": True},
        "worse_teacher",
        "likely the teacher solves fewer of these problems",
    ),
}


def diagnosed(tokenizer: str, folder: Path, rollouts: int = 16, **options: Any) -> list[Any]:
    """Diagnoses of a run of the tiny model with ten rollouts of patience."""
    torch.manual_seed(0)
    data = options.pop("data", None) or Programs(batch_size=4)
    validation = {"limit_val_batches": 1.0} if options.pop("validates", False) else {}
    settings = {"sandbox": PassesAscii(), "rewards": [TestsReward()], "optimizer": adam(0.003), "sampling": SIX}
    trained = build_module(tokenizer, max_rollouts=60, **settings) if options.pop("from_trained", False) else None
    if trained is not None:
        fit(trained, folder, data=Programs(batch_size=4))
        options["teacher"] = CausalLM(config=TINY_QWEN2, tokenizer=tokenizer, dtype="float64")
    module = build_module(tokenizer, max_rollouts=rollouts, **settings | options)
    if trained is not None:
        module.policy = CausalLM(trained.policy.model, tokenizer=tokenizer, dtype="float64")
    callback = Diagnostics(leave_out=["truncated"])
    fit(module, folder, data=data, callbacks=[callback, ExecutionEvaluation()], **validation)
    return callback.found


@pytest.fixture(scope="module")
def table() -> Iterator[list[str]]:
    rows: list[str] = []
    yield rows
    print("\n\n| planted | said first | of it |\n| --- | --- | --- |\n" + "\n".join(rows))


@pytest.mark.parametrize("sickness", list(PLANTED))
def test_a_planted_cause_is_named_first_and_nothing_else_is_blamed(
    byte_tokenizer: str, tmp_path: Path, table: list[str], sickness: str
) -> None:
    options, rule, part = PLANTED[sickness]
    found = diagnosed(byte_tokenizer, tmp_path, **options)
    first = f"rollout {found[0].rollout}: {found[0].message}" if found else "nothing"
    table.append(f"| {sickness} | {found[0].rule if found else ''} | {first.rpartition(' (lit-rl')[0]} |")
    assert found and (found[0].rule, part in found[0].message) == (rule, True), [one[:3] for one in found]
    for one in found:
        assert 1 <= len(re.findall(r"\(?`(?:lit-rl|--)", one.message)) <= 3, "a command for each cause"
        assert one.rule == rule or "likely" in one.message, "what is not the cause is not said with certainty"
    assert len({one.rule for one in found}) == len(found), "one episode each"


# -- on the embedded task ------------------------------------------------------------------------------------
#
# Chosen by someone who had not read the rules. The policy that imitation leaves repeats itself in most rows of a group,
# and learns nevertheless.


@pytest.fixture(scope="module")
def imitated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the policy of basics_sft.yaml."""
    run = tmp_path_factory.mktemp("sft")
    main(["fit", "--config", "basics_sft", "--run_dir", str(run)])
    main(["export", str(run), str(run / "model")])
    return run / "model"


class Changed(Basics):
    """Problems changed by a mistake."""

    def __init__(self, change: Callable[[Problem], Problem], **options: Any) -> None:
        super().__init__(**options)
        self.change = change

    def load_problems(self, split: Split) -> list[Problem]:
        return [self.change(one) for one in super().load_problems(split)]


def stripped(problem: Problem) -> Problem:
    prompt = str(problem.prompt).rstrip("\n")
    return replace(problem, prompt=prompt, program_prefix=prompt, stop_strings=("\n",))


def other_entry_point(problem: Problem) -> Problem:
    return replace(problem, check=replace(problem.check, entry_point="solution"))  # type: ignore[call-arg]


def pad_for_eos(model: Path, folder: Path) -> Path:
    """The same model, whose configuration takes the pad token for EOS."""
    shutil.copytree(model, folder / "model")
    for file in ("config.json", "generation_config.json", "tokenizer_config.json"):
        text = (model / file).read_text().replace('"eos_token_id": 0', '"eos_token_id": 1')
        (folder / "model" / file).write_text(text.replace('"eos_token": "<|endoftext|>"', '"eos_token": "<|pad|>"'))
    return folder / "model"


ON_BASICS: dict[str, tuple[dict[str, Any], str, str]] = {
    "rewards kept by problem": (
        {"rewards": [OncePerProblem()]},
        "flat_groups",
        "tests gives all rows of a problem the same",
    ),
    "old weights under a new version": (
        {"engine": NeverRenewed(claims=True), "rollouts": 16},
        "sampler_gap",
        "likely new weights do not reach it",
    ),
    "prompts without their last newline": ({"change": stripped}, "flat_reward", "the prompt is not whole"),
    "tests call another name": (
        {"change": other_entry_point},
        "flat_reward",
        "other names than the prompt asks for (solution",
    ),
    "learning rate halved after each rollout": (
        {"lr_scheduler": partial(torch.optim.lr_scheduler.ExponentialLR, gamma=0.5), "rollouts": 30},
        "still_weights",
        "the schedule has ended: of the learning rate 0.0006",
    ),
    "a warm-up that was meant in tokens": (
        {"lr_scheduler": partial(torch.optim.lr_scheduler.LinearLR, start_factor=1e-9, total_iters=10**9)},
        "still_weights",
        "the schedule has hardly begun",
    ),
    "EOS taken for pad": ({"model": pad_for_eos}, "truncated", "likely <|endoftext|>, which 100% of these hold"),
    "validation under a smaller limit": (
        {"evaluate": Evaluate({"greedy": Sampling(temperature=0.0, max_tokens=6)}), "validates": True},
        "validation_differs",
        "likely max_tokens of evaluate.sampling greedy is 6",
    ),
    "loss without its minus sign": (
        {"objective": Objective(loss=FlippedLoss()), "rollouts": 40},
        "wrong_sign",
        "read FlippedLoss",
    ),
    "rewards in another order than rows": (
        {"rewards": [AsCompleted()]},
        "misplaced_reward",
        "tests returns its values in another order",
    ),
}


def on_basics(imitated: Path, folder: Path, **options: Any) -> list[Any]:
    """Diagnoses of a run of the shipped policy on the embedded task."""
    change, rollouts = options.pop("change", lambda problem: problem), options.pop("rollouts", 12)
    validation = {"limit_val_batches": 1.0, "val_check_interval": 10} if options.pop("validates", False) else {}
    source = options.pop("model", lambda model, folder: model)(imitated, folder)
    size = {"num_train_problems": 2080, "num_validation_problems": 78, "validation_batch_size": 78}
    optimizer = partial(torch.optim.AdamW, lr=6e-4, betas=(0.9, 0.95), weight_decay=0.0)
    settings = {"rewards": [TestsReward()], "optimizer": optimizer, "sampling": Sampling(num_samples=8, max_tokens=40)}
    module = GRPO(
        CausalLM(str(source)), sandbox=Sandbox, max_rollouts=rollouts, seed=0, **grouped(GRPO, **settings | options)
    )
    callback = Diagnostics()
    data = Changed(change, batch_size=16, **size)
    fit(module, folder, data=data, callbacks=[callback, ExecutionEvaluation()], **validation)
    return callback.found


@pytest.mark.parametrize("sickness", list(ON_BASICS))
def test_a_cause_planted_in_the_embedded_task_is_named_first(imitated: Path, tmp_path: Path, sickness: str) -> None:
    options, rule, part = ON_BASICS[sickness]
    found = on_basics(imitated, tmp_path, **options)
    assert found and (found[0].rule, part in found[0].message) == (rule, True), [one[:3] for one in found]
    for one in found:
        assert one.rule == rule or "likely" in one.message, "what is not the cause is not said with certainty"
    assert len({one.rule for one in found}) == len(found), "one episode each"


COSTS = {**dict.fromkeys(GRADES, -1.0), Verdict.PASSED: 0.0}


@pytest.mark.parametrize(
    "options",
    [{}, {"baseline": NoBaseline(), "rewards": [TestsReward(mode="graded", grades=COSTS)]}],
    ids=["as shipped", "costs without a baseline"],
)
def test_a_healthy_run_on_the_embedded_task_has_no_alarm(imitated: Path, tmp_path: Path, options: Any) -> None:
    assert on_basics(imitated, tmp_path, rollouts=40, validates=True, **options) == []


# -- healthy runs --------------------------------------------------------------------------------------------

LONG = 300


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_healthy_run_of_300_rollouts_has_no_alarm(byte_tokenizer: str, tmp_path: Path, seed: int) -> None:
    """It learns slowly; the task is solved before its end with one seed at least."""
    assert diagnosed(byte_tokenizer, tmp_path, rollouts=LONG, seed=seed, optimizer=adam(0.001)) == []


@pytest.mark.parametrize("seed", [0, 1])
def test_a_game_with_rewards_around_0_has_no_alarm(byte_tokenizer: str, tmp_path: Path, seed: int) -> None:
    options = {
        "rewards": [Scored(around_zero, "game")],
        "sandbox": None,
        "data": OnlyRewarded(batch_size=4),
        "seed": seed,
    }
    assert diagnosed(byte_tokenizer, tmp_path, rollouts=LONG, optimizer=adam(0.0003), **options) == []


def test_a_solved_task_has_no_alarm(byte_tokenizer: str, tmp_path: Path) -> None:
    """All pass for a hundred rollouts and more, after few did."""
    assert diagnosed(byte_tokenizer, tmp_path, rollouts=200) == []


def test_a_solved_task_without_programs_has_no_alarm(tmp_path: Path) -> None:
    """The corridor is solved within ten rollouts; then all returns are alike, and a critic has nothing to explain."""
    module = corridor(adam(0.05), 200, Sampling(num_samples=16, max_tokens=40), epochs=4)
    callback = Diagnostics()
    fit(module, tmp_path, data=Corridor(num_cells=5), callbacks=[callback])
    assert callback.found == []


def test_a_policy_that_settled_for_less_than_it_once_earned_is_told_once(tmp_path: Path) -> None:
    """Sorting ends at 4 in every row, although rows earned 5."""
    callback = Diagnostics()
    fit(sorting(adam(0.03), 120), tmp_path, data=Sorting(), callbacks=[callback])
    assert [one.rule for one in callback.found] == ["entropy_collapse", "flat_reward"]
    assert "rows earned up to 5 before" in callback.found[1].message
