"""CPU seconds of an update in which a prompt is computed once, beside one in which every row brings its own.

    python benchmarks/update.py --output update.json
    python benchmarks/update.py --prompts 4 --million 33

All are a forward and a backward pass over the same prompts x 8 completions (log-probabilities under a random Qwen2 of
one million parameters, hidden size 128 and 4 layers, or of 33 million, hidden size 512 and 8 layers; a weighted sum as
the loss), turn by turn in one process: whole rows; shared prompts with all completions in one pass; as training does
it, with completions of similar length in a pass; and the same with a pass only where it saves 256 columns of padding.
Prints the medians, the ratio of whole rows to training's way, and their largest difference of log-probabilities and
gradients.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from dataclasses import replace
from pathlib import Path

import torch

from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM, padding
from lit_rl.types import Completions, Problem

GROUP = 8
SHAPES = ((50, 11), (160, 64), (300, 100))
KINDS = ("", "up to ", "geometric ")
WAYS = {
    "rows": (False, 0),
    "shared": (True, 1 << 40),
    "divided": (True, padding._COLUMNS_PER_PASS),
    "at 256": (True, 256),
}
MODEL = {
    "model_type": "qwen2",
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
    "vocab_size": 1024,
}
SIZES: dict[int, dict[str, int]] = {
    1: {},
    33: {
        "hidden_size": 512,
        "intermediate_size": 1536,
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "vocab_size": 12_000,
    },
}


def rows_of(policy: CausalLM, prompts: int, prompt: int, completion: int, kind: str) -> Completions:
    """Random rows, equally long or not.

    ``up to``: prompts of half to all of the tokens, completions of one to all. ``geometric``: the same prompts, and
    completions that end with the same chance at each token, in the mean after three eighths of the most.
    """
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randint(8, 1000, shape, generator=generator)

    def lengths(least: int, most: int, number: int) -> torch.Tensor:
        return torch.randint(least if kind else most, most + 1, (number, 1), generator=generator)

    number = prompts * GROUP
    ends = lengths(1, completion, number)
    if kind == "geometric ":
        drawn = torch.rand(number, 1, generator=generator).log() / math.log(1 - 8 / (3 * completion))
        ends = drawn.ceil().clamp(1, completion)
    rows = policy.codec.as_completions([Problem("a", "a", TokenTarget())] * number, ["b"] * number)
    token_mask = torch.arange(completion) < ends
    prompt_mask = torch.arange(prompt) >= prompt - lengths(prompt // 2, prompt, prompts)
    return replace(
        rows,
        prompt_ids=draw(prompts, prompt).repeat_interleave(GROUP, 0),
        prompt_mask=prompt_mask.repeat_interleave(GROUP, 0),
        completion_ids=draw(number, completion),
        completion_mask=token_mask,
        token_mask=token_mask,
        sampler_logprobs=torch.zeros(number, completion),
    )


def update(policy: CausalLM, rows: Completions, way: str) -> tuple[float, torch.Tensor, torch.Tensor]:
    """CPU seconds, log-probabilities and gradient."""
    policy.shares_prompts, padding._COLUMNS_PER_PASS = WAYS[way]
    policy.zero_grad()
    start = time.process_time()
    logprobs = policy.logprobs(rows)
    (logprobs * torch.linspace(-1, 1, logprobs.numel()).view_as(logprobs)).sum().backward()
    seconds = time.process_time() - start
    return seconds, logprobs.detach(), torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=16, help="each with 8 completions")
    parser.add_argument("--million", type=int, choices=sorted(SIZES), default=1, help="parameters")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    tokenizer = str(Path(__file__).parents[1] / "lit_rl" / "data" / "basics" / "tokenizer")
    policy = CausalLM(config=MODEL | SIZES[given.million], tokenizer=tokenizer)
    policy.load()
    policy.eval()
    table = []
    print(f"{'prompt + completion':<24}" + "".join(f"{name:>10}" for name in (*WAYS, "ratio", "log-probs", "gradient")))
    for prompt, completion in SHAPES:
        for kind in KINDS:
            rows = rows_of(policy, given.prompts, prompt, completion, kind)
            turns = [{way: update(policy, rows, way) for way in WAYS} for _ in range(given.rounds + 1)]
            seconds = {way: statistics.median(turn[way][0] for turn in turns[1:]) for way in WAYS}
            (_, logprobs, gradient), (_, others, other) = turns[0]["rows"], turns[0]["divided"]
            gaps = [float((logprobs - others).abs().max()), float((gradient - other).norm() / gradient.norm())]
            table.append({"shape": f"{kind}{prompt} + {completion}", "gaps": gaps, **seconds})
            ratio = seconds["rows"] / seconds["divided"]
            print(f"{table[-1]['shape']:<24}" + "".join(f"{seconds[way]:>10.3f}" for way in WAYS), end="")
            print(f"{ratio:>10.2f}{gaps[0]:>10.1e}{gaps[1]:>10.1e}", flush=True)
    if given.output:
        given.output.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
