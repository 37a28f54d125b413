"""A real pretrained model as published, after imitation and after GRPO: pass@1 on held-out problems, and what is wrong.

    python benchmarks/real_model.py [--config FILE ...] [--minutes 48] [--page docs/real_model.md] [--set KEY=VALUE ...]

Measures the model of configs/real/sft_lora.yaml on its validation problems (greedy), has it imitate, trains the result
with a second configuration, and measures after each. The tables go to the screen and, with --page, between the marks
of a Markdown page. Programs run in the sandbox. Started again, it goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from lit_rl.cli.main import Cli  # before torch, so that its threads sleep while they wait

# isort: split
from lightning.pytorch.callbacks import Timer
from on_gpu.measuring import Row, as_markdown
from pages import put_into

from lit_rl.callbacks import Checkpointing
from lit_rl.evaluation import evaluate
from lit_rl.execution import Sandbox
from lit_rl.models.loading.export import write_policy_folder

IMITATION = "configs/real/sft_lora.yaml"
START = Path("runs/real/sft_lora/model")


@dataclass(frozen=True)
class Measured:
    """Verdicts of a policy by task id, from one greedy completion per problem, and the wall seconds they took."""

    verdicts: dict[str, str]
    seconds: float

    @property
    def pass_at_1(self) -> float:
        return list(self.verdicts.values()).count("passed") / len(self.verdicts)


def table(measures: Mapping[str, Measured]) -> str:
    """Return pass@1 and verdicts after each stage as Markdown, the oldest stage first."""
    counts = {stage: Counter(one.verdicts.values()) for stage, one in measures.items()}
    first, *_ = counts.values()
    name = f"held-out problems: {first.total()}"
    rows: list[Row] = [{name: "greedy pass@1"} | {stage: f"{one.pass_at_1:.3f}" for stage, one in measures.items()}]
    for verdict in sorted(sum(counts.values(), Counter()), key=lambda one: -first[one]):
        cells = {stage: count[verdict] for stage, count in counts.items()}
        rows.append({name: f"programs: {verdict.replace('_', ' ')}"} | cells)
    return as_markdown(rows) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", action="append", help="of the run; a second one changes the first")
    parser.add_argument("--imitation", default=IMITATION, help="configuration of the warm start")
    parser.add_argument("--minutes", type=float, default=48.0, help="of imitation and training, at most")
    parser.add_argument("--page", type=Path, help="Markdown page for the tables")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="model.max_rollouts=3")
    given = parser.parse_args(arguments)
    started = time.perf_counter()
    flags = [flag for file in given.config or ["configs/real/grpo_lora.yaml"] for flag in ("--config", file)]
    flags += [f"--{one}" for one in given.set]  # what comes later wins
    measures: dict[str, Measured] = {}
    with Sandbox() as sandbox:
        spent = imitate(["--config", given.imitation], sandbox, measures)
        cli = quiet_cli([*flags, f"--model.init_args.policy.init_args.model={START}"])
        rollouts, seconds = train(cli, timedelta(minutes=given.minutes) - timedelta(seconds=spent))
        measures[f"after {type(cli.model).__name__}"] = on(cli, sandbox)
    text = table(measures) + (
        f"\nImitation took {spent / 60:.1f} minutes, and {rollouts} rollouts of "
        f"{cli.datamodule.batch_size * cli.model.sampling.num_samples} completions took {seconds / 60:.1f} minutes. "
        f"Measuring took {', '.join(f'{one.seconds:.0f}' for one in measures.values())} s. "
        f"The load at the end was {os.getloadavg()[1]:.1f}.\n"
    )
    print(f"\n{text}\nall of it: {(time.perf_counter() - started) / 60:.1f} minutes")
    folder = Path(cli.trainer.log_dir or ".")
    folder.mkdir(parents=True, exist_ok=True)
    record = {"measures": {stage: vars(one) for stage, one in measures.items()}, "rollouts": rollouts}
    (folder / "real_model.json").write_text(json.dumps(record | {"seconds": seconds}, indent=1))
    if given.page is not None:
        put_into(given.page, text, "benchmarks/real_model.py")


def quiet_cli(flags: Sequence[str]) -> Cli:
    """Build the run of a configuration without validations, since this script measures all stages in the same way."""
    cli = Cli(list(flags), run=False)
    cli.trainer.limit_val_batches = 0
    return cli


def imitate(flags: Sequence[str], sandbox: Sandbox, measures: dict[str, Measured]) -> float:
    """Imitate between two measurements, unless ``START`` has the policy already; return the seconds of training."""
    record = START / "measures.json"
    if record.exists():
        found = json.loads(record.read_text())
        measures.update({stage: Measured(**one) for stage, one in found["measures"].items()})
        return float(found["seconds"])
    cli = quiet_cli(flags)
    measures["as published"] = on(cli, sandbox)
    _, seconds = train(cli)
    measures["after imitation"] = on(cli, sandbox)
    write_policy_folder(cli.model.policy, START, merge=True)
    found = {"measures": {stage: vars(one) for stage, one in measures.items()}, "seconds": seconds}
    record.write_text(json.dumps(found))
    return seconds


def on(cli: Cli, sandbox: Sandbox) -> Measured:
    """Measure the policy of a run on its validation problems; print and return the result."""
    started = time.perf_counter()
    evaluation = evaluate(
        cli.model.policy,
        cli.datamodule.problems("validation"),
        sampling=cli.model.evaluate.sampling["greedy"],
        sandbox=sandbox,
        engine=cli.model.collector.engine,
        batch_size=cli.datamodule.validation_batch_size,
    )
    judgements = [judgement for rollout in evaluation.rollouts for judgement in rollout.judgements]
    verdicts = {one.problem.task_id: str(one.outcome.verdict.value) for one in judgements}
    found = Measured(verdicts, time.perf_counter() - started)
    print(f"greedy pass@1 {found.pass_at_1:.3f} ({found.seconds:.0f} s)", flush=True)
    return found


def train(cli: Cli, limit: timedelta | None = None) -> tuple[int, float]:
    """Fit until the end or the limit, from the last checkpoint if there is one; return rollouts and seconds."""
    started = time.perf_counter()
    if limit is not None:
        cli.trainer.callbacks.append(Timer(duration=limit))
    saving = [callback for callback in cli.trainer.checkpoint_callbacks if isinstance(callback, Checkpointing)]
    begin = saving[0].lock_and_resolve_checkpoint(cli.trainer) if saving else None
    cli.trainer.fit(cli.model, cli.datamodule, ckpt_path=begin)
    return cli.model.clock.count, time.perf_counter() - started


if __name__ == "__main__":
    main()
