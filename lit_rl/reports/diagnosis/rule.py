"""The base classes of rules.

A rule of your own is one class in one file::

    class TooShort(Rule):
        name = "too_short"
        page = ""

        def __init__(self, at_least: float = 5.0) -> None:
            self.at_least = at_least

        def look(self, run: RunHistory) -> str:
            length = run.mean("completion/length")
            if length is None or length >= self.at_least:
                return ""
            return f"completions have {length:.1f} tokens: look for a stop string that cuts them"

and is named in the configuration, under ``rules`` of :class:`lit_rl.callbacks.Diagnostics`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, ClassVar

from lit_rl.arguments import require_above, require_at_least, require_share
from lit_rl.reports.diagnosis.run_history import RunHistory

PAGE = "lit-rl docs monitoring"
"""Prints the page; with ``#`` and the name of a rule, its entry."""

_NEAR = 0.8
"""Share of a limit below which a number that exceeded it has recovered."""


def from_0_to_1(default: float) -> Any:
    """A threshold of a rule that is a share."""
    return field(default=default, metadata={"require": require_share})


def above(bound: float, default: float) -> Any:
    """A threshold of a rule that is larger than a bound."""
    return field(default=default, metadata={"require": partial(require_above, bound)})


def not_below(bound: float, default: float) -> Any:
    """A threshold of a rule that is at least as large as a bound."""
    return field(default=default, metadata={"require": partial(require_at_least, bound)})


def told(measured: str, meaning: str, *causes: tuple[str, str]) -> str:
    """One line of a diagnosis.

    Args:
        measured: the numbers.
        meaning: what follows from them.
        causes: the likeliest first, each with the command that finds it out or mends it; one alone is certain.
    """
    listed = ", or ".join(f"{cause} (`{command}`)" for cause, command in causes)
    return f"{measured}: {meaning}; {'likely ' if len(causes) > 1 else ''}{listed}"


@dataclass(eq=False)
class Rule(ABC):
    """A condition under which a run does not learn as it should; its arguments are its thresholds."""

    name: ClassVar[str]
    """Name of the diagnosis: in the log, in TensorBoard, and as a heading of docs/monitoring.md."""

    page: ClassVar[str] = PAGE
    """Docs page that the message refers to; empty for a rule without its own entry."""

    explains: ClassVar[tuple[str, ...]] = ()
    """Names of rules whose conditions follow from this one's: they say nothing while it holds, or may hold; with ``*``
    no other rule is asked while it holds."""

    at_once: ClassVar[bool] = False
    """True if the rule is asked from the first rollout on, before there were ``patience`` of them."""

    def __post_init__(self) -> None:
        for one in fields(self):
            if "require" in one.metadata:
                one.metadata["require"](self, **{one.name: getattr(self, one.name)})

    @abstractmethod
    def look(self, run: RunHistory) -> str:
        """Return in one line what is wrong and what to do; empty if nothing is wrong.

        Asked after each rollout once there were ``patience`` rollouts, and after each validation; by every rank.

        Args:
            run: the numbers so far, and the last rollout.
        """

    def suspects(self, run: RunHistory) -> bool:
        """Return whether the condition may be about to hold; rules that it explains wait until that is clear."""
        return False

    def persists(self, run: RunHistory) -> bool:
        """Return whether a condition that was reported still holds although :meth:`look` no longer finds it."""
        return False

    def details(self, run: RunHistory) -> str:
        """Return details for the message, such as completions; called on the first rank after :meth:`look` spoke."""
        return ""

    def reset(self) -> None:  # noqa: B027  # most rules remember nothing
        """Forget the previous run."""


@dataclass(eq=False)
class LimitRule(Rule):
    """A number that is larger than it should be.

    Args:
        at_most: largest allowed mean over the last rollouts; 0 counts where none logged it.
    """

    metric: ClassVar[str]
    """The number."""

    message: ClassVar[str]
    """Text with what was measured, what it means, causes and a command for each; a format of ``{value}``, of
    ``{rate}``, the learning rate, of ``{slower}``, the command that starts the run with a tenth of it, of
    ``{estimator}``, the class that makes advantages, and of the fields of
    :class:`~lit_rl.reports.diagnosis.run_history.Where`."""

    at_most: float = field(metadata={"require": partial(require_above, 0)})

    def look(self, run: RunHistory) -> str:
        """Compare the number with the limit."""
        value = run.share(self.metric)
        return self.told(run, f"{value:.2g}") if value > self.at_most else ""

    def persists(self, run: RunHistory) -> bool:
        """Return whether the number is still near the limit."""
        return run.share(self.metric) > _NEAR * self.at_most

    def told(self, run: RunHistory, value: str) -> str:
        """Fill in the message."""
        names = {"rate": f"{run.rate:.2g}", "slower": run.slower, "estimator": run.estimator}
        return self.message.format(value=value, **names, **run.where._asdict())


@dataclass(eq=False)
class ShareRule(LimitRule):
    """A share that is larger than it should be; :attr:`message` follows the share: ``of the programs ...``.

    Args:
        at_most: largest allowed share.
    """

    at_most: float = field(metadata={"require": require_share})

    def look(self, run: RunHistory) -> str:
        """Compare the share with the limit."""
        share = run.share(self.metric)
        return self.told(run, f"{share:.0%}") if share > self.at_most else ""

    def told(self, run: RunHistory, value: str) -> str:
        """Put the share before the message."""
        return f"{value} {super().told(run, value)}"
