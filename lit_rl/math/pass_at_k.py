"""The unbiased estimate of pass@k."""

from __future__ import annotations

from typing import overload

import torch
from torch import Tensor


@overload
def pass_at_k(num_samples: int, num_correct: int, k: int) -> float: ...
@overload
def pass_at_k(num_samples: Tensor, num_correct: Tensor, k: int) -> Tensor: ...
def pass_at_k(num_samples: int | Tensor, num_correct: int | Tensor, k: int) -> float | Tensor:
    """Estimate the probability that at least one of k samples passes, from n samples of which c passed.

        pass@k = 1 - C(n - c, k) / C(n, k) = 1 - prod_{j < k} (n - c - j) / (n - j)

    The estimate is unbiased, unlike 1 - (1 - c/n)^k and unlike "any of the first k". The product needs no factorials,
    so n = 10_000 takes no longer than n = 10.

    Args:
        num_samples: n, one number, or [Q] int, one per problem.
        num_correct: c, like ``num_samples``, 0 <= c <= n.
        k: number of samples that are looked at, 1 <= k <= n.

    Returns:
        A float, or [Q] float64, each in [0, 1]. Average over problems for the benchmark's number.

    Source:
        Chen et al. 2021, eq. 1, https://arxiv.org/abs/2107.03374

    Example:
        >>> pass_at_k(10, 1, 5)
        0.5
        >>> pass_at_k(torch.tensor([4, 4]), torch.tensor([0, 2]), 2)  # 1 - C(2, 2) / C(4, 2) = 5/6
        tensor([0.0000, 0.8333], dtype=torch.float64)
    """
    samples, correct = torch.as_tensor(num_samples), torch.as_tensor(num_correct)
    if bool(((correct < 0) | (correct > samples) | (samples < k)).any()) or k < 1:
        raise ValueError(
            f"pass@{k} needs 1 <= k <= samples and 0 <= correct <= samples, "
            f"got correct={correct.tolist()}, samples={samples.tolist()}"
        )
    # In double, and exact at both ends: c = 0 gives 0, and n - c < k meets a factor 0 and gives 1.
    misses = torch.ones(samples.shape, dtype=torch.float64)
    wrong, total = (samples - correct).cpu().double(), samples.cpu().double()
    for drawn in range(k):
        misses = misses * (wrong - drawn) / (total - drawn)
    passes = 1.0 - misses
    return passes.to(samples.device) if isinstance(num_samples, Tensor) else float(passes)
