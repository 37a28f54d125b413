"""Every argument of an algorithm or a task can be seen, and a mistyped one is found before anything runs."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lit_rl.data
import lit_rl.modules
from lit_rl.data.mbpp import MBPP, MBPPOptions, MBPPPlus
from lit_rl.data.options import TaskOptions
from lit_rl.data.task import TaskDataModule
from lit_rl.modules import DPO, GRPO, PPO, REINFORCE, SFT, PolicyModule, RolloutModule, TextModule
from lit_rl.modules.options import PolicyOptions, RolloutOptions, TextOptions

ALGORITHMS = (GRPO, PPO, REINFORCE, SFT, DPO)
TASKS = tuple(
    getattr(lit_rl.data, name) for name in lit_rl.data.__all__ if name not in ("ProblemLoader", "PreferMixed")
)


def own_arguments(cls: type) -> dict[str, Any]:
    """The arguments that the constructor of a class names itself, with their annotations as text."""
    parameters = inspect.signature(cls.__init__).parameters.values()  # type: ignore[misc]
    return {p.name: p.annotation for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def as_text(annotations: dict[str, Any]) -> dict[str, str]:
    return {name: getattr(kind, "__forward_arg__", str(kind)) for name, kind in annotations.items()}


@pytest.mark.parametrize(
    ("options", "cls", "handed_on", "named_by_subclasses"),
    [
        (PolicyOptions, PolicyModule, None, set()),
        (TextOptions, TextModule, PolicyOptions, set()),
        (RolloutOptions, RolloutModule, PolicyOptions, {"sampling", "objective"}),
        (TaskOptions, TaskDataModule, None, set()),
        (MBPPOptions, MBPP, TaskOptions, set(own_arguments(MBPPPlus))),
    ],
)
def test_the_types_of_handed_on_arguments_are_those_of_the_base(
    options: Any, cls: type, handed_on: Any, named_by_subclasses: set[str]
) -> None:
    inherited = as_text(handed_on.__annotations__) if handed_on else {}
    own = {name: kind for name, kind in own_arguments(cls).items() if name not in named_by_subclasses}
    assert as_text(options.__annotations__) == inherited | as_text(own)


@pytest.mark.parametrize("cls", [*ALGORITHMS, *TASKS], ids=lambda cls: cls.__name__)
def test_the_signature_shows_all_arguments_with_their_defaults(cls: type) -> None:
    shown = inspect.signature(cls).parameters
    assert not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in shown.values())
    base = PolicyModule if issubclass(cls, PolicyModule) else TaskDataModule
    for name in own_arguments(base):
        assert name in shown
    for level in reversed([c for c in cls.__mro__ if "__init__" in c.__dict__ and issubclass(c, base)]):
        last = {name: inspect.signature(level.__init__).parameters[name].default for name in own_arguments(level)}  # type: ignore[misc]
        if level is cls:
            assert {name: shown[name].default for name in last} == last


def test_a_class_of_ones_own_shows_them_too() -> None:
    class Mine(GRPO):
        def __init__(self, *arguments: Any, novelty_bonus: float = 0.5, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.novelty_bonus = novelty_bonus

    shown = inspect.signature(Mine).parameters
    assert shown["novelty_bonus"].default == 0.5
    assert {"max_rollouts", "scale_by", "rewards", "seed"} <= shown.keys()
    assert "options" not in shown


def test_a_class_without_a_constructor_has_that_of_its_base() -> None:
    class Mine(MBPPPlus):
        pass

    assert inspect.signature(Mine) == inspect.signature(MBPPPlus)


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
