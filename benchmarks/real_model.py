"""A real pretrained model before and after GRPO: pass@1 on held-out problems, by family, and what went wrong.

    python benchmarks/real_model.py [--config FILE ...] [--minutes 50] [--page docs/real_model.md] [--set KEY=VALUE ...]

Measures the model of a configuration in configs/real/ on its validation problems (greedy), trains it, and measures it
again. The tables go to the screen and, with --page, between the marks of a Markdown page. Programs run in the sandbox.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

# Waiting threads that spin make two cores slower than one when anything else runs.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from lightning.pytorch.callbacks import Timer

import lit_rl.commands  # noqa: F401  # short class names
from lit_rl.callbacks import Checkpointing
from lit_rl.cli import Cli
from lit_rl.evaluation import Evaluation, evaluate
from lit_rl.execution import Sandbox
from lit_rl.types import Sampling

BEGIN, END = "<!-- measured: benchmarks/real_model.py -->\n", "<!-- end of what was measured -->\n"


@dataclass(frozen=True)
class Measured:
    """A policy on problems, one greedy completion each.

    Args:
        passed: whether each problem's program passed, by task id.
        family: of each problem.
        verdict: of each problem's program.
        text: completion of each problem.
        seconds: wall time of sampling and running.
    """

    passed: dict[str, bool]
    family: dict[str, str]
    verdict: dict[str, str]
    text: dict[str, str]
    seconds: float

    @property
    def pass_at_1(self) -> float:
        """Share of problems that passed."""
        return sum(self.passed.values()) / len(self.passed)


def measured(evaluation: Evaluation, seconds: float) -> Measured:
    """What an evaluation of one completion per problem found."""
    rows = [
        (judgement.problem, judgement.outcome, text)
        for rollout in evaluation.rollouts
        for judgement, text in zip(rollout.judgements, rollout.completions.texts, strict=True)
    ]
    return Measured(
        {problem.task_id: outcome.passed for problem, outcome, _ in rows},
        {problem.task_id: str(problem.fields.get("family", problem.task_id.split("/")[0])) for problem, _, _ in rows},
        {problem.task_id: str(outcome.verdict.value) for problem, outcome, _ in rows},
        {problem.task_id: text for problem, _, text in rows},
        seconds,
    )


def tables(before: Measured, after: Measured) -> str:
    """Verdicts and families before and after, and two problems that changed, as Markdown."""
    lines = [
        f"| held-out problems: {len(before.passed)} | before | after |",
        "|---|---|---|",
        f"| greedy pass@1 | {before.pass_at_1:.3f} | {after.pass_at_1:.3f} |",
    ]
    counts = [Counter(one.verdict.values()) for one in (before, after)]
    for verdict in sorted(counts[0] | counts[1], key=lambda name: -counts[0][name]):
        lines.append(f"| programs: {verdict.replace('_', ' ')} | {counts[0][verdict]} | {counts[1][verdict]} |")
    lines += ["", "| family | before | after |", "|---|---|---|"]
    shares = [by_family(one) for one in (before, after)]
    for name in sorted(shares[0], key=lambda name: (shares[0][name] - shares[1][name], name)):
        lines.append(f"| {name} | {shares[0][name]:.2f} | {shares[1][name]:.2f} |")
    return "\n".join([*lines, *examples(before, after)]) + "\n"


def by_family(one: Measured) -> dict[str, float]:
    """pass@1 of each family."""
    found: dict[str, list[bool]] = defaultdict(list)
    for task, passed in one.passed.items():
        found[one.family[task]].append(passed)
    return {name: sum(values) / len(values) for name, values in found.items()}


def examples(before: Measured, after: Measured, count: int = 2) -> list[str]:
    """Completions of some problems that were wrong and now pass."""
    mended = [task for task in before.passed if after.passed[task] and not before.passed[task]][:count]
    lines = []
    for task in mended:
        for when, one in (("before", before), ("after", after)):
            text = one.text[task].replace("```", "'''")
            lines += ["", f"`{task}` {when} ({one.verdict[task].replace('_', ' ')}):", "", "```text", text, "```"]
    return lines


def put_into(page: Path, text: str) -> None:
    """Replace what stands between the marks of a page.

    Raises:
        ValueError: the page lacks the marks.
    """
    whole = page.read_text(encoding="utf-8")
    if BEGIN not in whole or END not in whole:
        raise ValueError(f"{page} lacks the lines {BEGIN.strip()} and {END.strip()}")
    page.write_text(whole.partition(BEGIN)[0] + BEGIN + "\n" + text + "\n" + END + whole.partition(END)[2])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", action="append", help="of the run; a second one changes the first")
    parser.add_argument("--minutes", type=float, default=50.0, help="of training, at most")
    parser.add_argument("--page", type=Path, help="Markdown page for the tables")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="model.max_rollouts=3")
    given = parser.parse_args(arguments)
    started = time.perf_counter()
    flags = [flag for file in given.config or ["configs/real/grpo_lora.yaml"] for flag in ("--config", file)]
    cli = Cli([*flags, *(f"--{one}" for one in given.set)], run=False)  # what comes later wins
    # Measured here, before and after, in the same way.
    cli.trainer.limit_val_batches = 0
    limit = timedelta(minutes=given.minutes)
    sampling = cli.model.validation_sampling["greedy"]
    problems = cli.datamodule.problems("validation")
    with Sandbox() as sandbox:
        before = on(cli, problems, sampling, sandbox)
        print(f"before: greedy pass@1 {before.pass_at_1:.3f} ({before.seconds:.0f} s)", flush=True)
        rollouts, seconds = train(cli, limit)
        after = on(cli, problems, sampling, sandbox)
    text = tables(before, after) + (
        f"\n{rollouts} rollouts of {cli.datamodule.batch_size * cli.model.sampling.num_samples} completions in "
        f"{seconds / 60:.0f} minutes; measuring took {before.seconds:.0f} and {after.seconds:.0f} s.\n"
    )
    print(f"\n{text}\nall of it: {(time.perf_counter() - started) / 60:.1f} minutes")
    folder = Path(cli.trainer.log_dir or ".")
    folder.mkdir(parents=True, exist_ok=True)
    record = {"before": vars(before), "after": vars(after), "rollouts": rollouts, "seconds": seconds}
    (folder / "real_model.json").write_text(json.dumps(record, indent=1))
    if given.page is not None:
        put_into(given.page, text)


def on(cli: Cli, problems: Any, sampling: Sampling, sandbox: Sandbox) -> Measured:
    started = time.perf_counter()
    evaluation = evaluate(
        cli.model.policy,
        problems,
        sampling=sampling,
        sandbox=sandbox,
        engine=cli.model.engine,
        batch_size=cli.datamodule.validation_batch_size,
    )
    return measured(evaluation, time.perf_counter() - started)


def train(cli: Cli, limit: timedelta) -> tuple[int, float]:
    """Fit until the end or the limit, from the last checkpoint if there is one; rollouts and seconds."""
    started = time.perf_counter()
    cli.trainer.callbacks.append(Timer(duration=limit))
    saving = [callback for callback in cli.trainer.checkpoint_callbacks if isinstance(callback, Checkpointing)]
    begin = saving[0].prepare(cli.trainer) if saving else None
    cli.trainer.fit(cli.model, cli.datamodule, ckpt_path=begin)
    return cli.model.rollout_step, time.perf_counter() - started


if __name__ == "__main__":
    main()
