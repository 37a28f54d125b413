"""The plain files of a run: numbers and rollouts, appended to, readable after the process was killed."""

from lit_rl.reports.run_files.diagnoses import RecordedDiagnosis, open_diagnoses, read_diagnoses, was_watched
from lit_rl.reports.run_files.folders import METRICS_FILE, ROLLOUTS_FILE, newest_recorded, recorded_folders, short_names
from lit_rl.reports.run_files.frames import TornFile, append_frame, read_frames
from lit_rl.reports.run_files.lines import append_line, read_lines
from lit_rl.reports.run_files.recorded import RecordedRollout, RecordedRow, read_rollouts
from lit_rl.reports.run_files.resuming import cut_after
from lit_rl.reports.run_files.settings import CONFIG_FILE, Difference, differences, read_settings, without_seeds

__all__ = [
    "CONFIG_FILE",
    "METRICS_FILE",
    "ROLLOUTS_FILE",
    "Difference",
    "RecordedDiagnosis",
    "RecordedRollout",
    "RecordedRow",
    "TornFile",
    "append_frame",
    "append_line",
    "cut_after",
    "differences",
    "newest_recorded",
    "open_diagnoses",
    "read_diagnoses",
    "read_frames",
    "read_lines",
    "read_rollouts",
    "read_settings",
    "recorded_folders",
    "short_names",
    "was_watched",
    "without_seeds",
]
