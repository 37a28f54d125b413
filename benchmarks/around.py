"""Cost of a rollout around the model: decoding, tensors, credit and advantages of 512 rows of 4,096 tokens.

    python benchmarks/around.py [--rows 512] [--tokens 4096] [--rounds 3] [--output around.json]

Rows are texts of Python, a quarter with a character beyond ASCII in each line, a quarter cut by the token limit; half
of the programs failed at a known line. Beside the package's code stands the code of before, as loops over tokens
(``tests/support/plain_loops.py``), where there is some; both take turns in one process. CPU seconds, one thread, the
median of the rounds. Prints a table and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from lit_rl.advantages import GAE, GroupMean
from lit_rl.data.basics.build_tokenizer import TOKENIZER_FOLDER
from lit_rl.execution.checks import AssertTests
from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.models.codecs.text_codec import TextCodec
from lit_rl.reports.summary import summarise
from lit_rl.rewards import Composite, LengthPenalty, TestsReward
from lit_rl.rewards.places import place_rewards
from lit_rl.rollout import Rollout
from lit_rl.rollout.collector import pad_conversations
from lit_rl.rollout.environment import Conversation
from lit_rl.rollout.records import find_program
from lit_rl.training.threads import threads_of_run
from lit_rl.types import Judgement, Problem, StopReason, Turn

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.plain_loops import plain_credit, plain_table

LINES = ("total = total + values[i] * 2", "if total > limit: total -= limit", "result.append((i, total, name))")
WIDE = "name = 'día ' + str(total)  # 文"


def written(rng: random.Random, tokenizer: Any, tokens: int, row: int) -> tuple[tuple[int, ...], StopReason]:
    """Ids of one answer and why it ended."""
    lines = [rng.choice((*LINES, WIDE) if row % 4 == 0 else LINES) for _ in range(tokens // 6)]
    body = "\n".join(f"        {line}" for line in lines)
    text = f"Here it is:\n```python\ndef solve_{row}(values, limit):\n    for i in range(len(values)):\n{body}\n"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if row % 4 == 1:
        return tuple(ids[:tokens]), StopReason.LENGTH
    return (*ids[: tokens - 1], tokenizer.eos_token_id), StopReason.EOS


class Clock:
    """CPU seconds of each part, of the package's code and of that of before."""

    def __init__(self) -> None:
        self.seconds: dict[str, dict[str, list[float]]] = {}

    def time(self, part: str, call: Callable[[], Any], side: str = "now") -> Any:
        """Call it and note how long it took."""
        begun = time.process_time()
        result = call()
        self.seconds.setdefault(part, {}).setdefault(side, []).append(time.process_time() - begun)
        return result


def one_round(clock: Clock, codec: TextCodec, rows: list[tuple[tuple[int, ...], StopReason]]) -> None:
    """All parts once, in the order of a training step."""
    problems = [Problem(f"p{i // 8}", "Write it.", AssertTests("assert True")) for i in range(len(rows))]
    decoded = clock.time("decode", lambda: [codec.decode(ids, reason, ()) for ids, reason in rows])
    conversations = [Conversation(problem, i // 8, i % 8, (1, 2, 3)) for i, problem in enumerate(problems)]

    def fill() -> Any:
        for row, (ids, reason), (text, spans) in zip(conversations, rows, decoded, strict=True):
            row.add_turn(ids, (-0.5,) * len(ids), Turn(0, len(ids), text, spans, reason), 0)
        return pad_conversations(conversations, 0, torch.device("cpu"))

    completions = clock.time("tensors", fill)
    ids = [row for row, _ in rows]

    def tensors_of_before() -> None:
        plain_table(ids, 0, torch.long)
        plain_table([[-0.5] * len(row) for row in ids], 0.0, torch.float32)
        plain_table([[True] * len(row) for row in ids], False, torch.bool)

    clock.time("tensors", tensors_of_before, "before")
    programs = clock.time(
        "programs", lambda: [find_program(p, t) for p, t in zip(problems, completions.texts, strict=True)]
    )
    judgements = [
        Judgement(problem, program, Outcome(Verdict.EXCEPTION if i % 2 else Verdict.PASSED, line=5 if i % 2 else None))
        for i, (problem, program) in enumerate(zip(problems, programs, strict=True))
    ]
    composite = Composite([TestsReward(), LengthPenalty()])
    scores = clock.time("terms", lambda: [term.score(completions, judgements) for term in composite.terms])
    rewards = clock.time("terms and credit", lambda: composite(completions, judgements))
    before = clock.time("terms and credit", lambda: plain_credit(composite, completions, judgements, scores), "before")
    assert torch.equal(rewards.credit, before[1]) and torch.equal(rewards.decided, before[2])
    mask = completions.completion_mask
    values = torch.zeros(mask.shape)
    token_rewards = clock.time("placing", lambda: place_rewards(rewards, mask, "spans"))
    clock.time("GAE", lambda: GAE().estimate(token_rewards, values, mask, values[:, 0]))
    clock.time("group means", lambda: GroupMean()(rewards.rewards, rewards.valid, completions.group_ids))
    clock.time("summary", lambda: summarise(Rollout(completions, tuple(judgements)), rewards))


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="where to write the figures as JSON")
    options = parser.parse_args()
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER_FOLDER)
    codec = TextCodec(tokenizer, frozenset([tokenizer.eos_token_id]))
    rng = random.Random(0)
    rows = [written(rng, tokenizer, options.tokens, row) for row in range(options.rows)]
    clock = Clock()
    with threads_of_run(torch.nn.Identity(), torch.device("cpu")):  # as a small policy's run has them
        for _ in range(options.rounds):
            one_round(clock, codec, rows)
    medians = {
        part: {side: statistics.median(all_) for side, all_ in sides.items()} for part, sides in clock.seconds.items()
    }
    print(f"{options.rows} rows, {sum(len(ids) for ids, _ in rows):,} tokens, CPU seconds (median of {options.rounds})")
    print(f"{'part':18} {'now':>8} {'before':>8}")
    for part, sides in medians.items():
        print(
            f"{part:18} {sides['now']:8.3f} {sides['before']:8.3f}"
            if "before" in sides
            else f"{part:18} {sides['now']:8.3f}"
        )
    total = sum(sides["now"] for part, sides in medians.items() if part != "terms")
    print(f"{'all':18} {total:8.3f}")
    if options.output:
        options.output.write_text(json.dumps({"medians": medians, "all": total, "rounds": clock.seconds}, indent=1))


if __name__ == "__main__":
    main()
