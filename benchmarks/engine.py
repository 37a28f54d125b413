"""Completions a second of the default engine beside ``model.generate``, on the same requests, turn by turn in one run.

    python benchmarks/engine.py                     # generate, the engine, the engine on the family's own cache
    python benchmarks/engine.py --other CHECKOUT    # and the engine of another checkout of lit_rl, in its own process

A random Qwen2 (hidden 128, 4 layers, 1,024 words or ``--words``) samples 8 completions of each of 16 prompts of 120 to
200 tokens. A bias on the logit of EOS ends a completion with probability 1/48 at each token, and 128 tokens are the
most, so lengths are geometric with every way of sampling. Two more tables give tokens a second where the rows of a
rollout fall into groups of 4 to 64 and where 16 to 1,024 problems wait for 128 rows. Small groups have more prompts to
read, so seconds are also fitted with those of a token read times tokens read plus those of a token written times tokens
written. Prints medians of CPU seconds and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from lit_rl.engines import InProcess, Request
from lit_rl.models import CausalLM
from lit_rl.types import Sampling

ROWS, MEAN_TOKENS, MAX_TOKENS = 128, 48, 128
MODEL = {
    "model_type": "qwen2",
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}
Measured = tuple[float, int]
"""CPU seconds and sampled tokens."""


def random_policy(words: int = 1024) -> CausalLM:
    """A random model with one EOS, which comes with probability 1 / MEAN_TOKENS, and a vocabulary of any size."""
    tokenizer = str(Path(__file__).parents[1] / "lit_rl" / "data" / "basics" / "tokenizer")
    policy = CausalLM(config=MODEL | {"vocab_size": words}, tokenizer=tokenizer)
    policy.load()
    policy.eval()
    head = policy.model.lm_head
    head.bias = torch.nn.Parameter(torch.zeros(head.out_features))
    eos = policy.tokenizer.eos_token_id
    with torch.no_grad():
        share = policy.model(torch.arange(8, 200)[None]).logits[0].softmax(-1)[:, eos].mean().item()
        head.bias[eos] = math.log((1 - share) / share / (MEAN_TOKENS - 1))
    policy.model.generation_config.eos_token_id = eos
    policy.codec.eos_ids = frozenset({eos})
    return policy


def requests(num_prompts: int, group: int, turn: int) -> list[Request]:
    """Rows of random prompts, another stream for each turn."""
    generator = torch.Generator().manual_seed(num_prompts)
    lengths = torch.randint(120, 201, (num_prompts,), generator=generator).tolist()
    prompts = [tuple(torch.randint(8, 1000, (n,), generator=generator).tolist()) for n in lengths]
    rows = range(num_prompts * group)
    return [Request(i, prompts[i // group], (turn << 32) + i, MAX_TOKENS) for i in rows]


def sample(policy: CausalLM, rows: list[Request], max_rows: int | None = None) -> Measured:
    """In a session of the engine."""
    start, tokens = time.process_time(), 0
    with InProcess(max_rows).session(policy, Sampling()) as session:
        session.submit(rows)
        while session.num_unfinished:
            tokens += sum(len(done.ids) for done in session.step())
    return time.process_time() - start, tokens


def generate(policy: CausalLM, rows: list[Request]) -> Measured:
    """With transformers, all rows in one batch behind left pads."""
    start = time.process_time()
    width, pad = max(len(row.prompt_ids) for row in rows), policy.codec.pad_id
    ids = torch.tensor([(pad,) * (width - len(row.prompt_ids)) + row.prompt_ids for row in rows])
    mask = torch.tensor([(0,) * (width - len(row.prompt_ids)) + (1,) * len(row.prompt_ids) for row in rows])
    torch.manual_seed(rows[0].stream >> 32)
    out = policy.model.generate(
        ids, attention_mask=mask, do_sample=True, top_k=0, top_p=1.0, max_new_tokens=MAX_TOKENS, pad_token_id=pad
    )[:, width:]
    seconds = time.process_time() - start
    (eos,) = policy.codec.eos_ids
    ended = (out == eos).cumsum(-1)
    return seconds, int((ended == 0).sum() + (ended[:, -1] > 0).sum())


class Other:
    """The engine of another checkout, in a process of its own that samples when it is told to."""

    def __init__(self, checkout: Path, threads: int, words: int) -> None:
        command = [sys.executable, __file__, "--answer", "--threads", str(threads), "--words", str(words)]
        environment = dict(os.environ, PYTHONPATH=str(checkout.resolve()))
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)

    def __call__(self, num_prompts: int, group: int, turn: int) -> Measured:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(num_prompts, group, turn, file=self.process.stdin, flush=True)
        seconds, tokens = json.loads(self.process.stdout.readline())
        return seconds, tokens


def answer(policy: CausalLM) -> None:
    """Be the other process."""
    for line in sys.stdin:
        print(json.dumps(sample(policy, requests(*map(int, line.split())))), flush=True)


def prompt_tokens(num_prompts: int) -> int:
    """Tokens of the prompts of :func:`requests`, each read once."""
    return sum(len(request.prompt_ids) for request in requests(num_prompts, 1, 0))


def fit(table: list[dict[str, Any]]) -> tuple[float, float]:
    """Seconds of a token read and of a token written that come closest to the seconds of all rows of the table."""
    work = torch.tensor([[row["read"] * len(row["seconds"]), sum(row["tokens"])] for row in table], dtype=torch.double)
    seconds = torch.tensor([[sum(row["seconds"])] for row in table], dtype=torch.double)
    # Relative errors, since all rows count alike.
    of_read, of_written = torch.linalg.lstsq(work / seconds, torch.ones_like(seconds)).solution[:, 0].tolist()
    return of_read, of_written


def compare(ways: dict[str, Callable[[int], Measured]], rounds: int) -> list[dict[str, Any]]:
    """Alternate; the first round warms up."""
    taken: dict[str, list[Measured]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, way in ways.items():
            taken[name].append(way(turn))
    table = []
    for name, all_turns in taken.items():
        seconds, tokens = zip(*all_turns[1:], strict=True)
        table.append({"way": name, "seconds": seconds, "tokens": tokens, "median": statistics.median(seconds)})
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--words", type=int, default=1024, help="of the vocabulary; prompts use the first 1,000")
    parser.add_argument("--other", type=Path, help="root of another checkout of lit_rl")
    parser.add_argument("--groups", type=int, nargs="*", default=[4, 8, 16, 32, 64], help="group sizes of 128 rows")
    parser.add_argument("--pools", type=int, nargs="*", default=[16, 64, 256, 1024], help="problems that wait")
    parser.add_argument("--pool-group", type=int, default=8, help="rows of each problem that waits")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    policy = random_policy(given.words)
    if given.answer:
        return answer(policy)
    shape = 16, 8
    ways: dict[str, Callable[[int], Measured]] = {
        "generate": lambda turn: generate(policy, requests(*shape, turn)),
        "engine": lambda turn: sample(policy, requests(*shape, turn)),
    }
    if given.other is not None:
        other = Other(given.other, given.threads, given.words)
        ways["other checkout"] = lambda turn: other(*shape, turn)
    beside = compare(ways, given.rounds)
    ours = next(row["median"] for row in beside if row["way"] == "engine")
    print(f"load {os.getloadavg()[0]:.1f}, torch {torch.__version__}, {given.threads} thread(s)")
    print(f"{'16 prompts x 8':<18}{'CPU s':>8}{'completions/s':>16}{'x engine':>10}{'mean tokens':>13}")
    for row in beside:
        mean, length = row["median"], sum(row["tokens"]) / len(row["tokens"]) / ROWS
        print(f"{row['way']:<18}{mean:>8.3f}{ROWS / mean:>16.1f}{mean / ours:>10.2f}{length:>13.1f}")
    groups: dict[str, Callable[[int], Measured]] = {
        f"{size}": lambda turn, size=size: sample(policy, requests(ROWS // size, size, turn))  # type: ignore[misc]
        for size in given.groups
    }
    pools: dict[str, Callable[[int], Measured]] = {
        f"{size}": lambda turn, size=size: sample(policy, requests(size, given.pool_group, turn), ROWS)  # type: ignore[misc]
        for size in given.pools
    }
    tables = {"beside": beside, "groups": compare(groups, given.rounds), "pools": compare(pools, 1) if pools else []}
    for title in ("groups", "pools"):
        for row in tables[title]:
            size = int(row["way"])
            row["read"] = prompt_tokens(ROWS // size if title == "groups" else size)
        if not tables[title]:
            continue
        of_read, of_written = fit(tables[title]) if len(tables[title]) > 1 else (math.nan, math.nan)
        print(f"{title:<18}{'CPU s':>8}{'tokens/s':>16}{'with read':>12}{'of the fit':>12}")
        for row in tables[title]:
            seconds, written, turns = sum(row["seconds"]), sum(row["tokens"]), len(row["seconds"])
            fitted = of_read * row["read"] * turns + of_written * written
            rates = f"{written / seconds:>16.0f}{(written + row['read'] * turns) / seconds:>12.0f}"
            print(f"{row['way']:<18}{row['median']:>8.3f}{rates}{seconds / fitted:>12.2f}")
        print(f"fit: {1e6 * of_read:.0f} microseconds a token read, {1e6 * of_written:.0f} a token written")
    if given.output:
        given.output.write_text(json.dumps(tables, indent=1))


if __name__ == "__main__":
    main()
