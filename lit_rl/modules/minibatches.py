"""Deals a rollout into minibatches and micro-batches, once, and computes log-probabilities in exactly these batches.

A minibatch is one optimizer step, a micro-batch one pass through the model. The result of a forward pass in half
precision depends on the shape of its batch. So old, reference and teacher log-probabilities are read in the very
micro-batches that the updates use: before the first optimizer step every ratio is 1, bit for bit, in any precision.

Letters: N rows, T completion tokens, n rows of a micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from typing import NamedTuple

import torch
from torch import Tensor

from lit_rl.errors import UsageError
from lit_rl.models.policy import Policy
from lit_rl.models.reference import NoGradScorer
from lit_rl.modules.objective import Objective, OldAndReferenceLogprobs
from lit_rl.modules.settings import UpdateConfig
from lit_rl.training.ranks import max_over_ranks
from lit_rl.types import Completions, Experience, Sampling


class Minibatch(NamedTuple):
    """Numbers of the rows that one optimizer step counts, and of those that go through the model, by micro-batch."""

    rows: Tensor
    microbatches: list[Tensor]


def make_minibatches(
    completions: Completions, rows: Tensor, update: UpdateConfig, shares_prompts: bool, seed: int
) -> tuple[Minibatch, ...]:
    """Deal the rows of a rollout into minibatches at random, and each minibatch into micro-batches."""
    order = torch.randperm(len(completions), generator=torch.Generator().manual_seed(seed))
    size, tokens = update.microbatch_size, update.microbatch_tokens
    minibatches = []
    for part in order.tensor_split(update.minibatches):
        microbatches = divide_into_microbatches(completions, part[rows[part]], size, tokens, shares_prompts)
        minibatches.append(Minibatch(part, microbatches))
    return tuple(minibatches)


def equalize_microbatch_count(microbatches: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Append empty micro-batches until every rank has equally many.

    A rank with fewer must still take part in every forward and backward pass, or the other ranks would wait forever.
    """
    missing = max_over_ranks(len(microbatches), device) - len(microbatches)
    return [*microbatches] + [torch.empty(0, dtype=torch.long)] * missing


def divide_into_microbatches(
    completions: Completions, rows: Tensor, size: int | None, max_tokens: int | None, shares_prompts: bool
) -> list[Tensor]:
    """Divide rows into cheap micro-batches; the gradient is the same however they are divided.

    Rows of similar length need little padding together; rows of one group read one prompt. The order that reads fewer
    tokens is used. A micro-batch has at most ``size`` rows and ``max_tokens`` tokens, with padding, and with a prompt
    counted once for rows that share it; a longer row goes alone.

    Returns:
        Row numbers of each micro-batch; none is empty.
    """
    host = completions.on_host
    num_tokens, groups = host.token_counts, host.group_ids
    by_length = rows[num_tokens[rows].argsort(stable=True)]
    orders = [by_length]
    if shares_prompts and len(rows) > 1:
        longest = torch.zeros(int(groups.max()) + 1, dtype=num_tokens.dtype)
        longest.scatter_reduce_(0, groups[rows], num_tokens[rows], "amax")
        # By group, groups of short completions first, and by length within a group; the sorts are stable.
        by_group = by_length[groups[by_length].argsort(stable=True)]
        orders.append(by_group[longest[groups[by_group]].argsort(stable=True)])
    names = groups.tolist() if shares_prompts else range(len(completions))
    known = list(zip(names, host.prompt_mask.sum(-1).tolist(), num_tokens.tolist(), strict=True))
    divided = [_pack_microbatches(order.tolist(), known, size, max_tokens) for order in orders]
    _, cheapest = min(divided, key=itemgetter(0))
    return [torch.tensor(one) for one in cheapest]


def _pack_microbatches(
    ordered: Sequence[int], known: Sequence[tuple[int, int, int]], size: int | None, max_tokens: int | None
) -> tuple[int, list[list[int]]]:
    """Cut rows, in this order, where one more would be too many; return the tokens that are read and the micro-batches.

    ``known`` has, for each row, the name and length of its prompt, and the number of tokens after the prompt. Each row
    of a micro-batch is padded to the longest row; prompts of one name are read once.
    """
    microbatches: list[list[int]] = []
    before = tokens = prompt = completion = 0  # tokens of earlier micro-batches; tokens and widths of the last
    names: set[int] = set()
    for number in ordered:
        name, own_prompt, own_completion = known[number]
        widest, longest = max(prompt, own_prompt), max(completion, own_completion)
        last = microbatches[-1] if microbatches else []
        grown = (len(names) + (name not in names)) * widest + (len(last) + 1) * longest
        if not last or len(last) == size or (max_tokens is not None and grown > max_tokens):
            before, names = before + tokens, set()
            widest, longest, grown = own_prompt, own_completion, own_prompt + own_completion
            last = []
            microbatches.append(last)
        last.append(number)
        names.add(name)
        tokens, prompt, completion = grown, widest, longest
    return before + tokens, microbatches


def zero_weight_row(experience: Experience) -> Experience:
    """Return a row without weight in the loss, for a rank without rows to send through the model."""
    row = experience.select([0]).trim()
    return replace(row, row_mask=torch.zeros_like(row.row_mask))


class LogprobComputer:
    """Computes the log-probabilities that experience needs, and only those that something reads.

    Attributes:
        reference: the policy that the KL is measured to; ``None`` without one.
    """

    def __init__(self, policy: Policy, objective: Objective, update: UpdateConfig, sampling: Sampling) -> None:
        self.policy = policy
        self.objective = objective
        self.update = update
        self.sampling = sampling
        self.reference: NoGradScorer | None = None

    def create_reference_if_needed(self, *, needed: bool = False) -> None:
        """Keep the policy's start as the reference, if a KL term, or something else, needs one."""
        if self.objective.kl_coef or needed:
            refreshes = self.update.refresh_reference_every is not None
            self.reference = self.policy.make_reference(will_refresh=refreshes)
            weights = [] if self.reference.own is None else list(self.reference.own.parameters())
            if refreshes and self.update.refresh_reference_share < 1 and any(one.element_size() < 4 for one in weights):
                raise UsageError(
                    f"update.refresh_reference_share {self.update.refresh_reference_share} averages weights, and small "
                    f"steps are lost in {weights[0].dtype}: use LoRA, float32 weights, or a share of 1"
                )

    def compute_old_and_reference(
        self, completions: Completions, minibatches: Sequence[Minibatch], *, on_policy: bool
    ) -> OldAndReferenceLogprobs:
        """Return log-probabilities under the old policy and under the reference, each only if something reads them."""
        wants_old = self.objective.subtracts_kl_from_rewards or not on_policy
        old = self.old_logprobs(completions, minibatches) if wants_old else None
        if not self.objective.kl_coef:
            return OldAndReferenceLogprobs(old, None)
        assert self.reference is not None
        return OldAndReferenceLogprobs(
            old, self.compute_under(self.reference, completions, all_microbatches(minibatches))
        )

    def old_logprobs(self, completions: Completions, minibatches: Sequence[Minibatch]) -> Tensor:
        """Return log-probabilities [N, T] of the dealt rows under the weights that sampled them.

        If the policy no longer has those weights, the sampler's own log-probabilities are returned. A correction
        compares sampler and policy itself, so with a correction these are log-probabilities under the present weights.
        """
        microbatches = all_microbatches(minibatches)
        if self.objective.correction is not None:
            return self.compute_under(self.policy, completions, microbatches)
        stale = stale_row_mask(completions, self.policy.version)
        logprobs = self.compute_under(self.policy, completions, [one for one in microbatches if not stale[one].all()])
        sampled = completions.sampler_logprobs.to(logprobs.dtype)
        return torch.where(stale.to(logprobs.device)[:, None], sampled, logprobs)

    def compute_under(
        self, model: Policy | NoGradScorer, completions: Completions, microbatches: Sequence[Tensor]
    ) -> Tensor:
        """Return log-probabilities [N, T] of the rows of these micro-batches under a model, 0 in other rows."""
        logprobs = torch.zeros_like(completions.sampler_logprobs)
        for rows in equalize_microbatch_count(microbatches, logprobs.device):
            part = completions.select(rows if len(rows) else [0]).trim()
            found = model.logprobs(part, self.sampling.temperature)
            logprobs = logprobs.to(found.dtype)  # also on a rank without rows: sums over ranks need one dtype
            if len(rows):
                logprobs[rows.to(logprobs.device), : found.shape[1]] = found
        return logprobs


def all_microbatches(minibatches: Sequence[Minibatch]) -> list[Tensor]:
    """Return the micro-batches of all minibatches."""
    return [rows for minibatch in minibatches for rows in minibatch.microbatches]


def stale_row_mask(completions: Completions, version: int) -> Tensor:
    """Return [N] bool: True for rows that were sampled by weights of another version."""
    versions = completions.weights_versions or [version] * len(completions)
    return torch.tensor(versions, dtype=torch.long) != version
