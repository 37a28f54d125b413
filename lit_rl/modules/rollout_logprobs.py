"""Log-probabilities of a rollout's tokens: under the weights that sampled them, and under the reference.

Letters: N rows, T completion tokens, n rows of a piece.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from lit_rl.models.policy import Policy
from lit_rl.models.reference import Reference
from lit_rl.modules.minibatches import split_rows
from lit_rl.modules.objective import Logprobs, Objective
from lit_rl.modules.settings import Update
from lit_rl.training.ranks import max_over_ranks
from lit_rl.types import Completions, Sampling


class LogprobReader:
    """Computes the log-probabilities that experience needs, each where something reads it, and nowhere else.

    Args:
        policy: what is trained.
        objective: says what is read.
        update: says into how many pieces rows are divided, and when the reference is renewed.
        sampling: how training samples; its temperature holds for every log-probability.

    Attributes:
        reference: the policy that the KL is measured to; ``None`` without one.
    """

    def __init__(self, policy: Policy, objective: Objective, update: Update, sampling: Sampling) -> None:
        self.policy = policy
        self.objective = objective
        self.update = update
        self.sampling = sampling
        self.reference: Reference | None = None

    def load_reference(self) -> None:
        """Keep the policy's start as the reference, if a KL term needs one."""
        if self.objective.kl_coef:
            refreshes = self.update.refresh_reference_every is not None
            self.reference = self.policy.make_reference(will_refresh=refreshes)

    def refresh_reference(self, rollouts_done: int) -> None:
        """Make the policy the new reference when that is due."""
        every = self.update.refresh_reference_every
        if every is not None and self.reference is not None and rollouts_done % every == 0:
            self.reference.refresh()

    def is_on_policy(self, completions: Completions, *, may_be_stale: bool) -> bool:
        """Whether a rollout is used for one update of the weights that sampled it: then every ratio is 1.

        With a correction ratios begin at the present weights, whichever sampled. The same on all ranks, which ask
        together.

        Args:
            completions: N rows.
            may_be_stale: some rank may have rows that other weights sampled.

        Raises:
            ValueError: older weights sampled, and from a filtered distribution, so that there is no ratio.
        """
        num_stale = int(stale_rows(completions, self.policy.version).sum())
        if may_be_stale:
            num_stale = max_over_ranks(num_stale, self.policy.device)
        if num_stale:
            what = f"{num_stale} rows were sampled by older weights, whose probabilities are compared with the policy's"
            require_unfiltered(self.sampling, what, "or use an engine that samples with the present weights")
        begins_here = not num_stale or self.objective.correction is not None
        return begins_here and self.update.steps == 1

    def read(self, completions: Completions, rows: Tensor, *, on_policy: bool) -> Logprobs:
        """Log-probabilities under the policy that sampled and under the reference, each where something reads it.

        Args:
            completions: N rows.
            rows: [N] bool, those to compute.
            on_policy: every ratio is 1, so the loss reads no old log-probabilities.
        """
        chosen = rows.nonzero()[:, 0].cpu()
        wants_old = self.objective.penalises_rewards or not on_policy
        old = self.old(completions, chosen) if wants_old else None
        return Logprobs(old, self.ref(completions, chosen) if self.objective.kl_coef else None)

    def old(self, completions: Completions, rows: Tensor) -> Tensor:
        """[N, T] log-probabilities of the given rows under the weights that sampled them.

        If the policy no longer has those weights, the sampler's own are all there is. A correction compares the two
        itself, so with one these are those under the present weights.
        """
        if self.objective.correction is not None:
            return self.under(self.policy, completions, rows)
        stale = stale_rows(completions, self.policy.version)
        logprobs = self.under(self.policy, completions, rows[~stale[rows]])
        sampled = completions.sampler_logprobs.to(logprobs.dtype)
        return torch.where(stale.to(logprobs.device)[:, None], sampled, logprobs)

    def ref(self, completions: Completions, rows: Tensor) -> Tensor:
        """[N, T] log-probabilities of the given rows under the reference."""
        assert self.reference is not None
        return self.under(self.reference, completions, rows)

    def under(self, model: Policy | Reference, completions: Completions, rows: Tensor) -> Tensor:
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
        shares, device = self.policy.shares_prompts, completions.completion_ids.device
        size, tokens = self.update.microbatch_size, self.update.microbatch_tokens
        return split_rows(completions, rows, size, tokens, shares_prompts=shares, device=device)


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
