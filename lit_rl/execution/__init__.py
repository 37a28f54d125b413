"""Run untrusted programs. This package imports nothing outside the standard library."""

from lit_rl.execution.checks import AssertTests as AssertTests
from lit_rl.execution.checks import CallTests as CallTests
from lit_rl.execution.checks import Check as Check
from lit_rl.execution.checks import Checker as Checker
from lit_rl.execution.checks import ReferenceText as ReferenceText
from lit_rl.execution.checks import StdioTests as StdioTests
from lit_rl.execution.checks import TokenTarget as TokenTarget
from lit_rl.execution.checks import UnitTests as UnitTests
from lit_rl.execution.fusion.client import SandboxFusionClient as SandboxFusionClient
from lit_rl.execution.interface import FailedCase as FailedCase
from lit_rl.execution.interface import Outcome as Outcome
from lit_rl.execution.interface import ProgramRunner as ProgramRunner
from lit_rl.execution.interface import Verdict as Verdict
from lit_rl.execution.program import ExtractedProgram as ExtractedProgram
from lit_rl.execution.program import extract_program as extract_program
from lit_rl.execution.sandbox import Sandbox as Sandbox
from lit_rl.execution.worker import SandboxError as SandboxError
