"""Rules about what is written and how programs end."""

from __future__ import annotations

from lit_rl.bounds import require_share
from lit_rl.diagnosis.base import Rule, ShareRule
from lit_rl.diagnosis.so_far import CUT, RunSoFar
from lit_rl.diagnosis.stop_strings import commonest_string, cut_rows

_PROGRAMS = {
    "completion/format_rate": "with a program in a fenced block",
    "completion/program_rate": "with a program",
}


class FormatFalling(Rule):
    """Fewer and fewer completions have a program in them.

    Args:
        at_most: fall of their share, from the best mean so far, that is let pass.
    """

    name = "format_falling"

    def __init__(self, at_most: float = 0.2) -> None:
        require_share(at_most=at_most)
        self.at_most = at_most

    def look(self, run: RunSoFar) -> str:
        """Compare with the best mean so far."""
        for name, what in _PROGRAMS.items():
            best, share = run.best.get(name, 0.0), run.mean(name)
            if share is not None and best - share > self.at_most:
                return (
                    f"completions {what} fell from {best:.0%} to {share:.0%}: the policy unlearns to answer; lower the "
                    "learning rate, add a reward for the form (FormatReward) or a KL to the reference (kl_coef)"
                )
        return ""


class Truncated(ShareRule):
    """Many completions are cut by the token limit.

    Args:
        at_most: share of the rows that is let pass.
    """

    name = "truncated"
    metric = "completion/truncated_fraction"
    message = (
        "of the completions are cut by the token limit: raise sampling.max_tokens, or check whether the policy ever "
        "ends (EOS, stop strings)"
    )

    def __init__(self, at_most: float = 0.5) -> None:
        super().__init__(at_most)


class StopStringCuts(Rule):
    """A stop string cuts some of the programs: they break off where it ended them.

    Args:
        at_most: share of the rows that fail that is let pass.
        rows: share of all rows from which on it matters.
    """

    name = "stop_string"

    def __init__(self, at_most: float = 0.3, rows: float = 0.05) -> None:
        require_share(at_most=at_most, rows=rows)
        self.at_most, self.rows = at_most, rows

    def look(self, run: RunSoFar) -> str:
        """Compare the rows that were cut with those that fail."""
        cut, failed = run.share(CUT), 1 - run.share("execution/pass_rate")
        if cut <= self.rows or cut <= self.at_most * failed:
            return ""
        string = commonest_string(run.rollout, cut_rows(run.rollout), run.decode)
        return (
            f"{min(1.0, cut / failed):.0%} of the programs that fail break off where a stop string ended them: check "
            f"whether {string} comes inside of good answers (lit-rl show); {run.where.stop_strings}"
        )


class TimedOut(ShareRule):
    """Many programs time out.

    Args:
        at_most: share of the rows that is let pass.
    """

    name = "timed_out"
    metric = "verdict/timed_out_fraction"
    message = (
        "of the programs time out: run lit-rl check-data for a time limit that fits this machine, or give the sandbox "
        "no more workers than there are cores"
    )

    def __init__(self, at_most: float = 0.2) -> None:
        super().__init__(at_most)


class Infrastructure(ShareRule):
    """Many programs cannot be judged for reasons that are ours.

    Args:
        at_most: share of the rows that is let pass.
    """

    name = "infrastructure"
    metric = "verdict/infrastructure_failure_fraction"
    message = (
        "of the programs could not be judged for reasons that are ours: look at the sandbox's messages and "
        "docs/sandbox.md"
    )

    def __init__(self, at_most: float = 0.05) -> None:
        super().__init__(at_most)
