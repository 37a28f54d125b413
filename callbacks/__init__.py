"""Callbacks watch; modules learn. Import this package as ``lit_rl.callbacks``."""

if __name__ != "lit_rl.callbacks":
    raise ImportError(f"import lit_rl.callbacks, not {__name__}: one file under two names makes two classes")

from lit_rl.callbacks.checkpointing import Checkpointing
from lit_rl.callbacks.completion_log import CompletionLog
from lit_rl.callbacks.completion_writer import CompletionWriter
from lit_rl.callbacks.diagnostics import Diagnostics
from lit_rl.callbacks.execution_evaluation import ExecutionEvaluation
from lit_rl.callbacks.preference_writer import PreferenceWriter
from lit_rl.callbacks.progress_screen import ProgressScreen
from lit_rl.callbacks.run_record import RunRecord
from lit_rl.callbacks.stage_scores import StageScores
from lit_rl.callbacks.tensorboard_layout import TensorBoardLayout

__all__ = [
    "Checkpointing",
    "CompletionLog",
    "CompletionWriter",
    "Diagnostics",
    "ExecutionEvaluation",
    "PreferenceWriter",
    "ProgressScreen",
    "RunRecord",
    "StageScores",
    "TensorBoardLayout",
]
