"""Log-probabilities and entropy of completion tokens, without the logits of a whole batch.

Letters: N completions, P prompt tokens (padded left), T completion tokens (padded right), S = P + T,
H hidden size, V vocabulary, M tokens in a flat list.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from lit_rl.math.linear_head import LinearHead, head_logprobs_and_entropy
from lit_rl.math.masking import dtype_at_least_float32

Projection = Callable[[Tensor], Tensor]
"""Function from hidden states [m, H] to logits [m, V]: the output matrix, or more."""

TokenLogits = Callable[[slice], Tensor]
"""Function that computes the logits [m, V] of a range of M tokens in a flat list."""

Compare = Callable[[Tensor, Tensor, float], Tensor]
"""Function from policy logits [m, V], teacher logits [m, V] and the sampler's temperature to a number [m] per token."""


_CHUNK_BYTES = 2**28
_CHUNK_TOKENS = 4096


def tokens_per_chunk(vocabulary_size: int) -> int:
    """Return how many tokens' float32 logits fit in 256 MiB, at most 4,096: more tokens make nothing faster.

    Example:
        >>> tokens_per_chunk(1_000), tokens_per_chunk(151_936)
        (4096, 441)
    """
    return max(1, min(_CHUNK_TOKENS, _CHUNK_BYTES // (4 * vocabulary_size)))


def completion_positions(num_prompt_tokens: int, num_completion_tokens: int) -> slice:
    """Return the positions, on the axis of length S, of the states that predict completion tokens 0 .. T-1.

        positions P-1 .. P+T-2          state s predicts token s + 1

    Only this function shifts by one: log-probabilities, entropy and values take their states from these positions.
    Prompts are padded on the left, so position P-1 is the last real prompt token in every row. The state at P+T-1,
    after the last token, belongs to no token; its value bootstraps a truncated completion.

    Args:
        num_prompt_tokens: P, padding included, at least 1.
        num_completion_tokens: T, padding included.

    Returns:
        A slice of length T.

    Example:
        >>> sequence = ["prompt0", "prompt1", "a", "b"]
        >>> sequence[completion_positions(num_prompt_tokens=2, num_completion_tokens=2)]
        ['prompt1', 'a']
    """
    if num_prompt_tokens < 1 or num_completion_tokens < 0:
        raise ValueError(
            f"a completion needs at least one prompt token before it, got {num_prompt_tokens} prompt tokens "
            f"and {num_completion_tokens} completion tokens"
        )
    return slice(num_prompt_tokens - 1, num_prompt_tokens + num_completion_tokens - 1)


def completion_logprobs(
    hidden: Tensor,
    project: Projection,
    completion_ids: Tensor,
    mask: Tensor,
    *,
    temperature: float = 1.0,
    chunk_tokens: int = 1024,
    with_entropy: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return every completion token's log-probability, and the entropy where it was drawn, from hidden states.

    Tokens outside the mask are not projected at all; their entries are 0. See
    :func:`chunked_logprobs_and_entropy` for the formula, temperature, chunks and precision.

    Args:
        hidden: [N, S, H] last hidden states of prompt and completion. Carries the gradient.
        project: hidden states to logits. Its parameters receive gradients too.
        completion_ids: [N, T] int64, the sampled ids.
        mask: [N, T] bool; a mask on the CPU saves a synchronization with the GPU.
        temperature: the sampler's, > 0.
        chunk_tokens: tokens whose logits exist at one time, at least 1.
        with_entropy: also return the entropy.

    Returns:
        logprobs [N, T] and entropy [N, T] (or None), nats, 0 outside the mask.

    Example:
        >>> hidden = torch.zeros(1, 3, 4)  # two prompt tokens, one completion token
        >>> logprobs, entropy = completion_logprobs(
        ...     hidden, torch.nn.Linear(4, 2, bias=False), torch.tensor([[1]]), torch.tensor([[True]])
        ... )
        >>> logprobs.detach()
        tensor([[-0.6931]])
    """
    states, counted = select_predicting_states(hidden, completion_ids, mask)
    logprobs, entropy = chunked_logprobs_and_entropy(
        states,
        project,
        completion_ids[counted],
        temperature=temperature,
        chunk_tokens=chunk_tokens,
        with_entropy=with_entropy,
    )
    shape = completion_ids.shape
    return _scatter_to_rows(logprobs, counted, shape), None if entropy is None else _scatter_to_rows(
        entropy, counted, shape
    )


def logprobs_and_divergences(
    hidden: Tensor,
    project: Projection,
    completion_ids: Tensor,
    mask: Tensor,
    teacher: TokenLogits,
    compare: Compare,
    *,
    temperature: float = 1.0,
    chunk_tokens: int = 1024,
    with_entropy: bool = False,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Return every completion token's log-probability, entropy, and divergence from a teacher.

    This takes the arguments of :func:`completion_logprobs` and two more: ``teacher`` gives logits of the M tokens that
    count, row by row, and ``compare`` is a divergence such as :class:`lit_rl.math.divergences.JSD`. Logits of both
    models exist for ``chunk_tokens`` tokens at a time; if there are more, the backward computes them again.

    Returns:
        logprobs [N, T], entropy [N, T] (or None) and divergences [N, T], nats, 0 outside the mask.
    """
    states, counted = select_predicting_states(hidden, completion_ids, mask)
    targets = completion_ids[counted]

    def chunk(states: Tensor, rows: slice) -> tuple[Tensor, Tensor, Tensor]:
        logits = project(states)
        with torch.no_grad():
            theirs = teacher(rows)
        return *_logits_to_logprobs_and_entropy(logits, targets[rows], temperature, with_entropy), compare(
            logits, theirs, temperature
        )

    shape = completion_ids.shape
    logprobs, entropy, found = (
        _scatter_to_rows(one, counted, shape) for one in _map_chunks(chunk, states, chunk_tokens)
    )
    return logprobs, entropy if with_entropy else None, found


def select_predicting_states(hidden: Tensor, completion_ids: Tensor, mask: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the states that predict the tokens that count, and the places of these tokens.

    Returns:
        states [M, H], row by row, and the row [M] and column [M] of each token.
    """
    num_tokens = completion_ids.shape[1]
    states = hidden[:, completion_positions(hidden.shape[1] - num_tokens, num_tokens)]
    rows, columns = mask.nonzero(as_tuple=True)
    counted = rows.to(states.device), columns.to(states.device)
    return states[counted], counted


def chunked_logprobs_and_entropy(
    hidden: Tensor,
    project: Projection,
    targets: Tensor,
    *,
    temperature: float = 1.0,
    chunk_tokens: int = 1024,
    with_entropy: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """Return the log-probability of each target and the entropy of its distribution, a chunk of logits at a time.

        z        = project(hidden) / temperature
        logprob  = z[target] - logsumexp(z)
        entropy  = -sum_v p_v log p_v,   p = softmax(z)

    At most ``chunk_tokens`` x V logits exist at one time; if there is only one chunk, it is kept. With several chunks,
    a :class:`lit_rl.math.linear_head.LinearHead` is summed up by blocks of the vocabulary, with a backward of its own;
    for any other ``project``, the backward computes each chunk again. The softmax runs in float32 (float64 for float64
    logits) whatever the model's precision. If ``project`` talks to other ranks, all ranks need equally many chunks.

    The temperature must be the sampler's: samples at T = 0.5 with log-probabilities at T = 1 start with a ratio other
    than 1.

    Args:
        hidden: [M, H] states that predict the targets. Carries the gradient.
        project: [m, H] -> logits [m, V], differentiable, each row by itself.
        targets: [M] int64.
        temperature: > 0. Greedy samples (T = 0) have no distribution; give 1.
        chunk_tokens: at least 1.
        with_entropy: False saves a pass over the vocabulary and returns None.

    Returns:
        logprobs [M] and entropy [M] (or None), nats, float32 or float64.

    Example:
        >>> logits = torch.log(torch.tensor([[0.25, 0.75]]))
        >>> logprobs, entropy = chunked_logprobs_and_entropy(logits, lambda z: z, torch.tensor([1]))
        >>> logprobs.exp(), entropy  # entropy is 0.25 log 4 + 0.75 log 4/3
        (tensor([0.7500]), tensor([0.5623]))
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be > 0, got {temperature}; greedy samples have no distribution, use 1.0")

    def chunk(states: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
        return _logits_to_logprobs_and_entropy(project(states), targets[rows], temperature, with_entropy)

    if isinstance(project, LinearHead) and len(hidden) > chunk_tokens:
        max_logits = chunk_tokens * project.weight.shape[0]
        return head_logprobs_and_entropy(hidden, project, targets, temperature, max_logits, with_entropy)
    logprobs, entropy = _map_chunks(chunk, hidden, chunk_tokens)
    return logprobs, entropy if with_entropy else None


def _map_chunks(
    compute: Callable[[Tensor, slice], tuple[Tensor, ...]], states: Tensor, chunk_tokens: int
) -> list[Tensor]:
    """Return the results [M] of a function of states [m, H] and their range; the backward recomputes several chunks.

    An empty batch still makes one call, so that the result stays part of the graph.
    """
    recompute = torch.is_grad_enabled() and len(states) > chunk_tokens
    pieces = []
    for start in range(0, max(len(states), 1), chunk_tokens):
        rows = slice(start, start + chunk_tokens)
        given = states[rows], rows
        pieces.append(checkpoint(compute, *given, use_reentrant=False) if recompute else compute(*given))
    return list(map(torch.cat, zip(*pieces, strict=True)))


def _logits_to_logprobs_and_entropy(
    logits: Tensor, targets: Tensor, temperature: float, with_entropy: bool
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and entropy (or zeros) of one chunk without changing the logits, which may be shared."""
    wide = logits.to(dtype_at_least_float32(logits))
    all_logprobs = torch.log_softmax(wide / temperature, dim=-1)
    logprobs = all_logprobs.gather(-1, targets[:, None]).squeeze(-1)
    if not with_entropy:
        return logprobs, torch.zeros_like(logprobs)
    # An excluded token (logit -inf) adds p log p = 0, not 0 * inf.
    finite = all_logprobs.masked_fill(torch.isneginf(all_logprobs), 0.0)
    return logprobs, -(all_logprobs.exp() * finite).sum(-1)


def _scatter_to_rows(flat: Tensor, places: tuple[Tensor, ...], shape: torch.Size) -> Tensor:
    """Return flat values [M] at their places in a tensor [N, T], with 0 elsewhere."""
    return flat.new_zeros(shape).index_put(places, flat)
