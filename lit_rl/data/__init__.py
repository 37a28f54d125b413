"""One LightningDataModule per task; a task is loaded when its name is first used."""

from typing import TYPE_CHECKING

from lit_rl.lazy import load_when_used

if TYPE_CHECKING:
    from lit_rl.data.basics.basics_task import Basics
    from lit_rl.data.completion_file import CompletionFile
    from lit_rl.data.contests.deepcoder import DeepCoder
    from lit_rl.data.humaneval import HumanEval
    from lit_rl.data.mbpp import MBPP, MBPPPlus
    from lit_rl.data.mixture import Mixture
    from lit_rl.data.numerical.code_completion import CodeCompletion
    from lit_rl.data.numerical.einstein_toolkit import EinsteinToolkit
    from lit_rl.data.open_code_instruct import OpenCodeInstruct
    from lit_rl.data.preferences import PreferencePairs
    from lit_rl.data.problem_loader import ProblemLoader
    from lit_rl.data.robots.robot_tasks import RoboEval, RoboInstruct
    from lit_rl.data.task import TaskDataModule
    from lit_rl.data.toys.toy_tasks import Corridor, Sorting
    from lit_rl.data.translated_tasks import HumanEvalX, MultiPLE

__all__ = [
    "MBPP",
    "Basics",
    "CodeCompletion",
    "CompletionFile",
    "Corridor",
    "DeepCoder",
    "EinsteinToolkit",
    "HumanEval",
    "HumanEvalX",
    "MBPPPlus",
    "Mixture",
    "MultiPLE",
    "OpenCodeInstruct",
    "PreferencePairs",
    "ProblemLoader",
    "RoboEval",
    "RoboInstruct",
    "Sorting",
    "TaskDataModule",
]

__getattr__, __dir__ = load_when_used(
    __name__,
    {
        "lit_rl.data.basics.basics_task": ("Basics",),
        "lit_rl.data.completion_file": ("CompletionFile",),
        "lit_rl.data.contests.deepcoder": ("DeepCoder",),
        "lit_rl.data.humaneval": ("HumanEval",),
        "lit_rl.data.mbpp": ("MBPP", "MBPPPlus"),
        "lit_rl.data.mixture": ("Mixture",),
        "lit_rl.data.numerical.code_completion": ("CodeCompletion",),
        "lit_rl.data.numerical.einstein_toolkit": ("EinsteinToolkit",),
        "lit_rl.data.open_code_instruct": ("OpenCodeInstruct",),
        "lit_rl.data.preferences": ("PreferencePairs",),
        "lit_rl.data.problem_loader": ("ProblemLoader",),
        "lit_rl.data.robots.robot_tasks": ("RoboEval", "RoboInstruct"),
        "lit_rl.data.task": ("TaskDataModule",),
        "lit_rl.data.toys.toy_tasks": ("Corridor", "Sorting"),
        "lit_rl.data.translated_tasks": ("HumanEvalX", "MultiPLE"),
    },
)
