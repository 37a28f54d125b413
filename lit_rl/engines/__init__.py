"""How completions are sampled."""

from lit_rl.engines.base import Engine, Generation, Request, Session
from lit_rl.engines.in_process import InProcess

__all__ = ["Engine", "Generation", "InProcess", "Request", "Session"]
