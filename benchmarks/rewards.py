"""Time of scoring 256 completions by format, syntax, lint and length, as a training step does it.

    python benchmarks/rewards.py [--completions 256] [--tokenizer FOLDER] [--output rewards.json]

The programs are made here: functions of 10 to 60 lines, a quarter with a syntax error, some with findings, some
with signs beyond ASCII, a few without a program. With a tokenizer its tokens are placed, else one token stands
for three bytes. Prints a table and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from lit_rl.execution.checks import AssertTests
from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.execution.program import extract_program
from lit_rl.rewards import Composite, FormatReward, LengthPenalty, LintReward, RewardTerm, SyntaxReward
from lit_rl.rewards.python_prefix import first_rejected
from lit_rl.types import Completions, Judgement, Problem, Program, StopReason

LINES = [
    "total = total + values[i] * 2",
    "if total > limit: total -= limit",
    "name = 'día ' + str(total)  # 文",
    "result.append((i, total, name))",
    "import os",
    "unused = undefined_name == None",
    "pairs = {key: value for key, value in zip(names, values)}",
]
FAULTS = ["total = (total + 1", "for i in range(3)", "return x y", "print 'x'"]


def completion(rng: random.Random) -> str:
    """One made-up answer."""
    if rng.random() < 0.05:
        return "I am not sure how to do this, sorry."
    lines = [rng.choice(LINES) for _ in range(rng.randint(10, 60))]
    if rng.random() < 0.25:
        lines.insert(rng.randrange(len(lines)), rng.choice(FAULTS))
    body = "\n".join(f"        {line}" for line in lines)
    head = f"def solve_{rng.randrange(10**6)}(values, limit):\n    total, result = 0, []\n"
    return f"Here it is:\n```python\n{head}    for i in range(len(values)):\n{body}\n    return result\n```\nDone."


def placed(text: str, tokenizer: Any) -> tuple[tuple[int, int], ...]:
    """Byte spans of a completion's tokens, EOS last."""
    end = len(text.encode())
    if tokenizer is None:
        return (*((i, min(i + 3, end)) for i in range(0, end, 3)), (end, end))
    from lit_rl.models.codecs.token_bytes import token_byte_spans

    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return token_byte_spans(tokenizer, [*ids, tokenizer.eos_token_id])[1]


def rows(number: int, tokenizer: Any) -> tuple[Completions, list[Judgement]]:
    """A batch of completions, judged."""
    rng = random.Random(0)
    texts = [completion(rng) for _ in range(number)]
    spans = [placed(text, tokenizer) for text in texts]
    width = max(map(len, spans))
    task = Problem("p", "Write it.", AssertTests("assert True"))
    judgements = []
    for text in texts:
        found = extract_program(text)
        program = found and Program(found.source, found.start, found.end, 0, found.fenced)
        judgements.append(Judgement(task, program, Outcome(Verdict.PASSED)))
    ids = torch.zeros(number, width, dtype=torch.long)
    completions = Completions.single_turn(
        problems=(task,) * number,
        prompt_ids=ids[:, :1],
        prompt_mask=ids[:, :1] == 0,
        completion_ids=ids,
        completion_mask=torch.tensor([[t < len(row) for t in range(width)] for row in spans]),
        sampler_logprobs=ids.float(),
        stop_reasons=(StopReason.EOS,) * number,
        texts=tuple(texts),
        token_bytes=tuple(spans),
    )
    return completions, judgements


def seconds(call: Callable[[], object], repeats: int) -> list[float]:
    """Wall time of each of several calls, after an uncounted one, with nothing cached."""
    call()
    times = []
    for _ in range(repeats):
        first_rejected.cache_clear()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def main() -> None:
    """Measure each term alone and all together."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--completions", type=int, default=256)
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--tokenizer", help="folder of a tokenizer")
    arguments.add_argument("--output", type=Path, help="where to write the figures as JSON")
    options = arguments.parse_args()
    tokenizer = None
    if options.tokenizer:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(options.tokenizer)
    completions, judgements = rows(options.completions, tokenizer)
    terms: list[RewardTerm] = [FormatReward(), SyntaxReward(), LintReward(), LengthPenalty()]
    table = {
        term.name: seconds(lambda t=term: Composite([t])(completions, judgements), options.repeats) for term in terms
    }
    started = [0]
    real = subprocess.Popen.__init__

    def counting(self: Any, *args: Any, **more: Any) -> None:
        started[0] += 1
        real(self, *args, **more)

    subprocess.Popen.__init__ = counting  # type: ignore[method-assign]
    together = Composite(terms)
    table["together"] = seconds(partial(together, completions, judgements), options.repeats)
    starts = started[0] / (options.repeats + 1)
    output = together(completions, judgements)
    tokens = completions.lengths.float().mean().item()
    print(f"{len(completions)} completions, {tokens:.0f} tokens on average, {os.cpu_count()} cores")
    print(f"{'term':10} {'median s':>9} {'slowest s':>9} {'mean value':>11}")
    means = {name: values.nanmean().item() for name, values in output.term_values.items()}
    for name, times in table.items():
        mean = means.get(name, output.rewards.mean().item())
        print(f"{name:10} {statistics.median(times):9.3f} {max(times):9.3f} {mean:11.3f}")
    print(f"processes started per batch: {starts:g}")
    if options.output:
        options.output.write_text(json.dumps({"seconds": table, "processes_per_batch": starts}, indent=1))


if __name__ == "__main__":
    main()
