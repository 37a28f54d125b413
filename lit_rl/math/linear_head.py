"""Log-probabilities and entropy under an output matrix, by blocks of the vocabulary and with a backward of their own.

Letters: M tokens, H hidden size, V vocabulary, B entries of the vocabulary in a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lit_rl.math.masking import dtype_at_least_float32
from lit_rl.math.products import linear, matmul, suits_onednn

_ROWS = 4096
BLOCK_ON_CPU = 2**22
"""Largest number of logits in a block on a CPU, whose caches are small; a trace for an accelerator lifts this limit."""
_MIN_LOG_RATIO = -1e4


@dataclass(frozen=True)
class LinearHead:
    """Projection of hidden states by an output matrix, with at most a scale and a soft cap after it.

        u = (weight @ hidden + bias) * scale
        z = cap * tanh(u / cap),  or u without a cap

    Args:
        weight: [V, H], a plain tensor: no adapters, not sharded, not quantized.
        bias: [V] or ``None``.
        scale: factor of the logits, as in Cohere and Granite.
        cap: bound on the logits, > 0, as in Gemma 2; ``None`` for none.
    """

    weight: Tensor
    bias: Tensor | None = None
    scale: float = 1.0
    cap: float | None = None

    def __call__(self, hidden: Tensor) -> Tensor:
        """Return the logits [m, V] of hidden states [m, H]."""
        return self.scale_and_cap_logits(linear(to_weight_dtype(hidden, self.weight), self.weight, self.bias))

    def scale_and_cap_logits(self, products: Tensor) -> Tensor:
        """Scale and cap the products of the matrix."""
        logits = products if self.scale == 1.0 else products * self.scale
        return logits if self.cap is None else torch.tanh(logits / self.cap) * self.cap

    @property
    def requires_grad(self) -> bool:
        """True if the matrix or the bias needs a gradient."""
        return self.weight.requires_grad or (self.bias is not None and self.bias.requires_grad)


def to_weight_dtype(hidden: Tensor, weight: Tensor) -> Tensor:
    """Return hidden states in the matrix's half precision, since Mamba sums up its layers in float32."""
    is_wider = hidden.dtype == torch.float32 and weight.dtype in (torch.bfloat16, torch.float16)
    return hidden.to(weight.dtype) if is_wider else hidden


def head_logprobs_and_entropy(
    hidden: Tensor, head: LinearHead, targets: Tensor, temperature: float, max_logits: int, with_entropy: bool
) -> tuple[Tensor, Tensor | None]:
    """Return the log-probability of each target, and the entropy of its distribution, under an output matrix.

    Formulas and arguments are those of :func:`lit_rl.math.logprobs.chunked_logprobs_and_entropy`; a block of
    logits has at most ``max_logits`` entries (at least one entry of the vocabulary for each row). The softmax
    is summed up block by block, so the logits of all M tokens never exist together:

    * A frozen head without soft cap or entropy computes nothing twice: the forward also sums up
      ``sum_v p_v weight_v`` [M, H], from which the gradient of each hidden state follows whatever the loss is.
    * Otherwise the backward computes the logits of each block once more and turns them directly into the gradients of
      hidden states and matrix. The matrix's gradient is a sum over tokens, each multiplied by its gradient from the
      loss, so it cannot begin before the loss is known. That is four matrix products, not the dense three.

    Autocast applies to the matrix products, as in :func:`torch.nn.functional.linear`. Gradients of gradients raise
    ``RuntimeError``.

    Returns:
        logprobs [M] and entropy [M] (or None), nats, float32 or float64.

    Source:
        The running softmax: Milakov and Gimelshein 2018, https://arxiv.org/abs/1805.02867; blocks of the vocabulary:
        Wijmans et al. 2024, https://arxiv.org/abs/2411.09009.
    """
    device = hidden.device.type
    hidden, weight, bias = to_weight_dtype(hidden, head.weight), head.weight, head.bias
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    if dtype is not None and hidden.dtype != torch.float64:
        hidden, weight, bias = hidden.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
    keeps_slope = torch.is_grad_enabled() and hidden.requires_grad and not head.requires_grad and head.cap is None
    limit = min(max_logits, BLOCK_ON_CPU) if device == "cpu" else max_logits
    plan = _LogprobSettings(head.scale, head.cap, temperature, limit, with_entropy, keeps_slope and not with_entropy)
    logprobs, entropy = _HeadLogprobsFunction.apply(hidden, weight, bias, targets, plan)  # type: ignore[no-untyped-call]
    return logprobs, entropy


class _LogprobSettings(NamedTuple):
    """The settings of one forward and backward pass."""

    scale: float
    cap: float | None
    temperature: float
    max_logits: int
    with_entropy: bool
    keeps_slope: bool

    @property
    def logit_slope(self) -> float:
        """Derivative of a tempered logit with respect to the matrix product, without a cap."""
        return self.scale / self.temperature


class _LogitBlock(NamedTuple):
    """The logits of a few tokens for a range of the vocabulary."""

    columns: slice
    logits: Tensor  # [m, B], wide, tempered
    target: Tensor  # [m, 1], column of each target in this block, or any column
    has_target: Tensor  # [m] bool


class _HeadLogprobsFunction(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, plan: _LogprobSettings
    ) -> tuple[Tensor, Tensor | None]:
        passes = [
            _forward_logit_blocks(hidden[rows], weight, bias, targets[rows], plan)
            for rows in _token_block_slices(hidden)
        ]
        chosen, log_total, entropy, mean_weight = (torch.cat(parts) for parts in zip(*passes, strict=True))
        ctx.plan = plan
        ctx.set_materialize_grads(False)
        if plan.keeps_slope:
            ctx.save_for_backward((weight[targets] - mean_weight).mul_(plan.logit_slope).to(hidden.dtype))
        else:
            ctx.save_for_backward(hidden, weight, bias, targets, log_total, entropy)
        return chosen - log_total, entropy if plan.with_entropy else None

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_logprobs: Tensor | None, of_entropy: Tensor | None) -> tuple[Tensor | None, ...]:
        if of_logprobs is None and of_entropy is None:
            return None, None, None, None, None
        if ctx.plan.keeps_slope:
            (slopes,) = ctx.saved_tensors
            assert of_logprobs is not None
            return (slopes * of_logprobs[:, None]).to(slopes.dtype), None, None, None, None
        return *_backward_logit_blocks(ctx, of_logprobs, of_entropy), None, None


def _token_block_slices(hidden: Tensor) -> Iterator[slice]:
    for start in range(0, hidden.shape[0], _ROWS):
        yield slice(start, start + _ROWS)


def _logit_blocks(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, plan: _LogprobSettings
) -> Iterator[_LogitBlock]:
    """Yield the logits of all tokens, one range of the vocabulary after another."""
    shape = LinearHead(weight, bias, plan.scale, plan.cap).scale_and_cap_logits
    width = max(1, plan.max_logits // hidden.shape[0])
    with torch.autocast(hidden.device.type, enabled=False):
        for start in range(0, weight.shape[0], width):
            columns = slice(start, min(start + width, weight.shape[0]))
            logits = shape(linear(hidden, weight[columns], None if bias is None else bias[columns]))
            wide = logits.to(dtype_at_least_float32(logits))
            wide = wide if plan.temperature == 1.0 else wide.div_(plan.temperature)
            target = (targets - start).clamp(0, columns.stop - start - 1)
            yield _LogitBlock(columns, wide, target[:, None], (targets >= start) & (targets < columns.stop))


def _forward_logit_blocks(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, plan: _LogprobSettings
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return, for m tokens, target logits, log of the softmax's sum, entropy and mean row of the matrix."""
    wide = torch.promote_types(hidden.dtype, torch.float32)
    chosen, total, spread = hidden.new_zeros((3, hidden.shape[0]), dtype=wide).unbind()
    largest = torch.full_like(total, torch.finfo(wide).min)
    mean_weight = hidden.new_zeros((hidden.shape[0], hidden.shape[1] if plan.keeps_slope else 0), dtype=wide)
    for block in _logit_blocks(hidden, weight, bias, targets, plan):
        chosen = torch.where(block.has_target, block.logits.gather(1, block.target).squeeze(1), chosen)
        before, largest = largest, torch.maximum(largest, block.logits.amax(1))
        fall = before - largest  # what was summed up so far shrinks by e^fall
        ratios = block.logits.sub_(largest[:, None])
        if plan.with_entropy:
            # An excluded token (logit -inf) adds p log p = 0, not 0 * inf.
            logs = ratios.clamp(min=_MIN_LOG_RATIO)
            ratios = ratios.exp_()
            spread = fall.exp() * (spread + fall.clamp(min=_MIN_LOG_RATIO) * total) + logs.mul_(ratios).sum(1)
        else:
            ratios = ratios.exp_()
        total = fall.exp() * total + ratios.sum(1)
        if plan.keeps_slope:
            mean_weight.mul_(fall.exp()[:, None])
            _add_matrix_product(mean_weight, ratios.to(weight.dtype), weight[block.columns])
    if plan.keeps_slope:
        mean_weight.div_(total[:, None])
    return chosen, largest + total.log(), total.log() - spread / total, mean_weight


def _backward_logit_blocks(
    ctx: Any, of_logprobs: Tensor | None, of_entropy: Tensor | None
) -> tuple[Tensor | None, ...]:
    """Return the gradients of hidden states, matrix and bias, each ``None`` if it is not wanted."""
    hidden, weight, bias, targets, log_total, entropy = ctx.saved_tensors
    wants_hidden, wants_weight, wants_bias = ctx.needs_input_grad[:3]
    to_hidden = torch.zeros_like(hidden, dtype=log_total.dtype) if wants_hidden else None
    to_weight = torch.zeros_like(weight) if wants_weight else None
    to_bias = torch.zeros_like(bias) if wants_bias else None
    for rows in _token_block_slices(hidden):
        of_rows = [None if one is None else one[rows] for one in (of_logprobs, of_entropy)]
        for block in _logit_blocks(hidden[rows], weight, bias, targets[rows], ctx.plan):
            slopes = _raw_logit_gradients(block, ctx.plan, log_total[rows], entropy[rows], *of_rows).to(weight.dtype)
            if to_hidden is not None:
                _add_matrix_product(to_hidden[rows], slopes, weight[block.columns])
            if to_weight is not None:
                _add_matrix_product(to_weight[block.columns], slopes.T, hidden[rows])
            if to_bias is not None:
                to_bias[block.columns] += slopes.sum(0)
    return None if to_hidden is None else to_hidden.to(hidden.dtype), to_weight, to_bias


def _raw_logit_gradients(
    block: _LogitBlock,
    plan: _LogprobSettings,
    log_total: Tensor,
    entropy: Tensor,
    of_logprobs: Tensor | None,
    of_entropy: Tensor | None,
) -> Tensor:
    """Return gradients [m, B] of the matrix products, from the tokens' softmax and the loss's gradient for each token.

    d log p_y / dz_v = [v = y] - p_v,   d entropy / dz_v = -p_v (log p_v + entropy)
    """
    bend = None if plan.cap is None else 1 - (block.logits * (plan.temperature / plan.cap)).square_()
    logprobs = block.logits.sub_(log_total[:, None])
    if of_entropy is None:
        assert of_logprobs is not None
        slopes = logprobs.exp_().mul_(-of_logprobs[:, None] * plan.logit_slope)
    else:
        probabilities = logprobs.exp()
        pull = logprobs.clamp_(min=_MIN_LOG_RATIO).add_(entropy[:, None]).mul_(of_entropy[:, None])
        pull = pull if of_logprobs is None else pull.add_(of_logprobs[:, None])
        slopes = probabilities.mul_(pull).mul_(-plan.logit_slope)
    if of_logprobs is not None:
        chosen = torch.where(block.has_target, of_logprobs * plan.logit_slope, 0.0)
        slopes.scatter_add_(1, block.target, chosen[:, None])
    return slopes if bend is None else slopes.mul_(bend)


def _add_matrix_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Compute ``total += left @ right``, also if the total has a wider dtype than the product."""
    with torch.autocast(total.device.type, enabled=False):
        if total.dtype == left.dtype and not suits_onednn(left, right):
            total.addmm_(left, right)
        else:
            total += matmul(left, right)
