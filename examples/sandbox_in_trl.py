"""The sandbox as a reward function of TRL: ``GRPOTrainer`` samples and learns, ``Sandbox`` judges.

``python examples/sandbox_in_trl.py --model FOLDER_OR_HUB_ID``, such as the folder that the demo exports. Needs
``pip install trl``.
"""

from __future__ import annotations

import argparse
from typing import Any

from datasets import Dataset
from lit_rl import Basics, Problem, Sandbox
from lit_rl.execution import Verdict
from trl import GRPOConfig, GRPOTrainer


class PassesTests:
    """A reward function for TRL: 1 for a program that passes its tests, 0 for one that does not.

    A program that the sandbox could not judge gets ``None``, which TRL leaves out of its group: a failure of the
    machine is no failure of the policy.

    Args:
        problems: the rows of the data set, whose column ``number`` says which one a completion answers.
        sandbox: runs the programs; all completions of a batch at the same time.
    """

    __name__ = "passes_tests"  # TRL logs the reward under this name

    def __init__(self, problems: list[Problem], sandbox: Sandbox) -> None:
        self.problems, self.sandbox = problems, sandbox

    def __call__(self, completions: list[str], number: list[int], **columns: Any) -> list[float | None]:
        """Return one reward per completion."""
        answered = [self.problems[row] for row in number]
        programs = [problem.program_prefix + text for problem, text in zip(answered, completions, strict=True)]
        outcomes = self.sandbox.judge_many(zip(programs, (problem.check for problem in answered), strict=True))
        lost = Verdict.INFRASTRUCTURE_FAILURE
        return [None if outcome.verdict is lost else float(outcome.passed) for outcome in outcomes]


def main(model: str, steps: int = 100, folder: str = "runs/trl", **options: Any) -> list[float]:
    """Train; print and return the mean reward of each step. ``options`` replace those of ``GRPOConfig``."""
    problems = Basics(num_train_problems=2080).problems("train")
    rows = {"prompt": [problem.prompt for problem in problems], "number": list(range(len(problems)))}
    settings = {
        "num_generations": 8,
        "per_device_train_batch_size": 128,
        "max_completion_length": 40,
        "learning_rate": 4e-4,
        "beta": 0.0,
        "top_k": 0,
        "bf16": False,
        "use_cpu": True,
        "gradient_checkpointing": False,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
    }
    with Sandbox() as sandbox:
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=PassesTests(problems, sandbox),
            args=GRPOConfig(output_dir=folder, max_steps=steps, **settings | options),
            train_dataset=Dataset.from_dict(rows),
        )
        trainer.train()
    rewards = [step["reward"] for step in trainer.state.log_history if "reward" in step]
    print("mean reward by step: " + " ".join(f"{reward:.2f}" for reward in rewards))
    return rewards


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--steps", type=int, default=100)
    main(**vars(parser.parse_args()))
