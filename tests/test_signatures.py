"""Every argument of an algorithm or a task can be seen, and a mistyped one is found before anything runs."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonargparse import ArgumentParser

import lit_rl.data
import lit_rl.modules
from lit_rl.data.mbpp import MBPP, MBPPOptions, MBPPPlus
from lit_rl.data.task import TaskDataModule, TaskOptions
from lit_rl.modules import DPO, GRPO, PPO, REINFORCE, SFT, Distillation, PolicyModule, RolloutModule
from lit_rl.modules.grpo import GRPOOptions
from lit_rl.modules.rollout_module import RolloutOptions
from lit_rl.modules.text_module import TextModule, TextOptions

ALGORITHMS = (GRPO, PPO, REINFORCE, SFT, DPO, Distillation)
TASKS = tuple(getattr(lit_rl.data, name) for name in lit_rl.data.__all__ if name != "ProblemLoader")


def own_arguments(cls: type) -> dict[str, Any]:
    """The arguments that the constructor of a class names itself, with their annotations as text."""
    parameters = inspect.signature(cls.__init__).parameters.values()  # type: ignore[misc]
    return {p.name: p.annotation for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def as_text(annotations: dict[str, Any]) -> dict[str, str]:
    return {name: getattr(kind, "__forward_arg__", str(kind)) for name, kind in annotations.items()}


@pytest.mark.parametrize(
    ("options", "cls", "handed_on", "named_by_subclasses"),
    [
        (TaskOptions, TaskDataModule, None, set()),
        (MBPPOptions, MBPP, TaskOptions, set(own_arguments(MBPPPlus))),
        (RolloutOptions, RolloutModule, None, set()),
        (GRPOOptions, GRPO, RolloutOptions, set()),
        (TextOptions, TextModule, None, set()),
    ],
)
def test_the_types_of_handed_on_arguments_are_those_of_the_base(
    options: Any, cls: type, handed_on: Any, named_by_subclasses: set[str]
) -> None:
    inherited = as_text(handed_on.__annotations__) if handed_on else {}
    own = {name: kind for name, kind in own_arguments(cls).items() if name not in named_by_subclasses}
    assert as_text(options.__annotations__) == inherited | as_text(own)


@pytest.mark.parametrize("cls", TASKS, ids=lambda cls: cls.__name__)
def test_the_signature_of_a_task_shows_all_arguments_with_their_defaults(cls: type) -> None:
    shown = inspect.signature(cls).parameters
    assert not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in shown.values())
    for name in own_arguments(TaskDataModule):
        assert name in shown
    for level in reversed([c for c in cls.__mro__ if "__init__" in c.__dict__ and issubclass(c, TaskDataModule)]):
        last = {name: inspect.signature(level.__init__).parameters[name].default for name in own_arguments(level)}  # type: ignore[misc]
        if level is cls:
            assert {name: shown[name].default for name in last} == last


@pytest.mark.parametrize("cls", ALGORITHMS, ids=lambda cls: cls.__name__)
def test_an_algorithm_shows_all_arguments_and_each_is_described(cls: type) -> None:
    shown = inspect.signature(cls).parameters
    assert {"policy", "sandbox", "collect", "update", "evaluate", "seed"} <= shown.keys()
    assert not any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in shown.values())
    described = "".join(str(base.__doc__) for base in cls.__mro__ if base.__module__.startswith("lit_rl.modules"))
    assert [name for name in shown if f" {name}: " not in described] == []


class Mine(GRPO):
    """An algorithm of one's own that hands on what it does not name."""

    def __init__(self, *arguments: Any, novelty_bonus: float = 0.5, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.novelty_bonus = novelty_bonus


def test_a_class_of_ones_own_takes_the_arguments_of_its_base_in_configurations(tmp_path: Path) -> None:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(PolicyModule, "model")
    given = {"policy": "lit_rl.models.SortingPolicy", "rewards": ["lit_rl.rewards.SortingReward"]}
    given |= {"novelty_bonus": 0.25, "update": {"epochs": 3}}
    described = {"class_path": f"{__name__}.Mine", "init_args": given}
    module = parser.instantiate_classes(parser.parse_object({"model": described})).model
    assert (module.novelty_bonus, module.update.epochs, module.sampling.num_samples) == (0.25, 3, 8)
    with pytest.raises(TypeError, match="num_epochs"):
        Mine(module.policy, rewards=[], num_epochs=2)


def test_a_class_without_a_constructor_has_that_of_its_base() -> None:
    class Bare(MBPPPlus):
        pass

    assert inspect.signature(Bare) == inspect.signature(MBPPPlus)


@pytest.mark.slow
def test_a_type_checker_finds_a_mistyped_argument(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from lit_rl import GRPO, Basics, CausalLM\n"
        "policy = CausalLM('x')\n"
        "GRPO(policy, rewards=[], max_rollouts=3)\n"
        "GRPO(policy, rewrads=3)\n"
        "Basics(batch_size=4)\n"
        "Basics(batch_sise=4)\n"
    )
    command = [sys.executable, "-m", "mypy", str(script)]  # with the cache that linting leaves
    root = Path(__file__).parents[1]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True).stdout
    errors = [line for line in said.splitlines() if ": error: " in line and "script.py" in line]
    assert len(errors) == 2, said
    assert 'script.py:4: error: Unexpected keyword argument "rewrads"' in errors[0]
    assert 'script.py:6: error: Unexpected keyword argument "batch_sise"' in errors[1]
