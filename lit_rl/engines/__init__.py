"""Engines that sample completions."""

from typing import TYPE_CHECKING

from lit_rl.lazy import lazy_exports

if TYPE_CHECKING:
    from lit_rl.engines.engine import Engine as Engine
    from lit_rl.engines.engine import EngineError as EngineError
    from lit_rl.engines.engine import Session as Session
    from lit_rl.engines.in_process import InProcess as InProcess
    from lit_rl.engines.vllm import VLLM as VLLM
    from lit_rl.engines.vllm_server import VLLMServer as VLLMServer
    from lit_rl.types import Generation as Generation
    from lit_rl.types import Request as Request

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
