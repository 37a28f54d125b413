"""Measure pass@k of any causal language model on HumanEval and MBPP, with every program run in the sandbox.

``python examples/measure_pass_at_k.py --model FOLDER_OR_HUB_ID --form instruct --samples 10``. Reads the two files
from the folder $LIT_RL_DATA (humaneval/HumanEval.jsonl.gz, mbpp/mbpp.jsonl.gz); without it, data sets of a hub.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from lit_rl import MBPP, CausalLM, HumanEval, Sampling, Sandbox, evaluate
from lit_rl.evaluation import Evaluation

FOLDER = os.environ.get("LIT_RL_DATA")
FILES = {"humaneval": "humaneval/HumanEval.jsonl.gz", "mbpp": "mbpp/mbpp.jsonl.gz"}
HUB = {"humaneval": "openai/openai_humaneval", "mbpp": "google-research-datasets/mbpp"}


def main(
    model: str, samples: int = 10, form: Any = "completion", max_tokens: int = 512, problems: int | None = None
) -> dict[str, Evaluation]:
    """Print and return pass@1 and, with at least ten samples, pass@10 of both tasks, and how programs ended."""
    policy = CausalLM(model)
    sampling = Sampling(num_samples=samples, temperature=0.8, top_p=0.95, max_tokens=max_tokens)
    source = {name: os.path.join(FOLDER, file) for name, file in FILES.items()} if FOLDER else HUB
    tasks = {
        "humaneval": HumanEval(source["humaneval"], form=form).problems("validation"),
        "mbpp": MBPP(source["mbpp"], form=form).problems("test"),
    }
    measured = {}
    with Sandbox(num_workers=os.cpu_count() or 1) as sandbox:
        for name, rows in tasks.items():
            ks = [k for k in (1, 10) if k <= samples]
            found = evaluate(policy, rows[:problems], sampling=sampling, sandbox=sandbox, ks=ks)
            values = "  ".join(f"pass@{k} {value:.3f}" for k, value in found.pass_at.items())
            print(f"{name}, {len(rows[:problems])} problems, {form}, {samples} samples: {values}")
            print("  " + ", ".join(f"{verdict} {count}" for verdict, count in sorted(found.verdicts.items())))
            measured[name] = found
    return measured


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--form", choices=("completion", "instruct"), default="completion")
    parser.add_argument("--max_tokens", type=int, default=512)
    parser.add_argument("--problems", type=int, help="measure on the first ones only")
    main(**vars(parser.parse_args()))
