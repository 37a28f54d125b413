"""What was found wrong with a run while it ran, read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lit_rl.reports.run_files.folders import METRICS_FILE
from lit_rl.reports.run_files.lines import read_lines


@dataclass(frozen=True)
class RecordedDiagnosis:
    """One thing that was found.

    Args:
        rule: name of the rule that spoke.
        message: what is wrong and what to do, in one line, with the page of the docs.
        details: what the message speaks of, such as completions; may have many lines.
        rollout: after which it was said.
        ended: rollout after which it no longer held; ``None`` if it held to the end.
    """

    rule: str
    message: str
    details: str
    rollout: int
    ended: int | None = None

    @property
    def when(self) -> str:
        """The rollouts from the one after which it was said."""
        return f"since rollout {self.rollout}" if self.ended is None else f"rollouts {self.rollout} to {self.ended}"

    def line(self) -> str:
        """For the terminal."""
        return f"{self.when}: {self.message}"


def read_diagnoses(folder: str | Path) -> list[RecordedDiagnosis]:
    """What was found, in order; nothing for runs of older versions, and for those that nobody watched.

    Args:
        folder: that holds ``metrics.jsonl``.
    """
    file = Path(folder) / METRICS_FILE
    found: list[RecordedDiagnosis] = []
    for frame in read_lines(file) if file.exists() else ():
        said = frame.items[0].get("diagnosis")
        if said is None:
            continue
        rule, rollout = said["rule"], frame.items[0]["rollout"]
        place = next((i for i, one in enumerate(found) if one.rule == rule and one.ended is None), None)
        if said.get("ended") and place is not None:
            found[place] = replace(found[place], ended=rollout)
        elif not said.get("ended") and place is None:
            found.append(RecordedDiagnosis(rule, said["message"], said["details"], rollout))
    return found


def was_watched(folder: str | Path) -> bool:
    """Whether the run's last start had :class:`lit_rl.callbacks.Diagnostics` on."""
    starts = [frame.items[0]["start"] for frame in read_lines(Path(folder) / METRICS_FILE) if "start" in frame.items[0]]
    return bool(starts and starts[-1].get("diagnosed"))


def open_diagnoses(found: Sequence[RecordedDiagnosis]) -> list[RecordedDiagnosis]:
    """Those that held to the end."""
    return [one for one in found if one.ended is None]
