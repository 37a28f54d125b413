"""Two turns: the policy reads how its first program fared under public tests, and writes another; hidden tests decide.

``python examples/two_turn_repair.py --model runs/basics/sft/model``, the folder that the demo exports.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from lit_rl import (
    GRPO,
    Basics,
    CausalLM,
    Repair,
    RolloutConfig,
    Sampling,
    Sandbox,
    TestsReward,
    Trainer,
    UpdateConfig,
    evaluate,
)
from lit_rl.callbacks.completion_log import conversation_messages
from lit_rl.evaluation import Evaluation
from torch.optim import AdamW


def main(model: str, rollouts: int = 60, max_tokens: int = 40, **task: Any) -> Evaluation:
    """Train on conversations of up to two turns; print what the second turn adds, and a repaired conversation."""
    policy = CausalLM(model)
    repair = Repair(max_turns=2, max_message_tokens=128)
    data = Basics(**{"batch_size": 16, "num_public_cases": 3, "num_validation_problems": 52, **task})
    module = GRPO(
        policy,
        sampling=Sampling(num_samples=8, max_tokens=max_tokens),
        rewards=[TestsReward()],
        sandbox=Sandbox,
        max_rollouts=rollouts,
        collect=RolloutConfig(environment=repair),
        update=UpdateConfig(optimizer=partial(AdamW, lr=4e-4)),
    )
    Trainer(accelerator="cpu", logger=False, limit_val_batches=0).fit(module, data)
    greedy = Sampling(temperature=0.0, max_tokens=max_tokens)
    with Sandbox(num_workers=2) as sandbox:
        problems = data.problems("validation")
        measured = evaluate(policy, problems, sampling=greedy, sandbox=sandbox, environment=repair)
    for number, pass_at in enumerate(measured.pass_at_turn, start=1):
        print(f"pass@1 after turn {number}: {pass_at[1]:.3f}")
    for rollout in measured.rollouts:
        for row, judged in enumerate(rollout.turn_judgements):
            if len(judged) == 2 and judged[1].outcome.passed:
                for heading, text in conversation_messages(rollout.completions, row, policy.codec.decode):
                    print(f"{heading}:\n{text}")
                return measured
    return measured


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rollouts", type=int, default=60)
    main(**vars(parser.parse_args()))
