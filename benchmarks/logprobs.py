"""Time and memory of log-probabilities with gradients: all logits at once, chunks recomputed in the backward, blocks.

    python benchmarks/logprobs.py --threads 1

Each way runs in a process of its own, in turn, on the same hidden states, matrix and gradients of the loss. Prints
CPU seconds of forward and backward, their ratio to the dense way, the peak of resident memory above what was there
before, gradients of hidden states and matrix left out (every way returns them), and the largest difference
of a gradient from the dense one, as a share of the largest gradient. Writes JSON. The dense way needs
three times tokens x vocabulary x 4 bytes: 7.5 GB as it is called above.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

WAYS = ("dense", "chunks", "blocks")


def run(way: str, spec: dict[str, Any], folder: Path) -> dict[str, float]:
    """One forward and backward, measured."""
    from lit_rl.functional.linear_head import LinearHead
    from lit_rl.functional.logprobs import chunked_logprobs_and_entropy, tokens_per_chunk

    torch.set_num_threads(spec["threads"])
    generator = torch.Generator().manual_seed(0)
    tokens, vocabulary, size = spec["tokens"], spec["vocabulary"], spec["hidden"]
    hidden = torch.randn(tokens, size, generator=generator).requires_grad_()
    weight = torch.randn(vocabulary, size, generator=generator).mul_(size**-0.5)
    weight.requires_grad_(not spec["frozen"])
    targets = torch.randint(vocabulary, (tokens,), generator=generator)
    upstream = torch.randn(tokens, generator=generator)
    inputs = [hidden] if spec["frozen"] else [hidden, weight]

    def work(hidden: Tensor, targets: Tensor, upstream: Tensor) -> tuple[Tensor, ...]:
        if way == "dense":
            logprobs = torch.log_softmax(hidden @ weight.T, -1).gather(-1, targets[:, None]).squeeze(-1)
        else:
            head = LinearHead(weight)
            project = head if way == "blocks" else lambda states: head(states)
            chunk = tokens_per_chunk(vocabulary)
            logprobs = chunked_logprobs_and_entropy(hidden, project, targets, chunk_tokens=chunk, with_entropy=False)[0]
        return torch.autograd.grad(logprobs, inputs, upstream)

    torch.autograd.grad((hidden[:64] @ hidden[:64].T).sum(), hidden)  # threads and libraries are up
    before, clock = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    gradients = work(hidden, targets, upstream)
    seconds = time.process_time() - clock
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    own = sum(gradient.numel() * gradient.element_size() for gradient in gradients)
    return {"seconds": seconds, "mib": peak / 1024 - own / 2**20, "gap": gap(way, gradients, folder)}


def gap(way: str, gradients: tuple[Tensor, ...], folder: Path) -> float:
    """The largest difference from the dense gradients, which the dense way saves to a file for the others."""
    file = folder / "dense.pt"
    if way == "dense":
        torch.save(gradients, file)
        return 0.0
    pairs = zip(gradients, torch.load(file, mmap=True), strict=True)
    return max(float((ours - theirs).abs().max() / theirs.abs().max()) for ours, theirs in pairs)


def main() -> None:
    """Run the ways in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--vocabulary", type=int, default=151_936)
    parser.add_argument("--hidden", type=int, default=896)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--frozen", action="store_true", help="no gradient for the matrix")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="dense first")
    parser.add_argument("--json", type=Path, help="file to write")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        print(json.dumps(run(options.way, vars(options), options.folder)))
        return
    found: dict[str, list[dict[str, float]]] = {way: [] for way in options.ways}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for way, results in found.items():
                command = [sys.executable, *sys.argv, "--way", way, "--folder", folder]
                answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
                results.append(json.loads(answer.splitlines()[-1]))
    report(found, options.json)


def report(found: dict[str, list[dict[str, float]]], file: Path | None) -> None:
    """Print medians of the rounds and write them."""
    rows = {
        way: {name: statistics.median(result[name] for result in results) for name in results[0]}
        for way, results in found.items()
    }
    dense = rows["dense"]
    print(f"{'':8}{'CPU s':>10}{'x dense':>10}{'MiB':>10}{'of dense':>10}{'gap':>12}")
    for way, row in rows.items():
        time_ratio, share = row["seconds"] / dense["seconds"], row["mib"] / dense["mib"]
        print(
            f"{way:8}{row['seconds']:10.2f}{time_ratio:10.2f}{row['mib']:10.0f}{share:10.3f}{row['gap']:12.1e}",
            flush=True,
        )
    if file is not None:
        file.write_text(json.dumps({"torch": torch.__version__, "median": rows, "rounds": found}, indent=1))


if __name__ == "__main__":
    main()
