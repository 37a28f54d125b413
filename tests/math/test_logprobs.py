"""Log-probabilities: the shift by one; chunks and blocks of an output matrix against the dense computation."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from lit_rl.math.linear_head import LinearHead
from lit_rl.math.logprobs import chunked_logprobs_and_entropy, completion_logprobs, completion_positions


def dense(hidden: Tensor, weight: Tensor, targets: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """The same by the shortest road: all logits at once, straight from the definition of a softmax."""
    exponentials = ((hidden @ weight.T) / temperature).exp()
    probabilities = exponentials / exponentials.sum(-1, keepdim=True)
    chosen = probabilities[torch.arange(len(targets)), targets].log()
    return chosen, -(probabilities * probabilities.log()).sum(-1)


def tensors(num_tokens: int = 11) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(num_tokens, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(7, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    return hidden, weight, torch.randint(7, (num_tokens,), generator=generator)


@pytest.mark.parametrize("chunk_tokens", [1, 3, 11, 100])
@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_chunks_equal_the_dense_computation_with_gradients(chunk_tokens: int, temperature: float) -> None:
    """Items 35 and 37: logprobs and entropy at the sampler's temperature."""
    results = []
    for chunked in (True, False):
        hidden, weight, targets = tensors()
        if chunked:
            how = {"temperature": temperature, "chunk_tokens": chunk_tokens}
            found = chunked_logprobs_and_entropy(hidden, lambda h, w=weight: h @ w.T, targets, **how)
        else:
            found = dense(hidden, weight, targets, temperature)
        logprobs, entropy = found
        mix = torch.arange(11, dtype=torch.float64)
        (mix * logprobs + (mix - 5) * entropy).sum().backward()
        results.append((logprobs.detach(), entropy.detach(), hidden.grad, weight.grad))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_entropy_of_a_uniform_distribution_is_log_vocabulary() -> None:
    """Item 37: uniform logits give log V at every temperature."""
    for temperature in (0.3, 1.0, 5.0):
        _, entropy = chunked_logprobs_and_entropy(
            torch.full((2, 10), 3.0), lambda z: z, torch.tensor([0, 9]), temperature=temperature
        )
        torch.testing.assert_close(entropy, torch.full((2,), math.log(10)))


def test_the_entropy_gradient_is_right_at_fp64() -> None:
    """Item 37: gradient by finite differences, with a chunk border inside."""
    hidden, weight, targets = tensors(3)

    def both(h: Tensor, w: Tensor) -> Any:
        return chunked_logprobs_and_entropy(h, lambda s: s @ w.T, targets, chunk_tokens=2)

    assert torch.autograd.gradcheck(both, (hidden, weight))


def test_the_softmax_of_a_half_precision_model_runs_in_float32() -> None:
    """Item 36: bfloat16 logits, float32 log-probabilities."""
    logits = torch.tensor([[10.0, 0.0]], dtype=torch.bfloat16)
    logprobs, entropy = chunked_logprobs_and_entropy(logits, lambda z: z, torch.tensor([0]))
    assert logprobs.dtype == entropy.dtype == torch.float32
    # log p = -log(1 + e^-10) = -4.54e-5, which bfloat16 arithmetic would call 0
    assert math.isclose(logprobs.item(), -math.log1p(math.exp(-10)), rel_tol=1e-3)


def test_logits_are_not_changed_in_place() -> None:
    """Item 35: temperature is applied to a copy."""
    logits = torch.tensor([[1.0, 2.0]])
    kept = logits.clone()
    chunked_logprobs_and_entropy(logits, lambda z: z, torch.tensor([0]), temperature=0.5)
    assert torch.equal(logits, kept)


def test_greedy_temperature_is_refused_with_the_way_out() -> None:
    """Item 35: T = 0 has no distribution to score."""
    with pytest.raises(ValueError, match=r"temperature must be > 0, got 0.0; .* use 1.0"):
        chunked_logprobs_and_entropy(torch.zeros(1, 2), lambda z: z, torch.tensor([0]), temperature=0.0)


def test_never_more_than_one_chunk_of_logits_is_made() -> None:
    seen: list[int] = []
    hidden, weight, targets = tensors()

    def project(states: Tensor) -> Tensor:
        seen.append(states.shape[0])
        return states @ weight.T

    logprobs, entropy = chunked_logprobs_and_entropy(hidden, project, targets, chunk_tokens=4, with_entropy=False)
    assert entropy is None and seen == [4, 4, 3]
    logprobs.sum().backward()
    assert sorted(seen) == [3, 3, 4, 4, 4, 4]  # computed again in the backward, not kept
    seen.clear()
    chunked_logprobs_and_entropy(hidden, project, targets, chunk_tokens=11)[0].sum().backward()
    assert seen == [11]


def test_completion_token_t_is_predicted_by_the_state_before_it() -> None:
    """Item 7: a toy language model whose next token is always last token + 1 (mod 5), with known odds."""
    prompt, completion = torch.tensor([[0, 1]]), torch.tensor([[2, 3, 0]])
    sequence = torch.cat([prompt, completion], dim=1)
    hidden = torch.nn.functional.one_hot(sequence, 5).double()  # the state is the token just read
    successor = torch.roll(torch.eye(5, dtype=torch.float64), 1, dims=1)

    def project(states: Tensor) -> Tensor:
        return states @ successor * math.log(16)  # odds 16 : 1 : 1 : 1 : 1 for the successor

    mask = torch.ones(1, 3, dtype=torch.bool)
    logprobs, _ = completion_logprobs(hidden, project, completion, mask)
    # 1 -> 2 and 2 -> 3 are successors (16 of 20), 3 -> 0 is not (1 of 20)
    want = torch.tensor([[16 / 20, 16 / 20, 1 / 20]], dtype=torch.float64)
    torch.testing.assert_close(logprobs.exp(), want)


def test_positions_leave_out_the_state_after_the_last_token() -> None:
    """Item 7: P = 3, T = 2: states 2 and 3 predict tokens 3 and 4; state 4 predicts nothing we have."""
    positions = completion_positions(3, 2)
    assert list(range(5))[positions] == [2, 3]
    with pytest.raises(ValueError, match="at least one prompt token"):
        completion_positions(0, 2)


def test_masked_tokens_are_not_projected_and_get_zero() -> None:
    hidden = torch.randn(2, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    hidden[1, 2:] = math.nan  # states of padding
    ids, mask = torch.tensor([[0, 1], [2, 0]]), torch.tensor([[True, True], [True, False]])
    seen: list[int] = []

    def project(states: Tensor) -> Tensor:
        seen.append(states.shape[0])
        return states

    logprobs, entropy = completion_logprobs(hidden, project, ids, mask, with_entropy=True)
    assert seen == [3]
    want = torch.log_softmax(hidden[:, 1:3], -1).gather(-1, ids[..., None]).squeeze(-1)
    torch.testing.assert_close(logprobs[mask], want[mask])
    assert logprobs[1, 1] == 0 and entropy[1, 1] == 0


def test_an_empty_micro_batch_still_hangs_on_the_graph() -> None:
    """Item 6: no valid token at all; parameters of the projection get zero gradients, not None."""
    hidden = torch.randn(2, 3, 4, requires_grad=True)
    head = torch.nn.Linear(4, 5)
    mask = torch.zeros(2, 2, dtype=torch.bool)
    logprobs, _ = completion_logprobs(hidden, head, torch.zeros(2, 2, dtype=torch.long), mask)
    logprobs.sum().backward()
    assert logprobs.shape == (2, 2) and not hidden.grad.any() and not head.weight.grad.any()


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


def head_tensors(learns: bool, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = (TOKENS, SIZE), (VOCABULARY, SIZE), (VOCABULARY,)
    hidden, weight, bias = (torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes)
    return hidden.requires_grad_(), weight.requires_grad_(learns), bias.requires_grad_(learns)


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("entropy", [True, False])
def test_blocks_equal_all_logits_at_once_with_gradients(learns: bool, entropy: bool) -> None:
    for scale, cap, temperature, biased in itertools.product((1.0, 0.25), (None, 3.0), (1.0, 0.7), (True, False)):
        hidden, weight, bias = head_tensors(learns)
        head = LinearHead(weight, bias if biased else None, scale, cap)
        for chunk in (1, 4):  # 13 and 4 blocks
            blocks = scores(head, hidden, chunk, entropy, temperature)
            for ours, theirs in zip(blocks, scores(head, hidden, TOKENS, entropy, temperature), strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("entropy", [True, False])
def test_blocks_are_changed_in_place_and_inputs_are_not(entropy: bool, temperature: float) -> None:
    """Forward and backward, twice over the same tensors (item 35)."""
    inputs = head_tensors(learns=True)
    before = [tensor.detach().clone() for tensor in inputs]
    hidden, weight, bias = inputs
    head = LinearHead(weight, bias, 0.5, 3.0)
    first = scores(head, hidden, 4, entropy, temperature)
    assert all(torch.equal(now, then) for now, then in zip(inputs, before, strict=True))
    again = scores(head, hidden, 4, entropy, temperature)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


def test_rows_are_taken_in_ranges_whose_gradients_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lit_rl.math.linear_head._ROWS", 5)
    head = LinearHead(*head_tensors(True)[1:])
    hidden = head_tensors(True)[0]
    for ours, theirs in zip(scores(head, hidden, 2, True, 1.0), scores(head, hidden, TOKENS, True, 1.0), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


def test_autocast_rounds_the_products_as_a_linear_layer_does() -> None:
    hidden, weight, bias = head_tensors(True, torch.float32)
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
    hidden, weight, _ = head_tensors(True)
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
