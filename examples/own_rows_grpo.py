"""GRPO on rows of your own: a task is a class with one method, which turns rows into problems.

``python examples/own_rows_grpo.py --model FOLDER_OR_HUB_ID``, a chat model of a size that your machine can train.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from lit_rl import (
    GRPO,
    AssertTests,
    CausalLM,
    Problem,
    Sampling,
    Sandbox,
    TaskDataModule,
    TestsReward,
    Trainer,
    UpdateConfig,
)
from lit_rl.data.prompts import chat_messages
from torch.optim import AdamW

ROWS = [
    {"function": "double(x)", "task": "twice x", "test": "assert double(2) == 4 and double(-3) == -6"},
    {"function": "last(items)", "task": "the last item", "test": "assert last([1, 2]) == 2"},
    {"function": "vowels(text)", "task": "how many vowels the text has", "test": "assert vowels('axe') == 2"},
    {"function": "parity(n)", "task": "'even' or 'odd'", "test": "assert parity(3) == 'odd'"},
]


class MyRows(TaskDataModule):
    """A task of functions to write; training and validation use the same few rows, to see whether anything moves."""

    name = "my_rows"

    def load_problems(self, split: str) -> list[Problem]:
        """Return all problems of a split, in a fixed order."""
        return [self.problem(row) for row in ROWS]

    def problem(self, row: dict[str, str]) -> Problem:
        """Turn one row into a problem: what the policy reads, and how its program is judged."""
        question = f"Write a Python function `{row['function']}` that returns {row['task']}."
        prompt = chat_messages(f"{question} Answer with one fenced block.")
        return Problem(row["function"], prompt, AssertTests(row["test"]))


def main(model: str, rollouts: int = 50, max_tokens: int = 128, **policy: Any) -> GRPO:
    """Train, measuring every 10 rollouts."""
    module = GRPO(
        CausalLM(model, **policy),
        sampling=Sampling(num_samples=8, max_tokens=max_tokens),
        rewards=[TestsReward(mode="fraction")],
        sandbox=Sandbox,
        max_rollouts=rollouts,
        update=UpdateConfig(optimizer=partial(AdamW, lr=1e-5)),
    )
    Trainer(val_check_interval=10).fit(module, MyRows(batch_size=4))
    return module


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rollouts", type=int, default=50)
    main(**vars(parser.parse_args()))
