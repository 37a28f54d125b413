"""Fourteen rules that name a likely cause when a run does not learn; the callback ``Diagnostics`` applies them.

A rule of your own is one function::

    def too_short(metrics: MetricHistory, last: LastRollout, settings: RunSettings) -> str:
        length = metrics.mean("completion/length")
        if length >= 5:
            return ""
        return f"completions have {length:.1f} tokens: look for a stop string that cuts them (`{settings.show}`)"

and is named in the configuration, under ``rules`` of :class:`lit_rl.callbacks.Diagnostics`.
"""

from lit_rl.reports.diagnosis.history import LastRollout, MeanWithError, MetricHistory, RunSettings
from lit_rl.reports.diagnosis.rules import RULES, Rule
from lit_rl.run_files.records import Diagnosis

__all__ = ["RULES", "Diagnosis", "LastRollout", "MeanWithError", "MetricHistory", "Rule", "RunSettings"]
