"""Every argument of an algorithm or a task can be seen, and a mistyped one is found before anything runs."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from lightning.pytorch.loggers import Logger

from lit_rl.data.mbpp import MBPP, MBPPOptions, MBPPPlus
from lit_rl.data.task import TaskDataModule, TaskOptions
from lit_rl.errors import UsageError
from lit_rl.modules import GRPO, RolloutModule
from lit_rl.modules.grpo import GRPOOptions
from lit_rl.modules.rollout_module import RolloutModuleOptions
from lit_rl.modules.text_module import TextModule, TextModuleOptions
from lit_rl.signature_check import check_and_convert


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
        (RolloutModuleOptions, RolloutModule, None, set()),
        (GRPOOptions, GRPO, RolloutModuleOptions, set()),
        (TextModuleOptions, TextModule, None, set()),
    ],
)
def test_the_types_of_handed_on_arguments_are_those_of_the_base(
    options: Any, cls: type, handed_on: Any, named_by_subclasses: set[str]
) -> None:
    inherited = as_text(handed_on.__annotations__) if handed_on else {}
    own = {name: kind for name, kind in own_arguments(cls).items() if name not in named_by_subclasses}
    assert as_text(options.__annotations__) == inherited | as_text(own)


def test_a_decimal_with_a_comma_is_refused_where_any_argument_is_taken() -> None:
    described = {"class_path": "TensorBoardLogger", "save_dir": "x", "flush_secs": 0, 5: None}  # flush_secs: 0,5
    with pytest.raises(UsageError, match=r"write decimals with a point: 0\.5, not 0,5"):
        check_and_convert(described, Logger, "trainer.logger", config=True)
