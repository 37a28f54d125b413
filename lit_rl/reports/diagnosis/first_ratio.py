"""The rule about the first ratio: sampler and trainer must give the same probabilities before an update."""

from __future__ import annotations

from lit_rl.arguments import require_above
from lit_rl.reports.diagnosis.base import Rule
from lit_rl.reports.diagnosis.ratio_probe import Findings, probe_ratio
from lit_rl.reports.diagnosis.so_far import RunSoFar


class FirstRatio(Rule):
    """Sampler and trainer differ before the update, so the first ratio is not 1.

    When it speaks, a probe tries what can be the cause one by one and names it; see
    :func:`lit_rl.reports.diagnosis.ratio_probe.probe_ratio`. The rule is skipped where sampling filters by top-k or
    top-p: there is always a distance then.

    Args:
        at_most: mean distance that rounding explains (nats per token).
        probe: whether to look for the cause, which takes a few dozen short forward passes once.
    """

    name = "sampler_gap"

    def __init__(self, at_most: float = 0.05, probe: bool = True) -> None:
        require_above(0, at_most=at_most)
        self.at_most = at_most
        self.probe = probe
        self._findings: Findings | None = None

    def reset(self) -> None:
        """Forget what was found."""
        self._findings = None

    def look(self, run: RunSoFar) -> str:
        """Compare the gap with the limit; where it is larger, look for the cause once."""
        gap, sampling = run.share("sampling/logprob_gap/mean"), run.module.sampling
        ahead = run.module.sampler.settings.staleness  # then other weights sampled, as they were meant to
        if gap < self.at_most or sampling.top_k or sampling.top_p < 1 or ahead:
            self._findings = None
            return ""
        said = f"sampler and trainer differ by {gap:.2g} nats a token before the update, so the first ratio is not 1"
        if not self.probe:
            return f"{said}: check the engine's weights, dtype, temperature and filters"
        if self._findings is None:
            self._findings = probe_ratio(run.module, run.rollout, self.at_most)
        return f"{said}: {self._findings.cause}"

    def details(self, run: RunSoFar) -> str:
        """Everything that was tried."""
        return self._findings.table() if self._findings is not None else ""
