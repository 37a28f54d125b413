"""A real model of 135 million parameters at equal sampled tokens: one step a rollout, eight, or imitation instead.

Written before its first run. All cases go on from one imitation (24 steps, as configs/real/sft_lora.yaml), with new
adapters of rank 16, and sample 11 rollouts of 16 problems x 8 completions of the embedded task, the same problems for
all cases of a seed. AdamW at 5e-4, constant. GRPO takes 1 step a rollout on all rows, or 8 on 16 rows each; both, and
MaxRL with 8, clip at 0.2 and 0.28. Expert iteration has three rounds of 4, 4 and 3 rollouts: after each it imitates the
distinct programs that passed, in batches of 16, for 1 or 8 steps per rollout that it has sampled: 11 or 88 in all.

Measured on 104 held-out problems: greedy, and four samples at temperature 1. First number: sampled pass@1. Intervals
are over problems, paired, of the means over seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from bare_trainer import Given
from public import difference

from lit_rl import GRPO, SFT, LoRA, Objective, Optimization, UpdateConfig
from lit_rl.data import Basics
from lit_rl.evaluation import Evaluation, evaluate
from lit_rl.execution import Sandbox
from lit_rl.math.advantages import GroupMean, MaxRewards, RowAdvantages
from lit_rl.math.losses import Clipped
from lit_rl.models import CausalLM
from lit_rl.models.loading.export import write_policy_folder
from lit_rl.rewards import TestsReward
from lit_rl.types import Problem, Sampling
from reproductions.code import MODEL, PACKAGE
from reproductions.learning import Seen, adamw, learn
from reproductions.part import Case, Numbers, Part
from reproductions.pictures import COLOURS, Picture, Results

ROLLOUTS, PROBLEMS, SAMPLES, MAX_TOKENS, RATE = 11, 16, 8, 64, 5e-4
ROUNDS = (4, 4, 3)
ONE_STEP = "GRPO, 11 steps"


def task(seed: int, **options: Any) -> Basics:
    return Basics(form="instruct", batch_size=PROBLEMS, num_validation_problems=104, seed=seed, **options)


def policy_of(model: Path, seed: int) -> CausalLM:
    return CausalLM(str(model), dtype="bfloat16", lora=LoRA(16, 32.0), init_seed=seed)


def prepare(folder: Path) -> None:
    """Imitate, and write the policy with its adapters merged."""
    policy = policy_of(MODEL, 0)
    schedule = partial(
        torch.optim.lr_scheduler.OneCycleLR, max_lr=2e-3, total_steps=25, pct_start=0.15, cycle_momentum=False
    )
    update = Optimization(optimizer=adamw(2e-3), lr_scheduler=schedule, microbatch_size=8)
    learn(SFT(policy, max_updates=24, update=update), task(0), folder)
    write_policy_folder(policy, folder / "start", merge=True, overwrite=True)


def by_policy_gradient(seed: int, folder: Path, steps: int, baseline: RowAdvantages) -> Numbers:
    policy = policy_of(folder.parent / "start", seed)
    seen = Seen("execution/pass_rate", "completion/length")
    module = GRPO(
        policy,
        [TestsReward()],
        baseline=baseline,
        objective=Objective(loss=Clipped(clip_high=0.28)),
        sampling=Sampling(num_samples=SAMPLES, max_tokens=MAX_TOKENS),
        update=UpdateConfig(optimizer=adamw(RATE), minibatches=steps, microbatch_size=16),
        max_rollouts=ROLLOUTS,
        sandbox=Sandbox,
        seed=seed,
    )
    learn(module, task(seed), folder, seen)
    tokens = [length * PROBLEMS * SAMPLES for length in seen.values["completion/length"]]
    return numbers(
        policy, seen.values["execution/pass_rate"], tokens, [steps * at for at in range(ROLLOUTS)], steps * ROLLOUTS
    )


def by_imitation(seed: int, folder: Path, steps: int) -> Numbers:
    policy = policy_of(folder.parent / "start", seed)
    batches = iter(task(seed).train_dataloader())
    rates: list[float] = []
    tokens: list[float] = []
    begun: list[int] = []
    done = 0
    for number, rollouts in enumerate(ROUNDS):
        problems = [problem for batch in islice(batches, rollouts) for problem in batch]
        sampling = Sampling(num_samples=SAMPLES, max_tokens=MAX_TOKENS)
        found = sampled(policy, problems, sampling, PROBLEMS, 100 * seed + number)
        rates += [fmean(one.outcome.passed for one in rollout.judgements) for rollout in found.rollouts]
        tokens += [float(rollout.completions.lengths.sum()) for rollout in found.rollouts]
        begun += [done] * rollouts
        kept = {
            (one.problem.task_id, text): one.problem
            for rollout in found.rollouts
            for one, text in zip(rollout.judgements, rollout.completions.texts, strict=True)
            if one.outcome.passed
        }
        shown = [
            replace(problem, task_id=f"{name}/{at}", fields={**problem.fields, "demonstration": text})
            for at, ((name, text), problem) in enumerate(kept.items())
        ]
        done += steps * rollouts
        update = Optimization(optimizer=adamw(RATE), microbatch_size=16)
        module = SFT(policy, max_updates=steps * rollouts, seed=seed, update=update)
        learn(module, Given(shown, batch_size=16, seed=seed), folder / str(number))
    return numbers(policy, rates, tokens, begun, done)


def sampled(policy: CausalLM, problems: Sequence[Problem], sampling: Sampling, together: int, seed: int) -> Evaluation:
    with Sandbox() as sandbox:
        return evaluate(policy, problems, sampling=sampling, sandbox=sandbox, batch_size=together, seed=seed)


def numbers(
    policy: CausalLM, rates: Sequence[float], tokens: Sequence[float], begun: Sequence[int], steps: int
) -> Numbers:
    """Measure a trained policy; its rollouts' pass rates, and the tokens and steps before each, are added."""
    held_out = task(0).problems("validation")
    found: dict[str, Any] = {"steps": steps, "tokens": sum(tokens), "rates": list(rates), "begun": list(begun)}
    found["spent"] = [sum(tokens[:at]) for at in range(len(tokens))]
    for name, sampling in {
        "greedy": Sampling(temperature=0.0, max_tokens=MAX_TOKENS),
        "sampled": Sampling(num_samples=4, max_tokens=MAX_TOKENS),
    }.items():
        evaluation = sampled(policy, held_out, sampling, 52, 7)
        passed = [float(one.outcome.passed) for rollout in evaluation.rollouts for one in rollout.judgements]
        of_problems = [
            fmean(passed[at : at + sampling.num_samples]) for at in range(0, len(passed), sampling.num_samples)
        ]
        found |= {name: fmean(of_problems), f"{name}_by_problem": of_problems}
    return found


def untrained(seed: int, folder: Path) -> Numbers:
    return numbers(policy_of(folder.parent / "start", seed), [], [], [], 0)


def differences(results: Results) -> str:
    """Return the differences of sampled pass@1 from GRPO with one step a rollout, with their 95% intervals."""
    lines = [f"| sampled pass@1, minus that of {ONE_STEP} |  |", "|---|---|"]
    others = {case: of_case for case, of_case in results.items() if case not in ("imitation", ONE_STEP)}
    before = by_problem(results[ONE_STEP])
    lines += [f"| {case} | {difference(by_problem(of_case), before)} |" for case, of_case in others.items()]
    return "\n".join(lines) + "\n"


def by_problem(of_case: Sequence[Any]) -> dict[str, float]:
    return {str(at): share for at, share in enumerate(means_over_seeds(of_case, "sampled_by_problem"))}


def means_over_seeds(of_case: Sequence[Any], name: str) -> list[float]:
    return [fmean(values) for values in zip(*(one[name] for one in of_case), strict=True)]


def draw(figure: Any, results: Results) -> None:
    """The pass rate of each rollout against tokens and against steps before it."""
    across = {"spent": "sampled tokens", "begun": "optimizer steps"}
    for axes, (name, label) in zip(figure.subplots(1, 2, sharey=True), across.items(), strict=True):
        for colour, (case, of_case) in zip(
            COLOURS, ((c, r) for c, r in results.items() if c != "imitation"), strict=False
        ):
            axes.plot(
                means_over_seeds(of_case, name), means_over_seeds(of_case, "rates"), ".-", color=colour, label=case
            )
        axes.set_xlabel(label)
    figure.axes[0].set_ylabel("pass rate of a rollout")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside right upper")


PART = Part(
    name="ladder",
    prepare=prepare,
    cases=(
        Case("imitation", untrained, seeded=False),
        Case(ONE_STEP, partial(by_policy_gradient, steps=1, baseline=GroupMean())),
        Case("GRPO, 88 steps", partial(by_policy_gradient, steps=8, baseline=GroupMean())),
        Case("MaxRL, 88 steps", partial(by_policy_gradient, steps=8, baseline=MaxRewards())),
        Case("expert iteration, 11 steps", partial(by_imitation, steps=1)),
        Case("expert iteration, 88 steps", partial(by_imitation, steps=8)),
    ),
    columns={"tokens": "sampled tokens", "sampled": "sampled pass@1", "greedy": "greedy pass@1"},
    digits={"tokens": 0, "sampled": 3, "greedy": 3},
    picture=Picture("Pass rate of each rollout against sampled tokens and optimizer steps", draw),
    needs=PACKAGE,
    below=differences,
    hours=True,
)
