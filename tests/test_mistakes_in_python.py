"""Mistakes of people who write Python: each is refused in one line where the object is built, not in rollout 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import lightning.pytorch as pl
import pytest
import torch
from support.command_line import TINY

from lit_rl import (
    DPO,
    GRPO,
    PPO,
    SFT,
    AssertTests,
    Basics,
    CausalLM,
    Collect,
    LoRA,
    Problem,
    Sampling,
    Sandbox,
    TaskDataModule,
    TestsReward,
    Trainer,
    evaluate,
)
from lit_rl.arguments import ArgumentError, TypedArguments, arguments_of, fits
from lit_rl.callbacks import Checkpointing, ExecutionEvaluation
from lit_rl.data import Sorting
from lit_rl.data.rows import Row
from lit_rl.execution import CallTests, Checker, SandboxFusionClient
from lit_rl.losses import Clipped
from lit_rl.models import ModelTeacher, SeparateCritic, SortingPolicy
from lit_rl.modules import CriticUpdate, Distillation, Evaluate, Objective, RolloutModule, Update, setup_checks
from lit_rl.modules.sft import demonstration
from lit_rl.rewards import LengthPenalty, OverlongPenalty, RewardTerm, SortingReward
from lit_rl.rewards.term import TermScore
from lit_rl.trainer import doubt_end


def reward_of_trl(completions: list[str], **_: Any) -> list[float]:
    return [0.0 for _ in completions]


class NoInit(RewardTerm):
    """Forgets the constructor of its base."""

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    def score(self, completions: Any, judgements: Any) -> list[TermScore]:
        return []


class NoOptions(TaskDataModule):
    """Likewise, of a task."""

    def __init__(self, path: str) -> None:
        self.path = path

    def load_problems(self, split: str) -> list[Problem]:
        return [PROBLEM]


class Unnamed(NoInit):
    def __init__(self) -> None:
        RewardTerm.__init__(self)


def quiet(**settings: Any) -> Trainer:
    return Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, **settings)


WEIGHTS = [torch.nn.Parameter(torch.zeros(()))]
ADAM = torch.optim.AdamW(WEIGHTS)
POLICY = CausalLM("folder")
CHECK = AssertTests("assert f()")
PROBLEM = Problem("a", "def f():", CHECK)


def sorting(frozen: bool = False, **own: Any) -> GRPO:
    """A module that can train, with methods of its own."""
    policy = SortingPolicy()
    policy.load()
    policy.requires_grad_(not frozen)
    module = GRPO(policy, [SortingReward()], sampling=Sampling(num_samples=2, max_tokens=3), max_rollouts=1)
    module.collect = lambda batch: pytest.fail("it sampled")  # type: ignore[method-assign]
    vars(module).update(own)
    return module


class Mine(RolloutModule):
    """Gives its advantages for an experience."""

    def make_experience(self, rollout: Any, rewards: Any) -> Any:
        return rewards.rewards - rewards.rewards.mean()


def learn(module: RolloutModule) -> None:
    quiet(limit_val_batches=0).fit(module, Sorting())


def grpo(policy: Any = POLICY, **given: Any) -> GRPO:
    return GRPO(policy, **({"rewards": [TestsReward()]} | given))


# what is written, and what the answer must say
MISTAKES: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "a term without a list": (
        lambda: grpo(rewards=TestsReward()),
        ("GRPO.rewards: expected a list of RewardTerm", "got <lit_rl.", "put it into a list"),
    ),
    "a term by name": (
        lambda: grpo(rewards="TestsReward"),
        ("rewards: expected a list", "got 'TestsReward'", "an object such as TestsReward(...)"),
    ),
    "a term that forgets its base": (
        lambda: grpo(rewards=[NoInit()]),
        ("NoInit has no name and weight: have NoInit.__init__ call super().__init__(",),
    ),
    "a reward of TRL": (
        lambda: grpo(rewards=[reward_of_trl]),
        ("GRPO.rewards", "write a class derived from RewardTerm with score: lit-rl docs own_task"),
    ),
    "a pair for a case": (lambda: CallTests(((2, 4),), "f"), ("cases[0]", "got (2, 4)", "f(2) == 4 is ((2,), 4)")),
    "rollouts for a trainer": (lambda: Trainer(max_rollouts=2), ("no argument max_rollouts: the module takes it",)),
    "a resume of older versions": (
        lambda: Trainer(resume_from_checkpoint="a.ckpt"),
        ("no argument resume_from_checkpoint: the same command resumes by itself",),
    ),
    "a time limit of the sandbox": (lambda: Sandbox(timeout=5), ("no argument timeout: ", "timeout_seconds")),
    "sampling as a dict": (
        lambda: grpo(sampling={"num_samples": 4}),
        ("GRPO.sampling: expected Sampling, got {'num_samples': 4}; write Sampling(num_samples=4)",),
    ),
    "validation by a dict": (
        lambda: Evaluate({"greedy": {"temperature": 0}}),
        ("sampling['greedy']: expected Sampling, got {'temperature': 0}; write Sampling(temperature=0)",),
    ),
    "validation without a name": (
        lambda: Evaluate(Sampling()),
        ("Evaluate.sampling: expected a dict of Sampling by name or None, got Sampling(", "; put it into a dict under"),
    ),
    "a folder for a policy": (
        lambda: grpo("folder"),
        ("policy: expected Policy, got 'folder'; give an object such as CausalLM(...)",),
    ),
    "a model for a policy": (
        lambda: SFT(torch.nn.Sequential(torch.nn.Linear(1, 1))),  # type: ignore[arg-type]
        ("policy: expected", "got Sequential( (0): Linear"),
    ),
    "a built optimizer": (
        lambda: Update(optimizer=ADAM),
        ("Update.optimizer: expected a function", "lambda it: AdamW(it)"),
    ),
    "another library's group": (
        lambda: grpo(num_generations=8),
        ("GRPO has no argument num_generations: give sampling=Sampling(num_samples=...)",),
    ),
    "a field of the sampling": (lambda: grpo(max_tokens=8), ("give sampling=Sampling(max_tokens=...)",)),
    "a mistyped argument": (lambda: grpo(max_rollout=3), ("no argument max_rollout; did you mean max_rollouts?",)),
    "an argument of another method": (
        lambda: DPO(POLICY, num_generations=8),  # type: ignore[call-arg]
        ("DPO has no argument num_generations: it takes policy, kind, beta, average, rewards, ",),
    ),
    # -- numbers and words -----------------------------------------------------------------------------------
    "a number as a text": (
        lambda: grpo(max_rollouts="2"),
        ("GRPO.max_rollouts: expected int", "write 2 without quotes"),
    ),
    "no rollouts": (lambda: grpo(max_rollouts=0), ("max_rollouts: expected at least 1, got 0",)),
    "a temperature that is NaN": (lambda: Sampling(temperature=math.nan), ("temperature: expected float, got nan",)),
    "PEFT's name of the rank": (lambda: LoRA(r=8), ("LoRA has no argument r: it takes rank, alpha",)),  # type: ignore[call-arg]
    # -- classes, names and dicts for objects ------------------------------------------------------------------
    "a term's class": (lambda: grpo(rewards=[TestsReward]), ("rewards[0]: expected RewardTerm", "TestsReward(...)")),
    "a loss's class": (lambda: Objective(loss=Clipped), ("Objective.loss: expected Loss", "Clipped(...)")),  # type: ignore[arg-type]
    "a correction's name elsewhere": (
        lambda: Objective(correction="TIS"),
        ("correction: expected", "TruncatedWeights"),
    ),  # type: ignore[arg-type]
    "an engine by name": (lambda: Collect(engine="vllm"), ("Collect.engine: expected Engine", "VLLM(...)")),  # type: ignore[arg-type]
    "a template's file": (
        lambda: CausalLM("a", chat_template="my.jinja"),
        ("chat_template: expected a Jinja template, got", "give its text"),
    ),
    "torch's name of the dtype": (lambda: CausalLM("a", torch_dtype="bf16"), ("torch_dtype; did you mean dtype?",)),  # type: ignore[call-arg]
    "a term without a name": (lambda: Unnamed(), ("Unnamed.default_name is empty",)),
    # -- tasks and problems --------------------------------------------------------------------------------------
    "a task that forgets its base": (
        lambda: NoOptions("x").problems("train"),
        ("NoOptions has no _problems: have NoOptions.__init__ call super().__init__(**options)",),
    ),
    "a task that forgets its base, in a run": (
        lambda: quiet().fit(grpo(), NoOptions("x")),
        ("have NoOptions.__init__ call super().__init__(**options)",),
    ),
    "a checker's file": (
        lambda: Checker("tests/check.cpp"),
        ("Checker.source: expected the text of a program, not its file, got 'tests/check.cpp'",),
    ),
    "little memory": (lambda: Sandbox(memory_bytes=512), ("Sandbox.memory_bytes: expected at least 16777216 bytes",)),
    "a split by another name": (lambda: Basics().problems("valid"), ("split: expected one of 'train', 'validation'",)),  # type: ignore[arg-type]
    "a problem with a text for a check": (
        lambda: Problem("a", "b", "assert f()"),
        ("Problem.check: expected a check",),
    ),  # type: ignore[arg-type]
    "a problem with a number for a prompt": (lambda: Problem("a", 3, CHECK), ("Problem.prompt: expected a text",)),  # type: ignore[arg-type]
    "a message without a role": (lambda: Problem("a", ({"user": "x"},), CHECK), ("Problem.prompt", "'role': 'user'")),
    "a problem named by a number": (lambda: Problem(3, "b", CHECK), ("Problem.task_id: expected a text, got 3",)),  # type: ignore[arg-type]
    "one stop string": (
        lambda: Problem("a", "b", CHECK, stop_strings="x"),
        ("stop_strings: expected a tuple of texts",),
    ),  # type: ignore[arg-type]
    # -- without a trainer -----------------------------------------------------------------------------------------
    "texts to evaluate on": (lambda: evaluate(POLICY, ["def f():"]), ("problems[0]: expected Problem",)),  # type: ignore[list-item]
    "a task to evaluate on": (
        lambda: evaluate(POLICY, Basics()),
        ("problems: expected a list of Problem", "give Basics(...).problems('validation')"),
    ),  # type: ignore[arg-type]
    "a module to evaluate": (
        lambda: evaluate(grpo(), [PROBLEM]),
        ("policy: expected Policy", "; give its policy, GRPO(...).policy"),
    ),  # type: ignore[arg-type]
    "programs without a sandbox": (lambda: evaluate(POLICY, [PROBLEM]), ("no sandbox", "give sandbox=Sandbox()")),
    "no k": (
        lambda: evaluate(POLICY, [PROBLEM], ks=[]),
        ("ks: expected at least one number, got none; (1,) measures pass@1",),
    ),
    "no batch": (lambda: evaluate(POLICY, [PROBLEM], batch_size=0), ("batch_size: expected at least 1, got 0",)),
    "one text to complete": (lambda: POLICY.complete("def f():"), ("prompts: expected a list", "put it into a list")),
    "numbers to complete": (lambda: POLICY.complete([1]), ("prompts[0]: expected str or Problem, got 1",)),  # type: ignore[list-item]
    "completing with a dict": (lambda: POLICY.complete(["a"], {"top_k": 1}), ("write Sampling(top_k=1)",)),  # type: ignore[arg-type]
    "saving before loading": (lambda: POLICY.save_pretrained("x"), ("no weights to save yet", "load()")),
    "the device of nothing": (lambda: POLICY.device, ("CausalLM has no weights yet", "load()")),
    # -- the trainer -----------------------------------------------------------------------------------------------
    "a mistyped setting": (
        lambda: Trainer(maxepochs=3),
        ("Trainer has no argument maxepochs; did you mean max_epochs?",),
    ),
    "a callback by name": (
        lambda: Trainer(callbacks="Checkpointing"),
        ("callbacks: expected a list of Callback", "Checkpointing(...)"),
    ),
    "a logger by name": (lambda: Trainer(logger="wandb"), ("Trainer.logger: expected Logger", "WandbLogger(...)")),
    "a task and a module, swapped": (
        lambda: quiet().fit(Basics(), grpo()),
        ("fit: expected a module first, such as GRPO(...), then a task, got <lit_rl", "swap the two"),
    ),
    "a policy to train": (lambda: quiet().fit(POLICY, Basics()), ("expected a module first", "got CausalLM(")),
    "a module's class to train": (lambda: quiet().fit(GRPO, Basics()), ("give an object of the class, GRPO(...)",)),
    "a task and a module to measure": (
        lambda: quiet().validate(Basics(), grpo()),
        ("validate: expected a module first", "swap the two"),
    ),
    "a training of no epochs": (lambda: quiet(max_epochs=0).fit(grpo(), Basics()), ("trainer.max_epochs is 0",)),
    "PPO without its critic": (
        lambda: PPO(POLICY, [TestsReward()]),  # type: ignore[call-arg]
        ("PPO.critic: expected Critic, got nothing; give an object such as", "such as SeparateCritic(...)"),
    ),
    "GRPO without rewards": (
        lambda: GRPO(POLICY),  # type: ignore[call-arg]
        ("GRPO.rewards: expected a list of RewardTerm", "got nothing"),
    ),
    "more by position than there are": (
        lambda: GRPO(POLICY, [TestsReward()], 4),  # type: ignore[misc]
        ("GRPO takes policy, rewards by position, got 3 values; write the others by name, such as max_rollouts=4",),
    ),
    "a rate below 0": (
        lambda: learn(sorting(update=Update(optimizer=lambda of: torch.optim.AdamW(of, lr=-1)))),
        ("update.optimizer cannot be built: Invalid learning rate: -1; correct its arguments",),
    ),
    "an optimizer that is not returned": (
        lambda: learn(sorting(update=Update(optimizer=lambda of: None))),  # type: ignore[arg-type,return-value]
        ("update.optimizer: expected a function that returns what it builds, got None",),
    ),
    "a mistyped field of a model": (
        lambda: CausalLM(config=TINY | {"hiden_size": 8}, tokenizer="package:lit_rl/data/basics/tokenizer").load(),
        ("model.policy.config.hiden_size: expected a field of qwen2", "did you mean hidden_size?"),
    ),
    # -- what strangers did ----------------------------------------------------------------------------------------
    "a check and a program, swapped": (lambda: Sandbox().submit(CHECK, "x"), ("submit: expected", "swap the two")),  # type: ignore[arg-type]
    "no program": (lambda: Sandbox().judge_many([(None, CHECK)]), ("text of a program", "got None and Assert")),  # type: ignore[list-item]
    "a test for a check": (lambda: Sandbox().submit("x", "assert f()"), ("a check such as", "'assert f()'")),  # type: ignore[arg-type]
    "a server's check and program, swapped": (
        lambda: SandboxFusionClient("http://127.0.0.1:9").submit(CHECK, "x"),  # type: ignore[arg-type]
        ("submit: expected", "swap the two"),
    ),
    "two callbacks that save": (
        lambda: quiet(callbacks=[Checkpointing("a"), Checkpointing("b")]),
        ("trainer.callbacks has Checkpointing more than once", "keep one"),
    ),
    "nothing to train on": (lambda: quiet().fit(grpo()), ("a task, such as datamodule=Basics()", "got None")),
    "a list of tests": (lambda: AssertTests(["assert f()"]), ("AssertTests.test: expected a text", "join lines")),  # type: ignore[arg-type]
    "weights before there are any": (lambda: POLICY.load_state_dict({}), ("call its load() before",)),
    "freezing weights before there are any": (lambda: POLICY.requires_grad_(False), ("no weights yet", "load()")),
    "weights for an optimizer before there are any": (
        lambda: Update(optimizer=torch.optim.AdamW(POLICY.parameters())),
        ("CausalLM has no weights yet", "Update(optimizer=partial(AdamW"),
    ),
    "an experience that is none": (
        lambda: learn(Mine(SortingPolicy(), [SortingReward()], sampling=Sampling(2, max_tokens=3), max_rollouts=1)),
        ("Mine.make_experience: expected Experience, got Tensor",),
    ),
    "a policy that is frozen": (
        lambda: learn(sorting(frozen=True)),
        ("no weight of the policy learns: all have requires_grad=False",),
    ),
    "an optimizer that loses the names of groups": (
        lambda: learn(sorting(update=Update(optimizer=lambda of: torch.optim.SGD(of[0]["params"], lr=1.0)))),
        ("groups of weights have no names", "keep each group's name"),
    ),
    "a conversion before there are weights": (
        lambda: grpo(POLICY.half()),
        ("CausalLM has no weights to convert yet: give it dtype='bfloat16'",),
    ),
    "a reference that is a body": (
        lambda: demonstration(Problem("a", "def f():\n", CHECK, "def f():\n", reference="\n    return 1\n")),
        ("the reference of problem a is indented, as a body", "begins with program_prefix"),
    ),
    "a policy that teaches itself": (
        lambda: Distillation(POLICY, [TestsReward()], ModelTeacher(POLICY)),
        ("the teacher's model is the policy itself", "PolicyTeacher or ReferenceTeacher"),
    ),
    "batches of texts": (
        lambda: grpo().transfer_batch_to_device(["def f():"], torch.device("cpu"), 0),
        ("a batch is a list of lit_rl.types.Problem, got ['def f():']", "lit-rl docs tasks"),
    ),
    "batches of rows": (
        lambda: grpo().transfer_batch_to_device({"prompt": ["def f():"]}, torch.device("cpu"), 0),
        ("a batch is a list of lit_rl.types.Problem", "give a task"),
    ),
    "a field that a row lacks": (lambda: Row("rows.jsonl", 3, {"id": 1})["name"], ("rows.jsonl", "3", "'name'", "id")),
    "a validation of nothing": (
        lambda: quiet(limit_val_batches=0).validate(grpo(), datamodule=Basics()),
        ("limit_val_batches is 0, so there is nothing to validate",),
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_in_one_line_when_it_is_built(mistake: str) -> None:
    build, parts = MISTAKES[mistake]
    with pytest.raises((ValueError, TypeError)) as refused:
        build()
    line = str(refused.value)
    assert "\n" not in line and [part for part in parts if part not in line] == [], line


DOUBTS: dict[str, tuple[Callable[[], Any], str]] = {
    "a penalty that pays": (
        lambda: grpo(rewards=[TestsReward(), LengthPenalty(weight=-0.5)]),
        "the reward term length is -0.5, which pays for long completions",
    ),
    "a penalty that is never reached": (
        lambda: grpo(rewards=[TestsReward(), OverlongPenalty(1024, 512)], sampling=Sampling(2, max_tokens=512)),
        "OverlongPenalty begins after 512 tokens, and sampling.max_tokens is 512: it takes nothing off",
    ),
    "an absolute bound": (
        lambda: grpo(objective=Objective(loss=Clipped(0.8, 1.28))),
        "distance of the upper bound from 1",
    ),
    "a place of no KL": (
        lambda: PPO(POLICY, [TestsReward()], SeparateCritic(), objective=Objective(kl_in="loss")),
        "objective.kl_in is loss, but kl_coef is 0, so there is no KL: set it above 0",
    ),
    "a critic that learns alone to the end": (
        lambda: PPO(
            POLICY, [TestsReward()], SeparateCritic(), critic_update=CriticUpdate(warmup_rollouts=3), max_rollouts=3
        ),
        "the policy learns nothing",
    ),
}


@pytest.mark.parametrize("setting", DOUBTS)
def test_a_setting_that_is_probably_unintended_is_told(setting: str) -> None:
    build, part = DOUBTS[setting]
    (doubt,) = build()._doubts
    assert part in doubt and "\n" not in doubt


def test_a_default_that_is_filled_in_is_no_doubt() -> None:
    assert PPO(POLICY, [TestsReward()], SeparateCritic())._doubts == grpo()._doubts == []


def below(kind: type) -> list[type]:
    return [one for cls in kind.__subclasses__() for one in (cls, *below(cls))]


OURS = [cls for cls in below(TypedArguments) if cls.__module__.startswith("lit_rl.")]


def test_every_argument_of_every_constructor_is_compared_with_its_type() -> None:
    """A name that is imported for type checkers only would leave all arguments of a class unchecked."""
    assert len(OURS) > 60
    neither = object()
    for cls in [*OURS, Sampling, Update, Objective, Collect, Evaluate, LoRA]:
        for name, one in arguments_of(cls).items():
            assert one.annotation is not Any, (cls, name)
            if not fits(neither, one.annotation):
                with pytest.raises(ArgumentError) as refused:
                    cls(**{name: neither})
                assert refused.value.key == f"{cls.__name__}.{name}"


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (2.5, int), ("2", int), (True, int), (math.nan, float), ("hot", float), ("false", bool), (1, list[int]),
        ("numpy", Sequence[str]), ({"a": "b"}, dict[str, int]), ("mean", Literal["token_mean", "sum"]), (None, int),
        (TestsReward, RewardTerm), (["MBPP"], list[RewardTerm]), ({TestsReward()}, list[RewardTerm]),
    ],
)  # fmt: skip
def test_what_is_of_another_type_fits_not(value: object, hint: Any) -> None:
    assert not fits(value, hint)


def test_a_path_is_as_good_as_a_text_and_a_tuple_as_a_list(tmp_path: Path) -> None:
    assert Checkpointing(tmp_path).run.path == tmp_path  # type: ignore[arg-type]
    assert LoRA(target_modules=("q_proj",)).target_modules == ("q_proj",)  # type: ignore[arg-type]


def test_a_field_that_no_model_of_the_type_has_is_told() -> None:
    with pytest.warns(UserWarning, match=r"config\.num_layers is no field of qwen2.* did you mean num_hidden_layers"):
        CausalLM(config=TINY | {"num_layers": 8}, tokenizer="package:lit_rl/data/basics/tokenizer").load()


def test_a_policy_may_be_placed_before_it_is_loaded() -> None:
    assert POLICY.to("cpu") is POLICY


@pytest.mark.parametrize(
    ("settings", "limit", "told"),
    [({}, None, 1), ({}, 3, 0), ({"max_time": "00:01:00:00"}, None, 0), ({"max_steps": 5}, None, 0)],
)
def test_a_run_that_nothing_ends_and_nothing_keeps_is_told(
    settings: dict[str, Any], limit: int | None, told: int, recwarn: pytest.WarningsRecorder, tmp_path: Path
) -> None:
    for callbacks in ([], [Checkpointing(str(tmp_path))]):
        doubt_end(Trainer(accelerator="cpu", logger=False, callbacks=callbacks, **settings), grpo(max_rollouts=limit))
    assert sum("nothing ends this run" in str(one.message) for one in recwarn) == told


class Quoted(TaskDataModule):
    def load_problems(self, split: str) -> list[Problem]:
        return [Problem(f"{split}{i}", "def f():", CHECK, stop_strings=("\\n\\n",)) for i in range(3)]


@pytest.mark.parametrize("task", [Quoted(), Basics(stop_strings=["\\n"], num_train_problems=26)])
def test_a_stop_string_whose_line_break_was_not_read_is_told_once(task: TaskDataModule) -> None:
    with pytest.warns(UserWarning, match=r"stop_strings: .* has a backslash and an n") as told:
        task.problems("train")
    assert len(told) == 1


def test_the_seed_of_lightning_is_the_run_s_unless_it_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = partial(CausalLM, config=TINY, tokenizer="package:lit_rl/data/basics/tokenizer")
    assert grpo().seed == Basics().seed == policy().init_seed == 0
    monkeypatch.setenv("PL_GLOBAL_SEED", "7")  # what seed_everything(7) leaves
    assert grpo().seed == Basics().seed == policy().init_seed == 7
    assert grpo(seed=0).seed == Basics(seed=0).seed == 0


@pytest.mark.parametrize("callbacks", [[], [ExecutionEvaluation()], [type("Own", (pl.Callback,), {})()]])
def test_a_validation_that_measures_nothing_is_told(callbacks: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(setup_checks, "rank_zero_warn", told.append)
    for limit in (0, 1.0):
        trainer: Any = SimpleNamespace(callbacks=callbacks, limit_val_batches=limit)
        setup_checks.doubt_measuring(trainer)
    assert len(told) == (not callbacks)


class Watches(pl.Callback):
    """Has two hooks, one method that it calls itself, and two that nothing calls."""

    def on_rollout_end(self, trainer: Any, module: Any, finished: Any) -> None:
        self.on_own()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        pass

    def on_own(self) -> None:
        pass

    def on_rollout_start(self, trainer: Any, module: Any) -> None:
        pass

    def on_evaluate(self, trainer: Any, module: Any) -> None:
        pass


class Hooked(GRPO):
    def on_train_begin(self) -> None:
        pass

    def on_train_epoch_end(self) -> None:
        pass


def test_methods_that_are_named_as_hooks_and_are_none_are_told(recwarn: pytest.WarningsRecorder) -> None:
    module = Hooked(SortingPolicy(), [SortingReward()], sampling=Sampling(2, max_tokens=3), max_rollouts=1)
    quiet(callbacks=[Watches()], limit_val_batches=0).fit(module, Sorting())
    none = "is no hook of Lightning or lit_rl, so no trainer calls it"
    assert [line for one in recwarn if "is no hook" in (line := str(one.message))] == [
        f"Hooked.on_train_begin {none}; did you mean on_train_end?",
        f"Watches.on_evaluate {none}",
        f"Watches.on_rollout_start {none}; did you mean on_rollout_end?",
    ]
