"""One LightningDataModule per task, and what only this task needs; a name is loaded when it is first used."""

from typing import TYPE_CHECKING

from lit_rl.lazy import lazy_exports

if TYPE_CHECKING:
    from lit_rl.data.basics.basics_task import Basics as Basics
    from lit_rl.data.completion_file import CompletionFile as CompletionFile
    from lit_rl.data.contests.deepcoder import DeepCoder as DeepCoder
    from lit_rl.data.humaneval import HumanEval as HumanEval
    from lit_rl.data.mbpp import MBPP as MBPP
    from lit_rl.data.mbpp import MBPPPlus as MBPPPlus
    from lit_rl.data.mixture import Mixture as Mixture
    from lit_rl.data.numerical.code_completion import CodeCompletion as CodeCompletion
    from lit_rl.data.numerical.einstein_toolkit import EinsteinToolkit as EinsteinToolkit
    from lit_rl.data.open_code_instruct import OpenCodeInstruct as OpenCodeInstruct
    from lit_rl.data.preferences import PreferencePairs as PreferencePairs
    from lit_rl.data.problem_loader import ProblemLoader as ProblemLoader
    from lit_rl.data.robots.robot_rewards import SimulatorReward as SimulatorReward
    from lit_rl.data.robots.robot_tasks import RoboEval as RoboEval
    from lit_rl.data.robots.robot_tasks import RoboInstruct as RoboInstruct
    from lit_rl.data.task import TaskDataModule as TaskDataModule
    from lit_rl.data.toys.toy_models import CorridorCritic as CorridorCritic
    from lit_rl.data.toys.toy_models import CorridorPolicy as CorridorPolicy
    from lit_rl.data.toys.toy_models import SortingPolicy as SortingPolicy
    from lit_rl.data.toys.toy_rewards import CorridorReward as CorridorReward
    from lit_rl.data.toys.toy_rewards import SortingReward as SortingReward
    from lit_rl.data.toys.toy_tasks import Corridor as Corridor
    from lit_rl.data.toys.toy_tasks import Sorting as Sorting
    from lit_rl.data.translated_tasks import HumanEvalX as HumanEvalX
    from lit_rl.data.translated_tasks import MultiPLE as MultiPLE

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
