"""Running untrusted programs. Imports nothing outside the standard library."""

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

__all__ = [
    "AssertTests",
    "CallTests",
    "Check",
    "Checker",
    "ExtractedProgram",
    "FailedCase",
    "Outcome",
    "ProgramRunner",
    "ReferenceText",
    "Sandbox",
    "SandboxError",
    "SandboxFusionClient",
    "StdioTests",
    "TokenTarget",
    "UnitTests",
    "Verdict",
    "extract_program",
]
