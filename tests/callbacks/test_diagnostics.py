"""Each rule provoked by a real small run, and silent in a healthy one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.ill_runs import (
    Constant,
    EvenText,
    Falling,
    Judged,
    NeverRenewed,
    Noise,
    OfGroup,
    PassesOddTexts,
    Programs,
    Says,
    Shifted,
)
from support.small_runs import SaveAt, build_module, fit

from lit_rl import diagnosis
from lit_rl.callbacks import Diagnostics, ExecutionEvaluation
from lit_rl.data import Corridor, Sorting
from lit_rl.diagnosis import RULES, Diagnosis, Rule, RunSoFar
from lit_rl.diagnosis.common_end import common_end
from lit_rl.diagnosis.stop_strings import string_that_ended
from lit_rl.execution import AssertTests
from lit_rl.execution.outcome import FailedCase, Outcome, Verdict
from lit_rl.models import CorridorCritic, CorridorPolicy, SortingPolicy
from lit_rl.modules import GRPO, PPO, Objective
from lit_rl.rewards import CorridorReward, SortingReward
from lit_rl.rewards.term import TermScore
from lit_rl.rollout import FinishedRollout, Rollout
from lit_rl.types import Completions, Judgement, Problem, Program, Sampling, StopReason

FEW = 3
LET_PASS = ("truncated",)
"""Tiny rows always end at the limit."""


def found(
    module: Any, folder: Path, rules: Sequence[Rule] = (), leave_out: Sequence[str] = LET_PASS, **run: Any
) -> Any:
    """What is said of a run, by rule; each speaks once."""
    callback = Diagnostics(FEW, rules=rules, leave_out=leave_out)
    fit(module, folder, callbacks=[callback, *run.pop("callbacks", [])], **run)
    assert len({one.rule for one in callback.found}) == len(callback.found), "a rule speaks once"
    return {one.rule: one for one in callback.found}


LONGER = Sampling(num_samples=4, max_tokens=12)


def sgd(lr: float) -> Any:
    return partial(torch.optim.SGD, lr=lr)


def adam(lr: float) -> Any:
    return partial(torch.optim.Adam, lr=lr)


# Runs of the tiny model, by the rule that they provoke: arguments of module and callback, and a part of what is said.
PROVOKED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "flat_reward": ({"rewards": [Constant()]}, {}, "all rewards of the last 3 rollouts were 0"),
    "flat_groups": ({"rewards": [OfGroup()]}, {}, "100% of the groups have equal rewards"),
    "truncated": (
        {},
        {"leave_out": (), "rules": [diagnosis.Truncated(0.9)]},
        "of the completions are cut by the token limit",
    ),
    "sampler_gap": ({"engine": Shifted()}, {}, "sampler and trainer differ by 0.2 nats"),
    "still_weights": ({"optimizer": sgd(1e-30), "max_rollouts": FEW + 1}, {}, "the learning rate 1e-30 is too small"),
    "jumping_weights": (
        {"optimizer": adam(0.5), "max_rollouts": FEW + 1, "rewards": [Noise()]},
        {},
        "the learning rate (0.5) is far too high",
    ),
    "collapse": ({"rewards": [Falling(FEW)], "max_rollouts": 2 * FEW}, {}, "lower the learning rate (0.5)"),
    "stale_engine": ({"engine": NeverRenewed(), "max_rollouts": FEW + 2}, {}, "weights that are 2.0 rollouts old"),
    "timed_out": (
        {"sandbox": Judged(Verdict.TIMED_OUT, 0.4)},
        {"data": Programs(batch_size=3)},
        "of the programs time out",
    ),
    "infrastructure": (
        {"sandbox": Judged(Verdict.INFRASTRUCTURE_FAILURE, 0.09)},
        {"data": Programs(batch_size=3)},
        "of the programs could not be judged for reasons that are ours",
    ),
    "format_falling": (
        {"engine": Says("```\nx\n```", FEW), "sandbox": Judged(), "max_rollouts": 2 * FEW, "sampling": LONGER},
        {"data": Programs(batch_size=3), "leave_out": ["truncated", "sampler_gap", "flat_reward", "flat_groups"]},
        "with a program in a fenced block fell from 100% to 67%",
    ),
}


@pytest.mark.parametrize("rule", list(PROVOKED))
def test_each_rule_names_its_cause_and_no_other(byte_tokenizer: str, tmp_path: Path, rule: str) -> None:
    of_module, of_callback, said = PROVOKED[rule]
    messages = found(build_module(byte_tokenizer, **({"max_rollouts": FEW} | of_module)), tmp_path, **of_callback)
    assert list(messages) == [rule]
    message = messages[rule].message
    assert said in message and "\n" not in message and f"docs/monitoring.md#{rule}" in message


def corridor(critic_lr: float, rewards: list[Any], max_rollouts: int, **kwargs: Any) -> PPO:
    return PPO(
        CorridorPolicy(num_cells=5),
        critic=CorridorCritic(num_cells=5),
        sampling=Sampling(num_samples=4, max_tokens=6),
        rewards=rewards,
        critic_lr=critic_lr,
        gradient_clip_norm=None,
        critic_gradient_clip_norm=None,
        max_rollouts=max_rollouts,
        **kwargs,
    )


@pytest.mark.parametrize(
    ("rate", "speaks"), [(1e-12, True), (0.3, False)], ids=["a critic that stays", "a critic that learns"]
)
def test_a_critic_that_explains_nothing_is_called_useless(tmp_path: Path, rate: float, speaks: bool) -> None:
    module = corridor(rate, [CorridorReward()], 8, optimizer=adam(0.05))
    messages = found(module, tmp_path, [diagnosis.UselessCritic(after=4)], data=Corridor(num_cells=5))
    assert ("useless_critic" in messages) == speaks
    if speaks:
        assert "the critic explains " in messages["useless_critic"].message


@pytest.mark.parametrize(("rate", "speaks"), [(30.0, True), (0.5, False)], ids=["diverges", "converges"])
def test_a_loss_that_explodes_is_told(tmp_path: Path, rate: float, speaks: bool) -> None:
    module = corridor(rate, [CorridorReward()], 8, optimizer=sgd(0.01))
    messages = found(module, tmp_path, data=Corridor(num_cells=5))
    assert ("exploding_loss" in messages) == speaks
    if speaks:
        assert "critic/value_loss went from" in messages["exploding_loss"].message


def sorting(lr: float, max_rollouts: int = 10, **kwargs: Any) -> GRPO:
    return GRPO(
        SortingPolicy(init_seed=0),
        sampling=Sampling(num_samples=16, max_tokens=3),
        rewards=[SortingReward()],
        optimizer=adam(lr),
        gradient_clip_norm=None,
        max_rollouts=max_rollouts,
        **kwargs,
    )


SORTED: dict[str, tuple[dict[str, Any], str]] = {
    "exploding_kl": ({"num_epochs": 6}, "the updates of one rollout move the policy by "),
    "entropy_collapse": ({}, "the entropy fell from 1"),
    "reference_drifted": ({"objective": Objective(kl_coef=1e-6)}, "nats a token from its reference"),
}


@pytest.mark.parametrize("rule", list(SORTED))
@pytest.mark.parametrize(("rate", "speaks"), [(1.0, True), (0.003, False)], ids=["fast", "slow"])
def test_a_policy_that_runs_away_is_told_by_what_it_leaves(
    tmp_path: Path, rule: str, rate: float, speaks: bool
) -> None:
    arguments, said = SORTED[rule]
    messages = found(sorting(rate, **arguments), tmp_path, data=Sorting())
    assert (rule in messages) == speaks
    if speaks:
        assert said in messages[rule].message


@pytest.mark.parametrize(
    ("judge", "speaks"), [(PassesOddTexts(), True), (Judged(share=0.5), False)], ids=["hacked", "honest"]
)
def test_reward_that_rises_while_pass_at_1_falls_shows_three_completions(
    byte_tokenizer: str, tmp_path: Path, judge: Judged, speaks: bool
) -> None:
    """Even bytes are paid, and programs pass by their odd bytes."""
    module = build_module(
        byte_tokenizer,
        sandbox=judge,
        rewards=[EvenText()],
        optimizer=adam(0.03),
        max_rollouts=18,
        validation_sampling={"sampled": Sampling(num_samples=8, max_tokens=6)},
    )
    messages = found(
        module,
        tmp_path,
        callbacks=[ExecutionEvaluation()],
        data=Programs(batch_size=3),
        limit_val_batches=1.0,
        val_check_interval=6,
        check_val_every_n_epoch=None,
    )
    assert ("reward_hacking" in messages) == speaks
    if speaks:
        one = messages["reward_hacking"]
        assert "val/sampled/pass@1 fell from" in one.message
        assert one.details.count("reward ") == 3 and "wrong_answer" in one.details


ENDS: dict[str, tuple[Judged, dict[str, Any], str]] = {
    "nothing but a stop string": (
        Judged(Verdict.SYNTAX_ERROR),
        {"stop_strings": tuple("abcdefghijklmnopqrstuvwxyz0123456789!?$%&/()[]{}")},
        "a stop string ends",
    ),
    "the token limit": (Judged(Verdict.WRONG_ANSWER), {}, "cut by the token limit: raise sampling.max_tokens"),
}


@pytest.mark.parametrize("end", list(ENDS))
def test_a_flat_reward_says_what_most_rows_have_in_common(byte_tokenizer: str, tmp_path: Path, end: str) -> None:
    judge, task, said = ENDS[end]
    module = build_module(byte_tokenizer, sandbox=judge, rewards=[Constant()], sampling=LONGER, max_rollouts=FEW)
    one = found(module, tmp_path, data=Programs(batch_size=3, **task))["flat_reward"]
    assert said in one.message
    assert one.details.count("reward 0") == 3


class GoneAfter(EvenText):
    """Nothing after some rollouts."""

    calls = 0

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        self.calls += 1
        return [TermScore((one.value or 0.0) * (self.calls <= FEW)) for one in super().score(completions, judgements)]


def test_a_reward_that_was_there_before_was_lost(byte_tokenizer: str, tmp_path: Path) -> None:
    """One line with the facts; that all rewards are the same follows from it."""
    module = build_module(byte_tokenizer, rewards=[GoneAfter()], max_rollouts=2 * FEW)
    messages = found(module, tmp_path)
    assert list(messages) == ["collapse"]
    assert re.search(r"rollout [123] earned 0\.\d+, from rollout 4 on 0 \(", messages["collapse"].message)
    assert "lower the learning rate (0.5)" in messages["collapse"].message
    without = found(
        build_module(byte_tokenizer, rewards=[GoneAfter()], max_rollouts=2 * FEW),
        tmp_path,
        leave_out=["truncated", "collapse"],
    )
    assert "earned 0." in without["flat_reward"].message and "the policy lost that" in without["flat_reward"].message


# -- runs told by their numbers ------------------------------------------------------------------------------

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
    numbers: Sequence[dict[str, float]], rollout: Rollout | None = None, patience: int = 10, **options: Any
) -> list[Diagnosis]:
    """What is said of a run with these numbers, all of whose rollouts have the same rows."""
    rollout = rollout or rows([Outcome(W)] * 20, ends=StopReason.LENGTH)
    callback = Diagnostics(patience, **options)
    policy = SimpleNamespace(version=0, parameters=lambda: (), codec=SimpleNamespace(decode=letters))
    module: Any = SimpleNamespace(policy=policy, sampling=Sampling(), num_epochs=1, num_minibatches=1, rollout_step=0)
    trainer: Any = SimpleNamespace(is_global_zero=True, loggers=[], callbacks=[callback], datamodule=Programs())
    callback.on_train_start(trainer, module)
    rewards: Any = SimpleNamespace(rewards=torch.zeros(len(rollout.judgements)))
    for metrics in numbers:
        module.rollout_step += 1
        finished = FinishedRollout(rollout, rewards, None, {"reward/std": 0.1 * metrics["reward/mean"]} | metrics)  # type: ignore[arg-type]
        callback.on_rollout_end(trainer, module, finished)
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


def test_a_reward_that_begins_below_0_is_not_gone_at_0() -> None:
    """Rewards between -1 and 1 that rise slowly, with noise around 0."""
    noise = [0.1, -0.06, -0.03, 0.04, -0.05, -0.02, 0.0, -0.04, -0.02, 0.03, -0.02, -0.01, -0.03, 0.02]
    assert told([earned(-0.6 + 0.05 * i, 0.5) for i in range(12)] + [earned(x, 0.5) for x in noise]) == []


@pytest.mark.parametrize("trained", [0.0, 0.5])
def test_the_entropy_is_not_asked_while_nothing_is_trained(trained: float) -> None:
    """Answers of a few tokens: the entropy of a few rows is noise, and no update can have moved it."""
    alike = {"group/zero_advantage_fraction": 0.9, "update/trained_fraction": trained}
    said = told([earned(0.1, policy__entropy=entropy) | alike for entropy in [1.0] * 11 + [0.05] * 9])
    assert [one.rule for one in said] == (["entropy_collapse"] if trained else [])


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
        assert r"whether '\n\n' comes inside of good answers" in found_[0].message
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
        assert f"{facts}: check whether '(' comes inside" in found_[0].message


def _beside(one: Rollout, other: Rollout) -> Any:
    """Rows of two rollouts, as far as rules about stop strings look at them."""
    completions: Any = SimpleNamespace(
        problems=one.completions.problems + other.completions.problems,
        turns=one.completions.turns + other.completions.turns,
        stop_reasons=one.completions.stop_reasons + other.completions.stop_reasons,
        texts=one.completions.texts + other.completions.texts,
        completion_ids=torch.cat([one.completions.completion_ids[:, :15], other.completions.completion_ids[:, :15]]),
        weights_versions=(),
    )
    return Rollout(completions, (*one.judgements, *other.judgements))


def test_the_first_of_two_stop_strings_ended_the_row() -> None:
    """A token can bring both; of two at one place the shorter was whole first."""
    for strings, ended in ((("class", "\n\n"), "\n\n"), (("\n\nc", "\n\n"), "\n\n"), (("zz", "class"), "class")):
        told_of = rows([Outcome(W)], strings, ["x\n\nclass"], StopReason.STOP_STRING)
        assert string_that_ended(told_of, 0, 0, letters) == ended
    assert string_that_ended(rows([Outcome(W)], ("a", "b")), 0, 0, letters) == ""


def test_a_stop_string_inside_of_every_answer_is_named_with_where_it_is_set() -> None:
    cut = rows([Outcome(N)] * 20, ("ret", "\nclass"), ["    return 1"] * 20, StopReason.STOP_STRING)
    (one,) = told([earned(0.0)] * 10, cut)
    assert one.rule == "flat_reward"
    assert "a stop string ends 100% of the completions, after 12.0 tokens: check whether 'ret' comes" in one.message
    assert "stop_strings are set where Programs.load_problems makes its problems" in one.message


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
        (Outcome(Verdict.EXCEPTION, exception_type="NameError"), "most often NameError: read"),
        (
            Outcome(Verdict.EXCEPTION, exception_type="NameError", exception_message="name 'f'"),
            "NameError (name 'f'): ",
        ),
        (Outcome(Verdict.SYNTAX_ERROR), "does a stop string or the token limit cut them"),
        (Outcome(Verdict.OUTPUT_LIMIT), "do the tests fit it"),
    ],
)
def test_what_nothing_that_passes_has_in_common(outcome: Outcome, said: str) -> None:
    run = RunSoFar(1)
    run.rollout = rows([outcome] * 2)
    assert said in str(common_end(run))


def test_a_healthy_run_hears_nothing(byte_tokenizer: str, tmp_path: Path) -> None:
    assert found(build_module(byte_tokenizer, max_rollouts=8), tmp_path) == {}


def test_nothing_is_said_before_the_patience_is_over(byte_tokenizer: str, tmp_path: Path) -> None:
    module = build_module(byte_tokenizer, max_rollouts=FEW - 1, rewards=[Constant()])
    assert found(module, tmp_path) == {}


def test_a_run_that_goes_on_hears_nothing_twice(byte_tokenizer: str, tmp_path: Path) -> None:
    first, second = Diagnostics(FEW, leave_out=LET_PASS), Diagnostics(FEW, leave_out=LET_PASS)
    module = build_module(byte_tokenizer, max_rollouts=4, rewards=[Constant()])
    fit(module, tmp_path, callbacks=[first, SaveAt(4, tmp_path / "four.ckpt")])
    module = build_module(byte_tokenizer, max_rollouts=6, rewards=[Constant()])
    fit(module, tmp_path, callbacks=[second], ckpt_path=str(tmp_path / "four.ckpt"))
    assert [one.rollout for one in first.found] == [FEW]
    assert second.found == first.found


class Short(Rule):
    """A rule as a researcher writes it."""

    name = "short"
    page = ""

    def __init__(self, at_least: float = 5.0) -> None:
        self.at_least = at_least

    def look(self, run: RunSoFar) -> str:
        length = run.mean("completion/length")
        return f"{length:.0f} tokens" if length is not None and length < self.at_least else ""


def test_rules_of_ones_own_are_asked_and_take_the_place_of_those_with_their_name(
    byte_tokenizer: str, tmp_path: Path
) -> None:
    module = build_module(byte_tokenizer, max_rollouts=FEW)
    assert found(module, tmp_path, rules=[Short(100.0)])["short"].message == "6 tokens"
    rules = Diagnostics(rules=[diagnosis.Truncated(0.9), Short()]).rules
    assert len(rules) == len(RULES) + 1
    assert [rule.at_most for rule in rules if isinstance(rule, diagnosis.Truncated)] == [0.9]


def test_each_rule_has_a_name_of_its_own_and_an_entry_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text()
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert [name for name in names if f"### {name}\n" not in page] == []


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: Diagnostics(patience=0), "patience"),
        (lambda: Diagnostics(leave_out=["colapse"]), "colapse"),
        (lambda: diagnosis.Truncated(1.5), "at_most"),
        (lambda: diagnosis.FirstRatio(0.0), "at_most"),
        (lambda: diagnosis.ExplodingLoss(factor=0.5), "factor"),
    ],
)
def test_thresholds_that_make_no_sense_are_refused(build: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        build()
