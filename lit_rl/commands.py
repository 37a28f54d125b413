"""The verbs around a run. Importing this module makes the package's classes known by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import lit_rl.advantages
import lit_rl.callbacks
import lit_rl.data
import lit_rl.losses
import lit_rl.models
import lit_rl.modules
import lit_rl.rewards  # noqa: F401
from lit_rl.check_contamination import check_contamination
from lit_rl.check_data import check_data
from lit_rl.export import export
from lit_rl.replay import replay
from lit_rl.report import report
from lit_rl.shipped_configs import configs
from lit_rl.shipped_docs import docs
from lit_rl.show import show

VERBS: dict[str, Callable[[Sequence[str]], None]] = {
    "check-contamination": check_contamination,
    "check-data": check_data,
    "configs": configs,
    "docs": docs,
    "export": export,
    "replay": replay,
    "report": report,
    "show": show,
}
"""Verb to function of the remaining arguments; all other verbs are LightningCLI's."""
