"""Log-probabilities of a rollout's tokens: under the weights that sampled them, and under the reference.

Letters: N rows, T completion tokens, n rows of a piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from lit_rl.models.policy import Policy
from lit_rl.models.reference import Reference
from lit_rl.models.streams import StreamKey
from lit_rl.modules.counted_module import CountedModule
from lit_rl.modules.measures import entropy_of
from lit_rl.modules.objective import Objective
from lit_rl.modules.splits import split_rows
from lit_rl.training.ranks import Means, max_over_ranks
from lit_rl.types import Completions, Sampling

_ENTROPY_ROWS, _ENTROPY_EVERY = 16, 4


class Logprobs(NamedTuple):
    """[N, T] nats of the old policy and of the reference, 0 in rows that were left out; ``None`` where unread."""

    old: Tensor | None
    ref: Tensor | None


class LogprobsModule(CountedModule):
    """What experience needs of log-probabilities; each is computed where something reads it, and nowhere else."""

    objective: Objective
    num_epochs: int
    staleness: int
    microbatch_size: int | None
    max_tokens_per_microbatch: int | None
    refresh_reference_every: int | None
    is_on_policy: bool
    """Whether every ratio of the rollout at hand is 1."""
    reference: Reference | None = None

    def configure_model(self) -> None:
        """Load the policy; keep its start as the reference if a KL term needs one."""
        super().configure_model()
        if self.objective.kl_coef:
            self.reference = self.policy.make_reference(will_refresh=self.refresh_reference_every is not None)

    def entropy_of_some(self, completions: Completions) -> Means:
        """Mean entropy of the policy's tokens in a few rows, before the update; nothing where a bonus computes it.

        One row in sixteen of every fourth rollout, drawn by the seed: about half a percent of an update's time.
        """
        num_rows = max_over_ranks(len(completions), self.device)
        every = _ENTROPY_EVERY * max(1, _ENTROPY_ROWS // max(1, num_rows))
        if self.objective.entropy_coef or self.rollout_step % every:
            return Means()
        seed = StreamKey(self.seed, "entropy", self.rollout_step).seed_of("rows", 0)
        order = torch.randperm(len(completions), generator=torch.Generator().manual_seed(seed))
        some = completions.select(order[: max(1, num_rows // _ENTROPY_ROWS)]).trim()
        return entropy_of(self.policy.entropy(some, self.sampling.temperature), some)

    def finish_rollout(self) -> None:
        """Count the rollout; make the policy the new reference when that is due."""
        super().finish_rollout()
        every = self.refresh_reference_every
        if every is not None and self.reference is not None and self.rollout_step % every == 0:
            self.reference.refresh()

    def samples_on_policy(self, completions: Completions) -> bool:
        """Whether a rollout is used for one update of the weights that sampled it: then every ratio is 1.

        With a correction ratios begin at the present weights, whichever sampled. The same on all ranks, which ask
        together.

        Raises:
            ValueError: older weights sampled, and from a filtered distribution, so that there is no ratio.
        """
        num_stale = int(stale_rows(completions, self.policy.version).sum())
        if self.staleness or not self.engine.shares_weights:
            num_stale = max_over_ranks(num_stale, self.device)
        if num_stale:
            what = f"{num_stale} rows were sampled by older weights, whose probabilities are compared with the policy's"
            require_unfiltered(self.sampling, what, "or use an engine that samples with the present weights")
        begins_here = not num_stale or self.objective.correction is not None
        return begins_here and self.num_epochs == 1 and self.num_minibatches == 1

    def logprobs_of(self, completions: Completions, rows: Tensor) -> Logprobs:
        """Log-probabilities under the policy that sampled and under the reference, each where something reads it.

        Args:
            completions: N rows.
            rows: [N] bool, those to compute.
        """
        chosen = rows.nonzero()[:, 0].cpu()
        wants_old = self.objective.penalises_rewards or not self.is_on_policy
        old = self.old_logprobs(completions, chosen) if wants_old else None
        return Logprobs(old, self.reference_logprobs(completions, chosen) if self.objective.kl_coef else None)

    def old_logprobs(self, completions: Completions, rows: Tensor) -> Tensor:
        """[N, T] log-probabilities of the given rows under the weights that sampled them.

        If the policy no longer has those weights, the sampler's own are all there is. A correction compares the two
        itself, so with one these are those under the present weights.
        """
        if self.objective.correction is not None:
            return self.logprobs_under(self.policy, completions, rows)
        stale = stale_rows(completions, self.policy.version)
        logprobs = self.logprobs_under(self.policy, completions, rows[~stale[rows]])
        sampled = completions.sampler_logprobs.to(logprobs.dtype)
        return torch.where(stale.to(logprobs.device)[:, None], sampled, logprobs)

    def reference_logprobs(self, completions: Completions, rows: Tensor) -> Tensor:
        """[N, T] log-probabilities of the given rows under the reference."""
        assert self.reference is not None
        return self.logprobs_under(self.reference, completions, rows)

    def logprobs_under(self, model: Policy | Reference, completions: Completions, rows: Tensor) -> Tensor:
        """[N, T] log-probabilities of the given rows under policy or reference, 0 in the others, in pieces."""
        logprobs = torch.zeros_like(completions.sampler_logprobs)
        for piece in self.pieces(completions, rows):
            part = completions.select(piece if len(piece) else [0]).trim()
            found = model.logprobs(part, self.sampling.temperature)
            logprobs = logprobs.to(found.dtype)  # also on a rank without rows: sums over ranks need one dtype
            if len(piece):
                logprobs[piece.to(logprobs.device), : found.shape[1]] = found
        return logprobs

    def pieces(self, completions: Completions, rows: Tensor) -> Iterator[Tensor]:
        """Row numbers in pieces of a micro-batch, as many on every rank; see :func:`split_rows`."""
        shares = self.policy.shares_prompts
        size, tokens = self.microbatch_size, self.max_tokens_per_microbatch
        return split_rows(completions, rows, size, tokens, shares_prompts=shares, device=self.device)


def stale_rows(completions: Completions, version: int) -> Tensor:
    """[N] bool: rows that other weights than those of this version sampled."""
    versions = completions.weights_versions or [version] * len(completions)
    return torch.tensor([sampled_by != version for sampled_by in versions], dtype=torch.bool)


def require_unfiltered(sampling: Sampling, what: str, remedy: str = "") -> None:
    """Check whether samples come from all tokens, so that the sampler's probabilities are the policy's.

    Raises:
        ValueError: ``what`` compares the two, and a filter makes them those of fewer tokens.
    """
    if sampling.top_k or sampling.top_p < 1:
        raise ValueError(
            f"{what}, got top_k={sampling.top_k} and top_p={sampling.top_p}, under which they are those of fewer "
            f"tokens: leave both out{', ' + remedy if remedy else ''}"
        )
