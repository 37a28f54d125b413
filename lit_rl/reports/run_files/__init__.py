"""The plain files of a run: numbers and rollouts, appended to, readable after the process was killed."""

from lit_rl.reports.run_files.files import (
    COMPLETIONS_FILE,
    METRICS_FILE,
    ROLLOUTS_FILE,
    RunWriter,
    TornFile,
    newest_recorded,
    read_metrics,
    read_rollouts,
    recorded_folders,
)
from lit_rl.reports.run_files.records import (
    Curve,
    Diagnosis,
    RecordedMetrics,
    RecordedRollout,
    RecordedRow,
    RecordedTurn,
)
from lit_rl.reports.run_files.settings import (
    CONFIG_FILE,
    NOT_SET,
    Difference,
    changes_on_resume,
    differences,
    read_settings,
    settings_of,
    without_seeds,
)

__all__ = [
    "COMPLETIONS_FILE",
    "CONFIG_FILE",
    "METRICS_FILE",
    "NOT_SET",
    "ROLLOUTS_FILE",
    "Curve",
    "Diagnosis",
    "Difference",
    "RecordedMetrics",
    "RecordedRollout",
    "RecordedRow",
    "RecordedTurn",
    "RunWriter",
    "TornFile",
    "changes_on_resume",
    "differences",
    "newest_recorded",
    "read_metrics",
    "read_rollouts",
    "read_settings",
    "recorded_folders",
    "settings_of",
    "without_seeds",
]
