"""Passes over a rollout's rows: minibatches, pieces that go through the model together, and log-probabilities.

A minibatch is one update. Log-probabilities are those under the weights that sampled the tokens, and under the
reference.

Letters: N rows, T completion tokens, n rows of a piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from lit_rl.arguments import UsageError
from lit_rl.models.policy import Policy
from lit_rl.models.reference import Reference
from lit_rl.models.teacher import Teacher
from lit_rl.modules.objective import Logprobs, Objective
from lit_rl.modules.settings import Update
from lit_rl.training.ranks import max_over_ranks
from lit_rl.types import Completions, Experience, Sampling


def minibatches(num_rows: int, num_minibatches: int, seed: int) -> tuple[Tensor, ...]:
    """The row numbers of each minibatch, dealt out at random; only the seed decides the order."""
    order = torch.randperm(num_rows, generator=torch.Generator().manual_seed(seed))
    return order.tensor_split(num_minibatches)


def pieces_of(
    completions: Completions, rows: Tensor, size: int | None, max_tokens: int | None, shares_prompts: bool
) -> list[Tensor]:
    """Divide rows into pieces that are cheap: the gradient is the same however they are divided.

    Pieces of rows of similar length need little padding; pieces of rows of one group read one prompt. The order that
    reads fewer tokens is used.

    Args:
        completions: all rows.
        rows: [n] numbers of those to divide.
        size: most rows of a piece; ``None`` for any number.
        max_tokens: most tokens of a piece, padding included, a prompt counted once for rows that share it; a row with
            more is a piece of its own. ``None`` for any number.
        shares_prompts: whether rows of a piece that have the same prompt read it once.

    Returns:
        numbers of the rows of each piece; no piece is empty.
    """
    host = completions.on_host
    num_tokens, groups = host.num_tokens, host.group_ids
    by_length = rows[num_tokens[rows].argsort(stable=True)]
    orders = [by_length]
    if shares_prompts and len(rows) > 1:
        longest = torch.zeros(int(groups.max()) + 1, dtype=num_tokens.dtype)
        longest.scatter_reduce_(0, groups[rows], num_tokens[rows], "amax")
        # By group, those of short completions first, and by length within a group: stable sorts, the last rules.
        by_group = by_length[groups[by_length].argsort(stable=True)]
        orders.append(by_group[longest[groups[by_group]].argsort(stable=True)])
    names = groups.tolist() if shares_prompts else range(len(completions))
    known = list(map(_Row, names, host.prompt_mask.sum(-1).tolist(), num_tokens.tolist()))
    divided = [_divided(order.tolist(), known, size, max_tokens) for order in orders]
    _, cheapest = min(divided, key=lambda one: one[0])
    return [torch.tensor(piece) for piece in cheapest]


class _Row(NamedTuple):
    """Tokens of a row: the name and length of its prompt, and the number of tokens after it."""

    name: int
    prompt: int
    completion: int


def _divided(
    ordered: Sequence[int], known: Sequence[_Row], size: int | None, max_tokens: int | None
) -> tuple[int, list[list[int]]]:
    """Cut rows, in this order, wherever one more would be too many; the tokens that are read, and the pieces.

    Each row of a piece is padded to the longest; prompts of one name are read once.
    """
    pieces: list[list[int]] = []
    before = tokens = prompt = completion = 0  # tokens of earlier pieces; of the last one, and its widths
    names: set[int] = set()
    for number in ordered:
        row = known[number]
        widest, longest = max(prompt, row.prompt), max(completion, row.completion)
        last = pieces[-1] if pieces else []
        grown = (len(names) + (row.name not in names)) * widest + (len(last) + 1) * longest
        if not last or len(last) == size or (max_tokens is not None and grown > max_tokens):
            before, names = before + tokens, set()
            widest, longest, grown = row.prompt, row.completion, row.prompt + row.completion
            last = []
            pieces.append(last)
        last.append(number)
        names.add(row.name)
        tokens, prompt, completion = grown, widest, longest
    return before + tokens, pieces


def idle(experience: Experience) -> Experience:
    """One row without weight in the loss, for a rank without rows to send through the model."""
    row = experience.select([0]).trim()
    return replace(row, row_mask=torch.zeros_like(row.row_mask))


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

    def load_reference(self, *, needed: bool = False) -> None:
        """Keep the policy's start as the reference, if a KL term, or something else, needs one."""
        if self.objective.kl_coef or needed:
            refreshes = self.update.refresh_reference_every is not None
            self.reference = self.policy.make_reference(will_refresh=refreshes)

    def refresh_reference(self, rollouts_done: int) -> None:
        """Make the policy the new reference when that is due."""
        every = self.update.refresh_reference_every
        if every is not None and self.reference is not None and rollouts_done % every == 0:
            self.reference.refresh(self.update.refresh_reference_share)

    def is_on_policy(self, completions: Completions, *, may_be_stale: bool) -> bool:
        """Return whether a rollout is used for one update of the weights that sampled it: then every ratio is 1.

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
        if not self.objective.kl_coef:
            return Logprobs(old, None)
        assert self.reference is not None
        return Logprobs(old, self.under(self.reference, completions, chosen))

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

    def under(self, model: Policy | Reference | Teacher, completions: Completions, rows: Tensor) -> Tensor:
        """[N, T] log-probabilities of the given rows under a model, 0 in the others, in pieces."""
        logprobs = torch.zeros_like(completions.sampler_logprobs)
        for piece in self.pieces(completions, rows):
            part = completions.select(piece if len(piece) else [0]).trim()
            found = model.logprobs(part, self.sampling.temperature)
            logprobs = logprobs.to(found.dtype)  # also on a rank without rows: sums over ranks need one dtype
            if len(piece):
                logprobs[piece.to(logprobs.device), : found.shape[1]] = found
        return logprobs

    def pieces(self, completions: Completions, rows: Tensor) -> Iterator[Tensor]:
        """Row numbers in pieces of a micro-batch, as many on every rank; see :func:`pieces_of`.

        A rank with fewer pieces than another ends with empty ones: it must still take part in every forward and
        backward pass, or the others would wait forever.
        """
        size, tokens = self.update.microbatch_size, self.update.microbatch_tokens
        pieces = pieces_of(completions, rows, size, tokens, self.policy.shares_prompts)
        for i in range(max_over_ranks(len(pieces), completions.completion_ids.device)):
            yield pieces[i] if i < len(pieces) else rows[:0]


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
        raise UsageError(
            f"{what}, got top_k={sampling.top_k} and top_p={sampling.top_p}, under which they are those of fewer "
            f"tokens: leave both out{', ' + remedy if remedy else ''}"
        )
