"""One LightningDataModule per task."""

from lit_rl.data.basics import Basics
from lit_rl.data.code_completion import CodeCompletion
from lit_rl.data.corridor import Corridor
from lit_rl.data.deepcoder import DeepCoder
from lit_rl.data.einstein_toolkit import EinsteinToolkit
from lit_rl.data.humaneval import HumanEval
from lit_rl.data.mbpp import MBPP, MBPPPlus
from lit_rl.data.open_code_instruct import OpenCodeInstruct
from lit_rl.data.prefer_mixed import PreferMixed
from lit_rl.data.preferences import PreferencePairs
from lit_rl.data.problem_loader import ProblemLoader
from lit_rl.data.robo_instruct import RoboInstruct
from lit_rl.data.roboeval import RoboEval
from lit_rl.data.robot_tasks import RobotTasks
from lit_rl.data.sorting import Sorting
from lit_rl.data.task import TaskDataModule

__all__ = [
    "MBPP",
    "Basics",
    "CodeCompletion",
    "Corridor",
    "DeepCoder",
    "EinsteinToolkit",
    "HumanEval",
    "MBPPPlus",
    "OpenCodeInstruct",
    "PreferMixed",
    "PreferencePairs",
    "ProblemLoader",
    "RoboEval",
    "RoboInstruct",
    "RobotTasks",
    "Sorting",
    "TaskDataModule",
]
