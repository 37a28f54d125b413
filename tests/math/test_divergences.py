"""Divergences: their formulas, their gradients through the chunked head, and where minimising them leads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from lit_rl.math.divergences import JSD, SampledReverseKL
from lit_rl.math.linear_head import LinearHead
from lit_rl.math.logprobs import logprobs_and_divergences

BETAS = [1.0, 0.0, 0.5, 0.2]
OPTIONS: list[dict[str, Any]] = [{}, {"clip": 0.3}, {"temperature": 2.0}]


def softmax(logits: Sequence[float], temperature: float) -> list[float]:
    weights = [math.exp(logit / temperature) for logit in logits]
    return [weight / sum(weights) for weight in weights]


def by_hand(kind: JSD, policy: Sequence[float], teacher: Sequence[float], temperature: float) -> float:
    """The divergence in plain Python: Q of the policy, P of the teacher."""
    q, p = (softmax(logits, kind.temperature or temperature) for logits in (policy, teacher))

    def kl(first: Sequence[float], second: Sequence[float]) -> float:
        return sum(a * math.log(a / b) for a, b in zip(first, second, strict=True))

    if kind.beta in (0, 1):
        value = kl(q, p) if kind.beta else kl(p, q)
    else:
        mean = [kind.beta * a + (1 - kind.beta) * b for a, b in zip(p, q, strict=True)]
        value = kind.beta * kl(p, mean) + (1 - kind.beta) * kl(q, mean)
    return value if kind.clip is None else min(value, kind.clip)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_divergence_is_its_formula(beta: float, options: dict[str, Any]) -> None:
    """The policy's vocabulary is padded by one id that the teacher does not have; it is left out."""
    kind = JSD(beta, **options)
    policy = [[1.0, -0.5, 0.3, 2.0], [0.1, 0.2, -1.0, 0.0]]
    teacher = [[-1.0, 0.5, 1.5, 0.2], [3.0, -2.0, 0.4, 0.6]]
    expected = [by_hand(kind, ours, theirs, 0.8) for ours, theirs in zip(policy, teacher, strict=True)]
    padded = torch.tensor([[*row, 5.0] for row in policy], dtype=torch.float64)
    found = kind(padded, torch.tensor(teacher, dtype=torch.float64), 0.8)
    assert found.tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("beta", BETAS)
def test_excluded_tokens_and_equal_distributions_stay_finite(beta: float) -> None:
    """A logit of minus infinity, in the policy and in the teacher, and a teacher that is sure."""
    rows = torch.tensor([[0.0, -torch.inf, 1.0], [0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [0.0, 1.0, 60.0]])
    teacher = torch.tensor([[0.0, 1.0, 2.0], [0.0, -torch.inf, 1.0], [0.0, 1.0, 2.0], [60.0, 1.0, 0.0]])
    policy = rows.clone().requires_grad_()
    found = JSD(beta)(policy, teacher)
    found.sum().backward()
    assert found.isfinite().all() and policy.grad.isfinite().all()
    assert abs(found[2].item()) < 1e-6 and (found[[0, 1, 3]] > 1e-3).all()


@pytest.mark.parametrize(
    ("beta", "clip", "head"),
    [(1.0, None, "matrix"), (0.0, 0.4, "matrix"), (0.5, None, "function"), (0.2, 0.4, "matrix")],
)
def test_gradients_through_the_chunked_head_are_the_dense_ones(beta: float, clip: float | None, head: str) -> None:
    """Item 77: of hidden states and output matrix, in chunks of two, in one, and written out; masks with holes."""
    generator = torch.Generator().manual_seed(3)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    kind, hidden, weight, teacher = JSD(beta, clip=clip), draw(2, 6, 5), draw(9, 5), draw(5, 9)
    ids = torch.randint(0, 9, (2, 4), generator=generator)
    mask = torch.tensor([[True, False, True, True], [True, True, False, False]])
    slopes = torch.tensor([0.3, -1.0, 0.7, 1.9, 0.4], dtype=torch.float64)
    found = []
    for chunk in (2, 5, None):
        states, matrix = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
        if chunk is None:
            logits = (states[:, 1:5] @ matrix.T)[mask]
            logprobs = (logits / 0.7).log_softmax(-1)
            values, chosen = kind(logits, teacher, 0.7), logprobs.gather(1, ids[mask][:, None])[:, 0]
            entropy = -(logprobs.exp() * logprobs).sum(-1)
        else:
            project = LinearHead(matrix) if head == "matrix" else lambda z, matrix=matrix: z @ matrix.T
            parts = logprobs_and_divergences(
                states, project, ids, mask, lambda rows: teacher[rows], kind,
                temperature=0.7, chunk_tokens=chunk, with_entropy=True,
            )  # fmt: skip
            assert all((part is not None) and not part[~mask].any() for part in parts)
            chosen, entropy, values = (part[mask] for part in parts if part is not None)
        ((values + 0.5 * chosen - 0.1 * entropy) @ slopes).backward()
        found.append(torch.cat([values.detach(), states.grad.flatten(), matrix.grad.flatten()]))
    assert (found[0] - found[2]).abs().max() < 1e-10 > (found[1] - found[2]).abs().max()
    assert found[2].abs().max() > 0.1


LENGTH, WORDS = 2, 4


class Tabular:
    """A policy of a few sequences, one row of logits for each prefix; everything can be enumerated."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        prefixes = [prefix for length in range(LENGTH) for prefix in product(range(WORDS), repeat=length)]
        self.rows = {prefix: row for row, prefix in enumerate(prefixes)}
        self.logits = torch.randn(len(prefixes), WORDS, generator=generator, dtype=torch.float64).requires_grad_()

    def logprob(self, tokens: Sequence[int]) -> Tensor:
        logprobs = self.logits.log_softmax(-1)
        steps = [logprobs[self.rows[tuple(tokens[:t])], token] for t, token in enumerate(tokens)]
        return torch.stack([torch.zeros((), dtype=torch.float64), *steps]).sum()

    def reached(self) -> Tensor:
        """[prefixes] probability that the policy's own sampling comes to a prefix, as a constant."""
        return torch.stack([self.logprob(prefix) for prefix in self.rows]).exp().detach()


def test_the_sampled_gap_as_an_advantage_has_the_gradient_of_the_reverse_kl() -> None:
    """Enumerated: sum over prefixes and tokens of probability times advantage times the gradient of log Q."""
    policy, teacher = Tabular(2), Tabular(3)
    ours, theirs = policy.logits.log_softmax(-1), teacher.logits.detach().log_softmax(-1)
    advantages = SampledReverseKL().advantages(ours, theirs)
    surrogate = -(policy.reached() @ (ours.detach().exp() * advantages * ours).sum(-1))
    (sampled,) = torch.autograd.grad(surrogate, policy.logits, retain_graph=True)
    (whole,) = torch.autograd.grad(policy.reached() @ JSD(1.0)(policy.logits, teacher.logits), policy.logits)
    assert (sampled - whole).abs().max() < 1e-12 < 1e-2 < whole.abs().max()
