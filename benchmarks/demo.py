"""The main job, end to end: imitate flawed demonstrations, then learn from executed programs.

    python benchmarks/demo.py

Runs configs/basics_sft.yaml, exports its policy, measures it, runs configs/basics_grpo.yaml from there, and prints
what changed. Started again, it goes on where it stopped; when it had finished, it starts afresh.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

from lit_rl.callbacks import ExecutionEvaluation
from lit_rl.cli.main import Cli
from lit_rl.reports.html import write_html_report
from lit_rl.reports.runs import read_runs

FOLDER = Path("runs/basics")
MODEL = FOLDER / "sft" / "model"
BEFORE, RESULT = FOLDER / "before.json", FOLDER / "result.json"
SHOWN = ("greedy/pass@1", "sampled/pass@1", "greedy/completion/length", "sampled/completion/length")


def main() -> None:
    started = time.perf_counter()
    if RESULT.exists():
        print(f"{FOLDER} holds a finished demo: starting afresh")
        shutil.rmtree(FOLDER)
    if BEFORE.exists():
        print(f"{MODEL} exists: skipping the warm start")
    else:
        warm_start()
    before = json.loads(BEFORE.read_text())
    after = measured(Cli(["fit", "--config", "configs/basics_grpo.yaml"]))
    RESULT.write_text(json.dumps({"before": before, "after": after}, indent=1))
    show(before, after, time.perf_counter() - started)


def warm_start() -> None:
    """Run SFT, export its policy, and return that policy's pass@1."""
    cli = Cli(["fit", "--config", "configs/basics_sft.yaml"])
    cli.model.policy.save_pretrained(MODEL)
    cli.trainer.callbacks.append(ExecutionEvaluation())
    cli.trainer.limit_val_batches = 1.0
    cli.trainer.validate(cli.model, cli.datamodule, verbose=False)
    BEFORE.write_text(json.dumps(measured(cli)))


def measured(cli: Cli) -> dict[str, float]:
    """Return the metrics of the last validation."""
    return {name: float(value) for name, value in cli.trainer.callback_metrics.items() if name.startswith("val/")}


def show(before: dict[str, float], after: dict[str, float], seconds: float) -> None:
    """Print the table, the places to look, and the last line."""
    print(f"\n{'validation':<34}{'after SFT':>12}{'after GRPO':>12}")
    verdicts = sorted(name for name in after if "/greedy/verdict/" in name and (after[name] or before.get(name)))
    for name in [f"val/{metric}" for metric in SHOWN] + verdicts:
        print(f"{name.removeprefix('val/'):<34}{before.get(name, 0):>12.3f}{after[name]:>12.3f}")
    runs = read_runs([str(FOLDER / "grpo")])
    for name, curve in (pair for run in runs for pair in run.curves.items()):
        if name in before:
            curve.insert(0, (0, before[name]))
    page = FOLDER / "report.html"
    write_html_report(runs, page)
    print(f"\nTensorBoard: tensorboard --logdir {FOLDER}\nlearning curves: {page}")
    greedy, sampled = "val/greedy/pass@1", "val/sampled/pass@1"
    print(
        f"pass@1 greedy {before[greedy]:.2f} -> {after[greedy]:.2f} | "
        f"sampled {before[sampled]:.2f} -> {after[sampled]:.2f} | {seconds:.0f} s"
    )


if __name__ == "__main__":
    main()
