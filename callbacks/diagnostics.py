"""Why a run does not learn, in one line each, where its numbers tell."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import lightning.pytorch as pl
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from torch import Tensor

from lit_rl.bounds import require_above, require_at_least, require_share
from lit_rl.rollout import FinishedRollout

_log = logging.getLogger("lit_rl.diagnostics")

_PAGE = "docs/metrics.md, When it does not learn"
_NUM_WEIGHTS = 256


class Diagnosis(NamedTuple):
    """What was found after a rollout."""

    rollout: int
    rule: str
    message: str


class Diagnostics(pl.Callback):
    """Names likely causes of a run that does not learn, each in one line with what to do.

    Looks at the numbers of the last ``patience`` rollouts after each rollout, on the first rank. A rule speaks once,
    and again only after its condition was gone. What it says goes to the log (``lit_rl.diagnostics``) and to
    TensorBoard's TEXT, and stays in :attr:`found`. It changes nothing and stops nothing.

    Args:
        patience: rollouts that a condition must hold; all rules look at means over these.
        flat_reward: largest standard deviation of rewards that counts as none (reward units).
        flat_groups: largest share of groups without an advantage that is let pass.
        timed_out: largest share of programs that time out that is let pass.
        infrastructure: largest share of programs that fail for reasons of ours that is let pass.
        truncated: largest share of rows cut by the token limit that is let pass.
        sampler_gap: largest mean distance between the log-probabilities of sampler and trainer that rounding explains
            (nats). Not looked at where sampling filters by top-k or top-p: there is always a distance then.
        collapse: share of the best mean reward so far below which the reward has collapsed.
        still: largest move of the weights, as a share of their norm, that counts as none.
    """

    def __init__(
        self,
        patience: int = 10,
        flat_reward: float = 1e-6,
        flat_groups: float = 0.95,
        timed_out: float = 0.2,
        infrastructure: float = 0.05,
        truncated: float = 0.5,
        sampler_gap: float = 0.05,
        collapse: float = 0.5,
        still: float = 1e-8,
    ) -> None:
        require_at_least(1, patience=patience)
        require_at_least(0, flat_reward=flat_reward, still=still)
        require_above(0, sampler_gap=sampler_gap)
        require_share(flat_groups=flat_groups, timed_out=timed_out, truncated=truncated, collapse=collapse)
        require_share(infrastructure=infrastructure)
        self.patience = patience
        self.flat_reward, self.flat_groups = flat_reward, flat_groups
        self.timed_out, self.infrastructure, self.truncated = timed_out, infrastructure, truncated
        self.sampler_gap, self.collapse, self.still = sampler_gap, collapse, still
        self.found: list[Diagnosis] = []
        self._recent: deque[Mapping[str, float]] = deque(maxlen=patience)
        self._best_reward = 0.0
        self._weights: deque[Tensor] = deque(maxlen=patience + 1)
        self._spoken: set[str] = set()

    def on_rollout_end(self, trainer: pl.Trainer, module: Any, finished: FinishedRollout) -> None:
        """Look at the last rollouts."""
        if not trainer.is_global_zero:
            return
        self._recent.append(finished.metrics)
        self._weights.append(some_weights(module))
        if len(self._recent) < self.patience:
            return
        for name, rule in self._rules(module).items():
            message = rule()
            if message and name not in self._spoken:
                self._say(trainer, Diagnosis(module.rollout_step, name, f"{message} ({_PAGE})"))
            (self._spoken.add if message else self._spoken.discard)(name)
        self._best_reward = max(self._best_reward, self._mean("reward/mean"))

    def _say(self, trainer: pl.Trainer, diagnosis: Diagnosis) -> None:
        self.found.append(diagnosis)
        _log.warning("rollout %d: %s", diagnosis.rollout, diagnosis.message)
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                logger.experiment.add_text(f"diagnosis/{diagnosis.rule}", diagnosis.message, diagnosis.rollout)

    def _mean(self, name: str) -> float:
        """Mean over the last rollouts of those that logged it; 0 if none did."""
        values = [metrics[name] for metrics in self._recent if name in metrics]
        return sum(values) / len(values) if values else 0.0

    def _largest(self, name: str) -> float:
        return max((metrics.get(name, 0.0) for metrics in self._recent), default=0.0)

    # -- rules: what to say, or nothing -----------------------------------------------------------------------

    def _rules(self, module: Any) -> dict[str, Callable[[], str]]:
        return {
            "flat_reward": self._flat_reward,
            "flat_groups": self._flat_groups,
            "timed_out": self._timed_out,
            "infrastructure": self._infrastructure,
            "truncated": self._truncated,
            "sampler_gap": lambda: self._sampler_gap(module),
            "still_weights": self._still_weights,
            "collapse": self._collapse,
        }

    def _flat_reward(self) -> str:
        means = [metrics["reward/mean"] for metrics in self._recent if "reward/mean" in metrics]
        is_flat = len(means) == self.patience and self._largest("reward/std") <= self.flat_reward
        if not is_flat or max(means) - min(means) > self.flat_reward:
            return ""
        todo = (
            "read some completions (lit-rl show): is the program found, do stop strings cut it, do the tests fit it"
            if self._mean("execution/pass_rate") < 0.5
            else "the policy solves all of this: give it harder problems"
        )
        return f"all rewards of the last {self.patience} rollouts were {means[-1]:.3g}, so nothing is learned: {todo}"

    def _flat_groups(self) -> str:
        share = self._mean("group/zero_advantage_fraction")
        if share <= self.flat_groups or self._flat_reward():
            return ""
        return (
            f"{share:.0%} of the groups have equal rewards and teach nothing: raise num_samples or the temperature, "
            "choose problems that are neither too easy nor too hard, or set max_resamples"
        )

    def _timed_out(self) -> str:
        share = self._mean("verdict/timed_out_fraction")
        if share <= self.timed_out:
            return ""
        return (
            f"{share:.0%} of the programs time out: run lit-rl check-data for a time limit that fits this machine, or "
            "give the sandbox no more workers than there are cores"
        )

    def _infrastructure(self) -> str:
        share = self._mean("verdict/infrastructure_failure_fraction")
        if share <= self.infrastructure:
            return ""
        return (
            f"{share:.0%} of the programs could not be judged for reasons that are ours: look at the sandbox's "
            "messages and docs/sandbox.md"
        )

    def _truncated(self) -> str:
        share = self._mean("completion/truncated_fraction")
        if share <= self.truncated:
            return ""
        return (
            f"{share:.0%} of the completions are cut by the token limit: raise sampling.max_tokens, or check whether "
            "the policy ever ends (EOS, stop strings)"
        )

    def _sampler_gap(self, module: Any) -> str:
        gap, sampling = self._mean("policy/sampler_gap"), module.sampling
        if gap < self.sampler_gap or sampling.top_k or sampling.top_p < 1:
            return ""
        return (
            f"sampler and trainer differ by {gap:.2g} nats a token before the update, so the first ratio is not 1: "
            "check whether the engine has the present weights, the same dtype and temperature, and no filter of its own"
        )

    def _still_weights(self) -> str:
        whole = len(self._weights) > self.patience
        moved = float((self._weights[-1] - self._weights[0]).norm())
        if not whole or moved > self.still * float(self._weights[0].norm()):
            return ""
        norm, rate = self._mean("policy/gradient_norm"), self._mean("optimizer/learning_rate")
        if norm == 0:
            return ""
        return (
            f"the weights did not move in {self.patience} rollouts despite gradients (norm {norm:.2g}): the "
            f"learning rate {rate:.2g} is too small for the weights' dtype, or the schedule has ended"
        )

    def _collapse(self) -> str:
        reward, rate = self._mean("reward/mean"), self._mean("optimizer/learning_rate")
        if self._best_reward <= 0 or reward >= self.collapse * self._best_reward:
            return ""
        return (
            f"the reward fell from {self._best_reward:.3g} to {reward:.3g}: lower the learning rate ({rate:.2g}) or "
            "the number of updates a rollout, and go on from the best checkpoint"
        )


def some_weights(module: Any) -> Tensor:
    """A few of the weights that learn, copied to the CPU: enough to see whether they move."""
    learning = [p for p in module.policy.parameters() if p.requires_grad]
    step = max(1, len(learning) // 16)
    chosen = []
    for parameter in learning[::step]:
        local: Any = parameter.detach()
        local = local.to_local() if hasattr(local, "to_local") else local
        chosen.append(local.flatten()[:_NUM_WEIGHTS].double().cpu())
    return torch.cat(chosen) if chosen else torch.zeros(0)
