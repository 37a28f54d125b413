"""Running untrusted programs. Imports nothing outside the standard library."""

from lit_rl.execution.checks import (
    AssertTests,
    BuildAndRun,
    CallTests,
    Check,
    InventedWorlds,
    ReferenceText,
    RobotTest,
    RobotWorlds,
    StdioTests,
    TokenTarget,
)
from lit_rl.execution.fusion.client import SandboxFusionClient
from lit_rl.execution.outcome import FailedCase, Outcome, Verdict
from lit_rl.execution.program import ExtractedProgram, extract_program
from lit_rl.execution.runner import ProgramRunner
from lit_rl.execution.sandbox import Sandbox
from lit_rl.execution.worker import SandboxError

__all__ = [
    "AssertTests",
    "BuildAndRun",
    "CallTests",
    "Check",
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
    "Verdict",
    "extract_program",
]
