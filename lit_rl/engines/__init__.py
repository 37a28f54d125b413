"""How completions are sampled."""

from lit_rl.engines.base import Engine, Generation, Request, Session
from lit_rl.engines.in_process import InProcess
from lit_rl.engines.vllm import VLLM

__all__ = ["VLLM", "Engine", "Generation", "InProcess", "Request", "Session"]
