"""Running untrusted programs. Imports nothing outside the standard library; checks of a task load when first used."""

from typing import TYPE_CHECKING

from lit_rl.execution.checks import (
    AssertTests,
    CallTests,
    Check,
    Checker,
    ReferenceText,
    StdioTests,
    TokenTarget,
    UnitTests,
)
from lit_rl.execution.fusion.client import SandboxFusionClient
from lit_rl.execution.interface import FailedCase, Outcome, ProgramRunner, Verdict
from lit_rl.execution.program import ExtractedProgram, extract_program
from lit_rl.execution.sandbox import Sandbox
from lit_rl.execution.worker import SandboxError
from lit_rl.lazy import load_when_used

if TYPE_CHECKING:
    from lit_rl.data.numerical.build_check import BuildAndRun
    from lit_rl.data.robots.robot_checks import InventedWorlds, RobotTest, RobotWorlds

__all__ = [
    "AssertTests",
    "BuildAndRun",
    "CallTests",
    "Check",
    "Checker",
    "ExtractedProgram",
    "FailedCase",
    "InventedWorlds",
    "Outcome",
    "ProgramRunner",
    "ReferenceText",
    "RobotTest",
    "RobotWorlds",
    "Sandbox",
    "SandboxError",
    "SandboxFusionClient",
    "StdioTests",
    "TokenTarget",
    "UnitTests",
    "Verdict",
    "extract_program",
]

__getattr__, __dir__ = load_when_used(
    __name__,
    {
        "lit_rl.data.numerical.build_check": ("BuildAndRun",),
        "lit_rl.data.robots.robot_checks": ("InventedWorlds", "RobotTest", "RobotWorlds"),
    },
)
