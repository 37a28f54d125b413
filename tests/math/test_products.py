"""Products of large float32 matrices by oneDNN: values, gradients, and what is left to torch."""

from __future__ import annotations

import copy
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from support.tiny_models import loaded
from torch import Tensor
from torch.nn import functional

from lit_rl.math import products

RULE = products.onednn_is_faster

pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this build of torch has no oneDNN"
)


@pytest.fixture(autouse=True)
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule asks for an AMD processor with AVX-512; the arithmetic is right on any."""
    monkeypatch.setattr(products, "onednn_is_faster", lambda: True)


def operands(*shape: int, wide: int = 640, high: int = 512) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(3)
    return torch.randn(*shape, wide), torch.randn(high, wide), torch.randn(high)


def test_values_and_gradients_are_those_of_float64_up_to_rounding() -> None:
    inputs, weight, bias = operands(3, 37)
    inputs = inputs.transpose(0, 1)  # a view whose rows do not follow each other
    slopes = torch.randn(512).expand(37, 3, 512)  # the gradient of a broadcast sum has strides of 0
    given = [one.clone().requires_grad_() for one in (inputs, weight, bias)]
    exact = [one.double().requires_grad_() for one in (inputs, weight, bias)]
    result = products.linear(*given)
    assert "_OneDNNLinearFunction" in type(result.grad_fn).__name__
    expected = functional.linear(*exact)
    torch.testing.assert_close(result.double(), expected, rtol=1e-4, atol=1e-3)
    result.backward(slopes)
    expected.backward(slopes.double())
    for mine, theirs in zip(given, exact, strict=True):
        torch.testing.assert_close(mine.grad.double(), theirs.grad, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(products.matmul(slopes[0], weight), slopes[0] @ weight, rtol=1e-4, atol=1e-3)


def test_a_bias_learns_alone() -> None:
    inputs, weight, bias = operands(5)
    products.linear(inputs, weight, bias.requires_grad_()).sum().backward()
    assert torch.equal(bias.grad, torch.full((512,), 5.0))


def test_what_does_not_suit_is_left_to_torch_bit_for_bit() -> None:
    inputs, weight, bias = operands(5)
    small = weight[:150]
    with patch.object(products, "_onednn_linear", side_effect=AssertionError):
        assert torch.equal(products.linear(inputs, small, bias[:150]), functional.linear(inputs, small, bias[:150]))
        thin = torch.randn(1024, 128)  # the output matrix of the embedded task's policy
        assert torch.equal(products.linear(inputs[:, :128], thin), functional.linear(inputs[:, :128], thin))
        for dtype in (torch.float64, torch.bfloat16):
            converted = [one.to(dtype) for one in (inputs, weight, bias)]
            assert torch.equal(products.linear(*converted), functional.linear(*converted))
        assert products.linear(inputs[:0], weight, bias).shape == (0, 512)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert products.linear(inputs, weight, bias).dtype == torch.bfloat16


def test_a_frozen_weight_keeps_no_inputs_for_the_backward_pass() -> None:
    inputs, weight, _ = operands(9)
    kept: list[tuple[int, ...]] = []

    def pack(one: Tensor) -> Tensor:
        kept.append(tuple(one.shape))
        return one

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda one: one):
        products.linear(inputs.requires_grad_(), weight)
    assert kept == [(512, 640)]


def test_a_model_with_large_layers_learns_and_is_copied_and_saved_as_before(
    tmp_path: Path, byte_tokenizer: str
) -> None:
    config = {"model_type": "llama", "hidden_size": 512, "intermediate_size": 640, "num_hidden_layers": 1}
    config |= {"num_attention_heads": 4, "num_key_value_heads": 2}
    policy = loaded(byte_tokenizer, config=config)
    fast = [name for name, layer in policy.model.named_modules() if isinstance(layer, products.FastLinear)]
    assert len(fast) == 8  # four of the attention, three of the block, and the output matrix
    with patch.object(products, "onednn_is_faster", lambda: False):
        plain = loaded(byte_tokenizer, config=config)
    assert not any(isinstance(layer, products.FastLinear) for layer in plain.model.modules())
    ids = torch.arange(40).view(2, 20)
    for ours, theirs in ((policy, plain), (copy.deepcopy(policy), plain)):
        results = []
        for one in (ours, theirs):
            one.model.zero_grad()
            with patch.object(products, "onednn_is_faster", lambda fast=(one is not plain): fast):
                logits = one.model(input_ids=ids).logits
                logits.log_softmax(-1)[:, 3:, 7].sum().backward()
            results.append([logits, *(weights.grad for weights in one.model.parameters())])
        for mine, expected in zip(*results, strict=True):
            torch.testing.assert_close(mine, expected, rtol=1e-3, atol=1e-4)
    assert type(copy.deepcopy(policy).model.lm_head) is type(policy.model.lm_head)
    policy.save_pretrained(tmp_path)
    again = loaded(model=str(tmp_path))
    assert all(map(torch.equal, again.model.state_dict().values(), policy.model.state_dict().values()))


@pytest.mark.parametrize(
    ("maker", "capability", "expected"),
    [("AuthenticAMD", "AVX512", True), ("AuthenticAMD", "AVX2", False), ("GenuineIntel", "AVX512", False)],
)
def test_the_rule_asks_for_the_processors_maker_and_its_instructions(
    maker: str, capability: str, expected: bool
) -> None:
    with (
        patch.object(Path, "read_text", lambda _: f"vendor_id\t: {maker}\n"),
        patch.object(torch.backends.cpu, "get_cpu_capability", lambda: capability),
    ):
        assert RULE.__wrapped__() is expected
