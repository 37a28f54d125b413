"""PPO with a reward of your own: what the tests say, less a little where the program prints.

``python examples/own_reward_ppo.py --model runs/basics/sft/model``, the folder that the demo exports.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

from lightning.pytorch.loggers import TensorBoardLogger
from lit_rl import PPO, Basics, CausalLM, Checkpointing, Sampling, Sandbox, SeparateCritic, TestsReward, Trainer
from lit_rl.modules import CriticConfig, UpdateConfig
from lit_rl.rewards import RewardTerm, Span, TermScore
from lit_rl.types import Completions, Judgement
from torch.optim import AdamW


class NoPrinting(RewardTerm):
    """A reward term: -1 for a program that prints, on the word ``print(``; otherwise 0."""

    default_name = "no_printing"

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        """Return one score per row; its span says which bytes of the text earned the score."""
        scores = []
        for text in completions.texts:
            start = text.encode().find(b"print(")
            spans = (Span(start, start + len(b"print("), -1.0),) if start >= 0 else ()
            scores.append(TermScore(-1.0 if spans else 0.0, spans))
        return scores


def main(model: str, rollouts: int = 100, max_tokens: int = 40, folder: str = "runs/own_reward", **task: Any) -> PPO:
    """Train a policy and a separate critic."""
    module = PPO(
        CausalLM(model),
        critic=SeparateCritic(),
        credit="spans",
        sampling=Sampling(num_samples=4, max_tokens=max_tokens),
        rewards=[TestsReward(), NoPrinting(weight=0.2)],
        sandbox=Sandbox,
        max_rollouts=rollouts,
        critic_update=CriticConfig(learning_rate=1e-3, warmup_rollouts=2),
        update=UpdateConfig(optimizer=partial(AdamW, lr=4e-4)),
    )
    data = Basics(**{"batch_size": 16, "num_validation_problems": 52, **task})
    logger = TensorBoardLogger(folder, name=None)  # beside the checkpoints
    Trainer(accelerator="cpu", logger=logger, callbacks=[Checkpointing(folder)], limit_val_batches=0).fit(module, data)
    return module


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rollouts", type=int, default=100)
    main(**vars(parser.parse_args()))
