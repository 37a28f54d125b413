"""Log-probabilities under an output matrix, block by block, against all logits at once."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from lit_rl.functional.linear_head import LinearHead
from lit_rl.functional.logprobs import chunked_logprobs_and_entropy

TOKENS, SIZE, VOCABULARY = 13, 5, 31


def scores(head: LinearHead, hidden: Tensor, chunk: int, entropy: bool, temperature: float) -> list[Tensor]:
    """Log-probabilities, entropy, and the gradients of an uneven sum of both."""
    targets = torch.randint(VOCABULARY, (TOKENS,), generator=torch.Generator().manual_seed(1))
    found = chunked_logprobs_and_entropy(
        hidden, head, targets, temperature=temperature, chunk_tokens=chunk, with_entropy=entropy
    )
    values = [value for value in found if value is not None]
    mix = torch.arange(TOKENS) - 4.0
    loss = sum(((mix + 3 * i) * value).sum() for i, value in enumerate(values))
    learns = [t for t in (hidden, head.weight, head.bias) if t is not None and t.requires_grad]
    return [value.detach() for value in values] + list(torch.autograd.grad(loss, learns))


def tensors(learns: bool, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = (TOKENS, SIZE), (VOCABULARY, SIZE), (VOCABULARY,)
    hidden, weight, bias = (torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes)
    return hidden.requires_grad_(), weight.requires_grad_(learns), bias.requires_grad_(learns)


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("entropy", [True, False])
def test_blocks_equal_all_logits_at_once_with_gradients(learns: bool, entropy: bool) -> None:
    for scale, cap, temperature, biased in itertools.product((1.0, 0.25), (None, 3.0), (1.0, 0.7), (True, False)):
        hidden, weight, bias = tensors(learns)
        head = LinearHead(weight, bias if biased else None, scale, cap)
        for chunk in (1, 4):  # 13 and 4 blocks
            blocks = scores(head, hidden, chunk, entropy, temperature)
            for ours, theirs in zip(blocks, scores(head, hidden, TOKENS, entropy, temperature), strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("entropy", [True, False])
def test_blocks_are_changed_in_place_and_inputs_are_not(entropy: bool, temperature: float) -> None:
    """Forward and backward, twice over the same tensors (item 35)."""
    inputs = tensors(learns=True)
    before = [tensor.detach().clone() for tensor in inputs]
    hidden, weight, bias = inputs
    head = LinearHead(weight, bias, 0.5, 3.0)
    first = scores(head, hidden, 4, entropy, temperature)
    assert all(torch.equal(now, then) for now, then in zip(inputs, before, strict=True))
    again = scores(head, hidden, 4, entropy, temperature)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


def test_rows_are_taken_in_ranges_whose_gradients_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lit_rl.functional.linear_head._ROWS", 5)
    head = LinearHead(*tensors(True)[1:])
    hidden = tensors(True)[0]
    for ours, theirs in zip(scores(head, hidden, 2, True, 1.0), scores(head, hidden, TOKENS, True, 1.0), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("learns", "entropy", "products"), [(False, False, 1), (True, False, 2), (False, True, 2)])
def test_logits_are_computed_again_only_where_they_must_be(
    monkeypatch: pytest.MonkeyPatch, learns: bool, entropy: bool, products: int
) -> None:
    """A frozen head without entropy needs no logits in the backward; no block has more entries than allowed."""
    made: list[int] = []

    def counting(*args: Tensor) -> Tensor:
        logits = torch.nn.functional.linear(*args)
        made.append(logits.numel())
        return logits

    monkeypatch.setattr("lit_rl.functional.linear_head.linear", counting)
    hidden, weight, bias = tensors(learns)
    scores(LinearHead(weight, bias), hidden, 4, entropy, 1.0)
    assert sum(made) == products * TOKENS * VOCABULARY and max(made) <= 4 * VOCABULARY


def test_a_frozen_head_keeps_one_row_of_hidden_size_for_each_token() -> None:
    hidden, weight, _ = tensors(False)
    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        chunked_logprobs_and_entropy(
            hidden, LinearHead(weight), torch.zeros(TOKENS, dtype=torch.long), chunk_tokens=2, with_entropy=False
        )
    assert kept == [TOKENS * SIZE]


def test_autocast_rounds_the_products_as_a_linear_layer_does() -> None:
    hidden, weight, bias = tensors(True, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        blocks = scores(LinearHead(weight, bias), hidden, 4, True, 0.7)
        dense = scores(LinearHead(weight, bias), hidden, TOKENS, True, 0.7)
    exact = scores(LinearHead(weight, bias), hidden, TOKENS, True, 0.7)
    assert all(tensor.dtype == torch.float32 for tensor in blocks)
    torch.testing.assert_close(blocks[0], dense[0], rtol=1e-5, atol=1e-5)
    assert (blocks[0] - exact[0]).abs().max() > 1e-3
    for ours, theirs in zip(blocks[2:], dense[2:], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0.02, atol=0.02 * float(theirs.abs().max()))


def test_an_excluded_token_leaves_everything_finite() -> None:
    hidden, weight, _ = tensors(True)
    bias = torch.zeros(VOCABULARY, dtype=torch.float64)
    bias[[0, 1, 7]] = -math.inf
    targets = torch.full((TOKENS,), 9)
    results = []
    for chunk in (1, TOKENS):  # blocks of two entries or so: one of them is excluded as a whole
        found = chunked_logprobs_and_entropy(hidden, LinearHead(weight, bias), targets, chunk_tokens=chunk)
        results.append(torch.autograd.grad(found[0].sum() + found[1].sum(), [hidden, weight]))
    for ours, theirs in zip(*results, strict=True):
        assert ours.isfinite().all()
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


def test_no_number_stays_no_number_and_changed_weights_are_noticed() -> None:
    hidden, weight, _ = tensors(True)
    targets = torch.zeros(TOKENS, dtype=torch.long)
    broken = hidden.detach().index_fill(0, torch.tensor([3]), math.nan)
    logprobs, _ = chunked_logprobs_and_entropy(broken, LinearHead(weight.detach()), targets, chunk_tokens=2)
    assert logprobs.isnan().nonzero().flatten().tolist() == [3]
    logprobs, _ = chunked_logprobs_and_entropy(hidden, LinearHead(weight), targets, chunk_tokens=2)
    with torch.no_grad():
        weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        logprobs.sum().backward()
