"""Callbacks watch; modules learn. Import this package as ``lit_rl.callbacks``."""

from typing import TYPE_CHECKING

from lit_rl.lazy import lazy_exports

if __name__ != "lit_rl.callbacks":
    raise ImportError(f"import lit_rl.callbacks, not {__name__}: one file under two names makes two classes")

if TYPE_CHECKING:
    from lit_rl.callbacks.checkpointing import Checkpointing as Checkpointing
    from lit_rl.callbacks.completion_log import CompletionLog as CompletionLog
    from lit_rl.callbacks.completion_writer import CompletionWriter as CompletionWriter
    from lit_rl.callbacks.diagnostics import Diagnostics as Diagnostics
    from lit_rl.callbacks.execution_evaluation import ExecutionEvaluation as ExecutionEvaluation
    from lit_rl.callbacks.preference_writer import PreferenceWriter as PreferenceWriter
    from lit_rl.callbacks.progress_screen import ProgressScreen as ProgressScreen
    from lit_rl.callbacks.run_record import RunRecord as RunRecord
    from lit_rl.callbacks.stage_scores import StageScores as StageScores
    from lit_rl.callbacks.tensorboard_layout import TensorBoardLayout as TensorBoardLayout

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
