"""Measure the worth of a hint: pass@1 after a prompt with hindsight, minus pass@1 after the prompt alone.

    python benchmarks/teacher_gap.py --model FOLDER

Self-distillation teaches a policy what it does with a hint; arXiv 2605.30070 finds that the gain follows this gap. For
each of MBPP's validation problems (511 to 600) the policy writes two groups of answers. An answer of the first group
gives a hint if there is something to tell, and one answer is written after the prompt with that hint. The pass rate
of a problem's hinted answers is compared with that of the second group, by which nothing was chosen. Intervals are
paired, 95%, over the problems with hints. ``copies`` counts passing answers that are the program of their hint.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import torch
from on_gpu.measuring import Row, as_markdown
from public import ASKED, answers, difference, shares

from lit_rl import CausalLM, Sampling, Sandbox, evaluate
from lit_rl.data import MBPP
from lit_rl.rollout import Hindsight, Rollout


def gap(policy: CausalLM, sandbox: Sandbox, first: Iterable[Rollout], alone: dict[str, float], shows: str) -> Row:
    """Return the row of one kind of hint."""
    hinted = []
    for rollout in first:
        prompts = Hindsight(shows).prompts_with_hints(rollout, policy.codec, sandbox)  # type: ignore[arg-type]
        problems = rollout.completions.problems
        hinted += [replace(one, prompt=told) for one, told in zip(problems, prompts, strict=True) if told is not None]
    fitting = [problem for problem in hinted if policy.codec.has_room_for_completion(problem)]
    sampling = Sampling(max_tokens=256)
    answered = evaluate(policy, fitting, sampling=sampling, sandbox=sandbox, batch_size=64, seed=2).rollouts
    after = shares(answers(answered))
    before = {task: alone[task] for task in after}
    right = [one for rollout in answered for one in rollout.judgements if one.outcome.passed and one.program]
    copies = sum(one.program.source.strip() in str(one.problem.prompt) for one in right if one.program)
    means = [sum(rates.values()) / len(rates) for rates in (before, after)]
    return {
        "hint": shows,
        "problems": len(after),
        "answers": len(fitting),
        "alone": f"{means[0]:.3f}",
        "with hint": f"{means[1]:.3f}",
        "gap": difference(after, before),
        "copies": f"{copies} of {len(right)}",
    }


def main() -> None:
    """Print the gap of each kind of hint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="hub id or folder")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the data sets")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--samples", type=int, default=4, help="of a group")
    given = parser.parse_args()
    torch.set_num_threads(1)
    problems = MBPP(str(given.data / "mbpp" / "mbpp.jsonl.gz"), **ASKED).problems("validation")
    policy, sampling = CausalLM(given.model, dtype=given.dtype), Sampling(given.samples, max_tokens=256)
    with Sandbox(1) as sandbox:
        groups = [
            evaluate(policy, problems, sampling=sampling, sandbox=sandbox, batch_size=16, seed=seed).rollouts
            for seed in (1, 3)
        ]
        alone = shares(answers(groups[1]))
        rows = [gap(policy, sandbox, groups[0], alone, shows) for shows in ("feedback", "solution", "both")]
    print(f"{Path(given.model).name}, {len(problems)} problems, pass@1 alone {sum(alone.values()) / len(alone):.3f}")
    print(f"{time.process_time():.0f} CPU s\n\n{as_markdown(rows)}")


if __name__ == "__main__":
    main()
