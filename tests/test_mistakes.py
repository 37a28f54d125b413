"""The likeliest mistakes, each answered with one line that names the key or the word that was meant."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from support.command_line import BASE, TINY, one_line

from lit_rl import (
    GRPO,
    AssertTests,
    Basics,
    CallTests,
    CausalLM,
    Problem,
    Sampling,
    TaskDataModule,
    TestsReward,
    Trainer,
    UpdateConfig,
)
from lit_rl.cli.config_files import check_and_expand_configs
from lit_rl.cli.main import Cli
from lit_rl.data.task import TaskDataModule as Task
from lit_rl.errors import ArgumentError
from lit_rl.modules import PPO, Objective, PolicyModule, RolloutConfig
from lit_rl.signature_check import (
    ArgumentChecks,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveShare,
    Seconds,
    Share,
    check_and_convert,
    constructor_parameters,
    has_type,
)

TOKENIZER = "package:lit_rl/data/basics/tokenizer"
POLICY = CausalLM(config=TINY, tokenizer=TOKENIZER)
OWN = """
from lit_rl.rewards import RewardTerm
from lit_rl import TaskDataModule
class NoTerm: pass
class Raises(RewardTerm):
    default_name = "own"
    def score(self, completions, judgements): return {}["missing"]
class Empty(TaskDataModule):
    def load_problems(self, split): return []
class Unset(Empty):
    def __init__(self, path: str = ""): self.path = path
"""
FILES = {
    "section.yaml": "modle:\n  class_path: GRPO\n",
    "key.yaml": "model:\n  init_args:\n    max_rollout: 3\n",
    "comma.yaml": "model:\n  init_args:\n    sampling: {temperature: 0,7}\n",
    "beside.yaml": "model: {class_path: GRPO, max_rollouts: 2}\n",
    "class.yaml": "model:\n  init_args:\n    rewards: [{TestsReward: {weight: 1}}]\n",
    "quoted.yaml": "model:\n  init_args: {max_rollouts: '2'}\n",
    "twice.yaml": "model:\n  class_path: GRPO\nmodel:\n  init_args: {max_rollouts: 2}\n",
    "tab.yaml": "model:\n\tclass_path: x\n",
    "empty.yaml": "",
    "own_things.py": OWN,
    "importing.py": "x = 1\nimport no_such_package\n",
    "rows.jsonl": '{"task_id": 1}\n',
    "list.jsonl": '[\n  {"task_id": 1}\n]\n',
    "none.jsonl": '{"prompt": "p", "completion": "c"}\n',
    "single.yaml": "trainer:\n  callbacks: {class_path: Checkpointing, init_args: {every_rollouts: 5}}\n",
}

COMMANDS = {
    # keys and classes
    "--config section.yaml": "section.yaml: there is no section modle; did you mean model?",
    "--config key.yaml": "key.yaml: model.max_rollout is unknown to GRPO; did you mean max_rollouts?",
    "--model.smapling.max_tokens 5": "did you mean sampling?",
    "--model.sampling.temprature 1": "model.sampling.temprature is unknown to Sampling; did you mean temperature?",
    "--trainer.maxepochs 3": "did you mean max_epochs?",
    "--trainer.callbacks '[{class_path: Checkpointing, init_args: {foldr: x}}]'": "did you mean folder?",
    """--model.rewards '[{"class_path": "TestsReward", "init_args": {"wieght": 2}}]'""": "did you mean weight?",
    "--model.credit spans": "it is an argument of PPO and",
    "--model.beta 0.1": "write model.objective.kl_coef",
    "--model.learning_rate 1e-5": "write model.update.optimizer.lr",
    "--model.sampling.stop x": "data.stop_strings",
    "--trainer.max_rollouts 3": "write model.max_rollouts",
    "--model GRPOO": "there is no class GRPOO; did you mean GRPO?",
    "--model.rewards '[TestReward]'": "did you mean TestsReward?",
    "--model.update.optimizer adamw": "did you mean AdamW?",
    "--data GRPO": "data: GRPO is no TaskDataModule; give",
    "--model.rewards '[own_things.NoTerm]'": "own_things.NoTerm is no RewardTerm",
    "--model.rewards '[nomodule.Thing]'": "No module named 'nomodule'",
    "--data importing.Task": "importing.py, line 2",
    "--model.collect.environment Environment": "Environment is abstract; give",
    "--model.rewards TestsReward": "model.rewards: expected a list of RewardTerm",
    "--model.rewards '[TestsReward]' --model.rewards '[FormatReward]'": "--model.rewards is given twice",
    "--config class.yaml": "TestsReward is a class: write class_path: TestsReward",
    "--config beside.yaml": "model: max_rollouts is beside class_path",
    "--config twice.yaml": "model is given twice, first in line 1",
    "--config tab.yaml": "YAML indents with blanks, not tabs",
    "--config empty.yaml": "empty.yaml is empty",
    "fit --config basics_gropo": "did you mean basics_grpo",
    "fit basics_sft": "--config basics_sft",
    "fit": "required: data, model; give them in a --config FILE",
    "fitt --config base.yaml": "did you mean fit?",
    "--data rows.jsonl": "data: expected a TaskDataModule, got rows.jsonl",
    # values
    "--model.max_rollouts two": "model.max_rollouts: expected int or None, got 'two'",
    "--config comma.yaml": "0.7, not 0,7",
    "--model.sampling.top_p 1.5": "model.sampling.top_p: expected a number above 0 and at most 1, got 1.5",
    "--model.update.aggregate token_maen": "did you mean token_mean?",
    """--model.update.optimizer '{class_path: AdamW, init_args: {betas: "0.9 0.95"}}'""": "update.optimizer.betas",
    "--model.sandbox Sandbox --model.sandbox.memory_bytes 2GB": "model.sandbox.memory_bytes: expected int",
    # combinations
    "--model.sandbox null": "has no sandbox",
    "--data own_things.Empty": "nothing to fit",
    "--data own_things.Unset": "call super().__init__(**options) in Unset.__init__",
    "--config single.yaml": "Checkpointing; did you mean every_n_rollouts",
    "--data CompletionFile --data.path none.jsonl": "holds no completions: give a file that CompletionWriter wrote",
    "--data MBPP --data.path list.jsonl": "name the file .json",
    "test --config base.yaml": "has no test problems",
    "--trainer.precision 16-mixed": "use bf16-mixed or 32-true",
    "--trainer.accelerator cuda": "CUDAAccelerator",
    "--trainer.limit_train_batches 0": "nothing to train",
    "validate --config base.yaml --trainer.limit_val_batches 0": "nothing to validate",
    "--trainer.accumulate_grad_batches 2": "model.update.microbatch_size",
    "--trainer.gradient_clip_val 1": "model.update.gradient_clip_norm",
    "--model.collect.staleness 1 --model.objective.correction null": "set objective.correction",
    "--model.objective '{kl_coef: 0.1, kl_kind: k1}'": "k3_weighted",
    "--model.update.minibatches 9": "minibatches is 9",
    "--model.collect.environment Repair": "has no public_check",
    # files and machines
    "--model.rewards '[own_things.Raises]'": "KeyError: 'missing' (own_things.py, line",
    "--model.policy.model $NOWHERE/x --model.policy.config null": "variable NOWHERE is not set",
    "validate --config base.yaml --ckpt_path nothing": "no checkpoint at nothing",
    "--data MBPP --data.path rows.jsonl": "rows.jsonl",
    "--trainer.logger MLFlowLogger": "mlflow",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("mistakes")
    (here / "base.yaml").write_text(yaml.safe_dump(copy.deepcopy(BASE)))
    for name, content in FILES.items():
        (here / name).write_text(content)
    return here


@pytest.mark.parametrize(("command", "part"), COMMANDS.items())
def test_a_mistake_is_answered_in_one_line(
    command: str, part: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    assert part in one_line(command, capsys)


def grpo(**options: Any) -> GRPO:
    return GRPO(**({"policy": POLICY, "rewards": [TestsReward()]} | options))


CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "a name": (lambda: grpo(max_rollout=3), "GRPO has no argument max_rollout; did you mean max_rollouts?"),
    "lr": (lambda: grpo(lr=1e-5), "write update=dict(optimizer=partial(torch.optim.AdamW, lr=1e-05))"),
    "optimizer": (lambda: grpo(optimizer="AdamW"), "write update=dict(optimizer=partial(torch.optim.AdamW, lr=1e-6))"),
    "a text for an optimizer": (lambda: UpdateConfig(optimizer="AdamW"), "partial(torch.optim.AdamW, lr=1e-6)"),  # type: ignore[arg-type]
    "num_generations": (lambda: grpo(num_generations=4), "write sampling=dict(num_samples=4)"),
    "stop": (lambda: grpo(stop=["x"]), "stop_strings=[...] of the task"),
    "a key of a group": (lambda: grpo(epochs=2), "write update=dict(epochs=2)"),
    "a key in a dict": (lambda: grpo(sampling={"num_sample": 4}), "did you mean num_samples?"),
    "a class": (lambda: grpo(rewards=[TestsReward]), "give an object of the class, TestsReward(...)"),
    "a quoted number": (lambda: Basics(batch_size="3"), "write 3 without quotes"),  # type: ignore[arg-type]
    "a name of the trainer": (lambda: Trainer(maxepochs=3), "did you mean max_epochs?"),
    "too many by position": (lambda: GRPO(POLICY, [TestsReward()], 3), "positional argument"),  # type: ignore[misc]
    "a number out of range": (lambda: Sampling(num_samples=0), "Sampling.num_samples: expected at least 1, got 0"),
    "swapped": (lambda: Trainer(accelerator="cpu", logger=False).fit(Basics(), grpo()), "swap the two"),  # type: ignore[arg-type]
    "no critic": (lambda: PPO(CausalLM("x"), [TestsReward()]), "PPO needs critic; give SeparateCritic or SharedCritic"),
    "no weights": (
        lambda: torch.optim.AdamW(CausalLM("x").parameters()),
        "CausalLM has no weights yet: call its load()",
    ),
    "an optimizer": (
        lambda: UpdateConfig(optimizer=torch.optim.AdamW([torch.zeros(1)], 2e-4)),
        "write functools.partial(torch.optim.AdamW, lr=0.0002)",
    ),
    "a function as a reward": (
        lambda: grpo(rewards=[len]),
        "write a class derived from RewardTerm (lit-rl docs own_task shows some)",
    ),
    "no task": (lambda: Trainer(accelerator="cpu", logger=False).fit(grpo()), "a task, such as datamodule=Basics()"),
}


@pytest.mark.parametrize("mistake", CALLS)
def test_a_mistake_in_python_is_refused_where_it_is_made(mistake: str) -> None:
    build, part = CALLS[mistake]
    with pytest.raises((ValueError, TypeError)) as refused:
        build()
    assert part in str(refused.value) and "\n" not in str(refused.value)


# -- what is meant is taken --------------------------------------------------------------------------------------


def test_a_hub_id_or_folder_stands_for_a_policy(tmp_path: Path) -> None:
    for given in ("Qwen/Qwen2.5-0.5B", "gpt2", tmp_path):
        policy = grpo(policy=given).policy
        assert isinstance(policy, CausalLM) and policy.source == str(given)


def test_a_configuration_takes_a_hub_id_for_a_policy_from_flags_and_files(folder: Path) -> None:
    other = copy.deepcopy(BASE)
    other["model"]["init_args"]["policy"] = "Qwen/Qwen2.5-0.5B"
    (folder / "hub.yaml").write_text(yaml.safe_dump(other))
    given = f"--config={folder / 'base.yaml'}"
    for words in ([given, "--model.policy", "Qwen/Qwen2.5-0.5B"], [f"--config={folder / 'hub.yaml'}"]):
        words = check_and_expand_configs(words, {"model": PolicyModule, "data": Task}, Trainer)
        policy = Cli([*words, "--model.policy.dtype=bfloat16"], run=False).model.policy
        assert (policy.source, policy.config, policy.dtype) == ("Qwen/Qwen2.5-0.5B", None, "bfloat16")


def test_keys_and_values_stand_for_a_group_and_a_list_for_a_tuple() -> None:
    module = grpo(sampling={"num_samples": 4}, evaluate={"sampling": {"greedy": {"temperature": 0.0}}})
    assert module.sampling == Sampling(num_samples=4)
    assert module.evaluate.samplings_or_greedy() == {"greedy": Sampling(temperature=0.0)}
    assert CallTests([((1,), 2)], "f").cases == CallTests((((1,), 2),), "f").cases  # type: ignore[arg-type]
    assert CausalLM("x", dtype=torch.bfloat16).dtype == "bfloat16"  # type: ignore[arg-type]
    assert len(grpo(rewards=TestsReward()).rewards.terms) == 1


def test_a_number_in_quotes_is_a_number(folder: Path) -> None:
    words = ["fit", f"--config={folder / 'base.yaml'}", f"--config={folder / 'quoted.yaml'}"]
    words = check_and_expand_configs(words, {"model": PolicyModule, "data": Task}, Trainer)
    assert Cli(words[1:], run=False).model.max_rollouts == 2


def test_arguments_without_a_class_are_refused_with_the_name_of_their_setting() -> None:
    hint = constructor_parameters(GRPO)["sandbox"].annotation
    with pytest.raises(
        ArgumentError, match=r"model.sandbox: expected a class, got \{'num_workers': 1\}; give class_path"
    ):
        check_and_convert({"num_workers": 1}, hint, "model.sandbox", config=True)
    sandbox = {"class_path": "Sandbox", "num_workers": 1}
    assert check_and_convert(sandbox, hint, "model.sandbox", config=True)["num_workers"] == 1


def test_paths_and_numbers_of_numpy_become_text_and_numbers_of_python() -> None:
    sampling = Sampling(num_samples=np.int64(3), temperature=np.float32(0.5))
    assert [type(one) for one in (sampling.num_samples, sampling.temperature)] == [int, float]
    assert (sampling.num_samples, sampling.temperature) == (3, 0.5)
    assert check_and_convert(Path("a") / "b", str, "run_dir") == "a/b"


def test_a_generator_of_problems_is_a_list() -> None:
    class Counted(TaskDataModule):
        def load_problems(self, split: str) -> Any:
            return (Problem(f"{split}{i}", "def f():", AssertTests("assert f()")) for i in range(3))

    assert [one.task_id for one in Counted().problems("train")] == ["train0", "train1", "train2"]


def below(kind: type) -> list[type]:
    return [one for cls in kind.__subclasses__() for one in (cls, *below(cls))]


def test_every_argument_of_every_constructor_is_compared_with_its_type() -> None:
    """A name that is imported for type checkers only would leave all arguments of a class unchecked."""
    ours = [cls for cls in below(ArgumentChecks) if cls.__module__.startswith("lit_rl.")]
    assert len(ours) > 60
    for cls in [
        *(one for one in ours if not inspect.isabstract(one)),
        Sampling,
        UpdateConfig,
        Objective,
        RolloutConfig,
    ]:
        for name, one in constructor_parameters(cls).items():
            assert one.annotation is not Any, (cls, name)
            if not has_type(object(), one.annotation):
                with pytest.raises(ArgumentError) as refused:
                    cls(**{name: object()})
                assert refused.value.key == f"{cls.__name__}.{name}"


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (2.5, int), ("2", int), (True, int), (float("nan"), float), ("hot", float), ("false", bool), (1, list[int]),
        ("numpy", list[str]), ({"a": "b"}, dict[str, int]), (None, int), (TestsReward, TestsReward),
    ],
)  # fmt: skip
def test_what_is_of_another_type_fits_not(value: object, hint: Any) -> None:
    assert not has_type(value, hint)


def test_limits_hold_for_each_number_and_not_for_none() -> None:
    assert check_and_convert(None, Share | None, "x") is None
    assert check_and_convert({"E": 0, "W": 2.5}, dict[str, NonNegativeFloat], "x") == {"E": 0, "W": 2.5}
    refused: list[tuple[Any, Any]] = [((0.3, 1.25), tuple[Share, ...]), ({"E": -0.5}, dict[str, NonNegativeFloat])]
    refused += [(0, PositiveShare), (float("nan"), PositiveFloat), (float("inf"), Seconds), (-1, NonNegativeInt | None)]
    for value, hint in refused:
        with pytest.raises(ArgumentError):
            check_and_convert(value, hint, "x")


def test_limits_of_a_base_hold_where_a_class_of_ones_own_names_the_argument_anew() -> None:
    class Own(TaskDataModule):
        def __init__(self, batch_size: int = 0) -> None:
            super().__init__(batch_size=batch_size)

        def load_problems(self, split: str) -> Any:
            return []

    with pytest.raises(ArgumentError, match=r"Own\.batch_size: expected at least 1, got 0"):
        Own()


def test_numbers_of_yaml_that_python_reads_as_text_are_numbers() -> None:
    assert check_and_convert("1e-6", float, "lr", config=True) == "1e-6"
    assert check_and_convert("1e-6", PositiveFloat, "lr", config=True) == "1e-6"
    for text, config in (("1e-6", False), ("-1e-6", True)):
        with pytest.raises(ArgumentError):
            check_and_convert(text, PositiveFloat, "lr", config=config)
