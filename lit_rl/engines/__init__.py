"""Engines that sample completions."""

from lit_rl.engines.engine import Engine, EngineError, Generation, Request, Session
from lit_rl.engines.in_process import InProcess
from lit_rl.engines.vllm import VLLM
from lit_rl.engines.vllm_server import VLLMServer

__all__ = ["VLLM", "Engine", "EngineError", "Generation", "InProcess", "Request", "Session", "VLLMServer"]
