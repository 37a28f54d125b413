"""CPU seconds of an update in which a prompt is computed once, beside one in which every row brings its own.

    python benchmarks/update.py --output update.json

Both are a forward and a backward pass over the same 16 prompts x 8 completions (log-probabilities under a random Qwen2
of hidden size 128 and 4 layers, a weighted sum as the loss), turn by turn in one process. Prints the seconds of each
turn, the largest difference of log-probabilities and gradients, and the ratio of medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path

import torch

from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM
from lit_rl.types import Completions, Problem

PROMPTS, GROUP = 16, 8
SHAPES = ((50, 11), (160, 64), (300, 100))
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


def rows_of(policy: CausalLM, prompt: int, completion: int, equal: bool) -> Completions:
    """Random rows; unless all are equally long, prompts have half to all of the tokens and completions one to all."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randint(8, 1000, shape, generator=generator)

    def lengths(least: int, most: int, number: int) -> torch.Tensor:
        return torch.randint(most if equal else least, most + 1, (number, 1), generator=generator)

    number = PROMPTS * GROUP
    rows = policy.codec.as_completions([Problem("a", "a", TokenTarget())] * number, ["b"] * number)
    token_mask = torch.arange(completion) < lengths(1, completion, number)
    prompt_mask = torch.arange(prompt) >= prompt - lengths(prompt // 2, prompt, PROMPTS)
    return replace(
        rows,
        prompt_ids=draw(PROMPTS, prompt).repeat_interleave(GROUP, 0),
        prompt_mask=prompt_mask.repeat_interleave(GROUP, 0),
        completion_ids=draw(number, completion),
        completion_mask=token_mask,
        token_mask=token_mask,
        sampler_logprobs=torch.zeros(number, completion),
    )


def update(policy: CausalLM, rows: Completions, share: bool) -> tuple[float, torch.Tensor, torch.Tensor]:
    """CPU seconds, log-probabilities and gradient."""
    policy.shares_prompts = share
    policy.zero_grad()
    start = time.process_time()
    logprobs = policy.logprobs(rows)
    (logprobs * torch.linspace(-1, 1, logprobs.numel()).view_as(logprobs)).sum().backward()
    seconds = time.process_time() - start
    return seconds, logprobs.detach(), torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    tokenizer = str(Path(__file__).parents[1] / "lit_rl" / "data" / "basics_tokenizer")
    policy = CausalLM(config=MODEL, tokenizer=tokenizer, share_prompts=True)
    policy.load()
    policy.eval()
    table = []
    print(f"{'prompt + completion':<22}{'rows':>10}{'shared':>10}{'ratio':>8}{'log-probs':>12}{'gradient':>12}")
    for prompt, completion in SHAPES:
        for equal in (True, False):
            rows = rows_of(policy, prompt, completion, equal)
            turns = [(update(policy, rows, False), update(policy, rows, True)) for _ in range(given.rounds + 1)][1:]
            alone, shared = (statistics.median(turn[i][0] for turn in turns) for i in (0, 1))
            (_, logprobs, gradient), (_, others, other) = turns[0]
            name = f"{'' if equal else 'up to '}{prompt} + {completion}"
            gaps = float((logprobs - others).abs().max()), float((gradient - other).norm() / gradient.norm())
            table.append({"shape": name, "rows": alone, "shared": shared, "ratio": alone / shared, "gaps": gaps})
            print(f"{name:<22}{alone:>10.3f}{shared:>10.3f}{alone / shared:>8.2f}{gaps[0]:>12.1e}{gaps[1]:>12.1e}")
    if given.output:
        given.output.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
