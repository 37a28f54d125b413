"""Figures of docs/correctness.md: gradients of the KL's estimators, and the first ratio of a rollout.

    python benchmarks/gradients.py                                # by enumeration, a second
    python benchmarks/gradients.py --model MODEL                  # the first ratio too

KL: policies over five words at several distances from a reference, 200 directions each. The expected gradient of each
estimator, in the reward and in the loss, on-policy, is compared with the true gradient of KL(policy || reference): the
median ratio of the norms, and the range of the cosine.

First ratio: 32 rows of the embedded task, sampled and read by a model (hub id or folder) before any update. Old
log-probabilities are read in micro-batches of all rows, and in those of the four minibatches that learn.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from functools import partial

import torch
from on_gpu.measuring import Row, as_markdown
from on_gpu.ratio import first_ratios
from torch import Tensor

from lit_rl import Basics, CausalLM, Sampling, Sandbox
from lit_rl.engines import InProcess
from lit_rl.math import kl_estimate, kl_penalised_rewards
from lit_rl.models.sampling import RandomKey
from lit_rl.rollout import sample_rows


def of_logits(logits: Tensor, objective: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the gradient of a function of the log-probabilities [V]."""
    leaf = logits.clone().requires_grad_()
    return torch.autograd.grad(objective(leaf.log_softmax(0)), leaf)[0]


def estimators(distance: float, seed: int) -> dict[str, tuple[float, float]]:
    """Return the ratio of norms and the cosine of each estimator in each place, against the KL's own gradient."""
    generator = torch.Generator().manual_seed(seed)
    reference = torch.randn(5, generator=generator, dtype=torch.float64).log_softmax(0)
    logits = reference + distance * torch.randn(5, generator=generator, dtype=torch.float64)
    policy = logits.log_softmax(0)
    sampled = policy.exp()  # of the samples: constants
    true = of_logits(logits, lambda logprobs: (logprobs.exp() * (logprobs - reference)).sum())
    column, mask = policy[:, None], torch.ones(5, 1, dtype=torch.bool)
    off = {
        "k1": kl_penalised_rewards(torch.zeros_like(column), column, reference[:, None], mask, coef=1.0)[:, 0],
        "k2": -kl_estimate(policy, reference, kind="k2"),
        "k3": -kl_estimate(policy, reference, kind="k3"),
    }
    found = {
        f"{kind} in the reward": of_logits(logits, lambda logprobs, r=rewards: -(sampled * r * logprobs).sum())
        for kind, rewards in off.items()
    }
    for kind in ("k1", "k2", "k3", "k3_weighted"):
        estimate = partial(kl_estimate, ref_logprobs=reference, kind=kind, old_logprobs=policy)
        found[f"{kind} in the loss"] = of_logits(logits, lambda logprobs, e=estimate: (sampled * e(logprobs)).sum())
    cosine = partial(torch.nn.functional.cosine_similarity, dim=0, eps=1e-12)
    return {name: (float(one.norm() / true.norm()), float(cosine(one, true))) for name, one in found.items()}


def over_directions(distance: float) -> dict[str, str]:
    """Return the median and range over many directions."""
    each = [estimators(distance, seed) for seed in range(200)]
    cells = {}
    for name in each[0]:
        norms, cosines = zip(*(one[name] for one in each), strict=True)
        cells[name] = f"{statistics.median(norms):.3f} ({min(cosines):+.2f} to {max(cosines):+.2f})"
    return cells


def ratios_of(model: str, dtype: str) -> list[Row]:
    """Measure the first ratio before any update, in one dtype."""
    policy = CausalLM(model, dtype=dtype)
    policy.load()
    policy.eval()
    problems = Basics(form="instruct", num_train_problems=64).problems("train")[:4]
    with torch.no_grad(), Sandbox(num_workers=1) as sandbox:
        sampling = Sampling(num_samples=8, max_tokens=64)
        rows = sample_rows(policy, InProcess(), sandbox, problems, sampling, RandomKey(0, "ratio", 0)).completions()
    return [{"dtype": dtype} | row for row in first_ratios(policy, rows, 16, 16)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    given = parser.parse_args()
    columns = {f"distance {distance:g}": over_directions(distance) for distance in (0.1, 0.3, 1.0, 3.0)}
    names = list(next(iter(columns.values())))
    print(as_markdown([{"estimator": name} | {head: cells[name] for head, cells in columns.items()} for name in names]))
    if given.model:
        print("\n" + as_markdown([row for dtype in ("bfloat16", "float32") for row in ratios_of(given.model, dtype)]))


if __name__ == "__main__":
    main()
