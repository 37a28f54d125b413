"""Rollouts that a teacher saves, and the worth of feedback as a teacher: two comparisons, cell by cell.

    python benchmarks/distillation.py teacher --seeds 0 1 2
    python benchmarks/distillation.py feedback --seeds 0 1 2 --methods GRPO SDPO
    python benchmarks/distillation.py agreement

``teacher``: for each seed the demo's two runs (``basics_sft.yaml``, ``basics_grpo.yaml``), then
``basics_distillation.yaml``, whose teacher is the policy that GRPO ended with. Printed is the number of rollouts after
which pass@1 on 260 held-out problems first came within 0.03 of the teacher's, in GRPO (looked at every 5 rollouts) and
in distillation (every 2). Both sample 128 completions a rollout: GRPO of 16 problems, distillation of 64.

``feedback``: the repair variant of the task, from the warm start of ``benchmarks/repair.py``. Every method trains with
one turn until it has sampled the same number of tokens, in rollouts of 8 problems x 8 completions, and is measured on
the same 200 held-out problems, on half of them along the way. It writes a table and ``pass_by_tokens.svg``. One
constant of each program stands only in what the public case expects, so that one turn can but guess it; with
``--told`` the prompt has it.

``agreement``: how probable the tokens of failed programs are to the policy that the second comparison starts from, and
to the same policy after it has read what the public case said of them.

A finished cell is a file in the folder, and a run goes on with those that are missing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import repair
import torch
from algorithms import adamw, trainer
from expert_iteration import Settings, expert_iteration

from lit_rl.advantages import GroupMean
from lit_rl.cli.main import Cli
from lit_rl.data.basics.problems import REPAIR_TEMPLATE
from lit_rl.divergences import JSD, SampledReverseKL
from lit_rl.execution import Sandbox
from lit_rl.models import CausalLM
from lit_rl.modules import GRPO, REINFORCE, Distil, Distillation, Update
from lit_rl.reports.runs import read_curves
from lit_rl.rewards import TestsReward
from lit_rl.rollout import Hindsight
from lit_rl.types import Experience, Sampling

CONFIGS = Path(__file__).parents[1] / "configs"
NEAR = 0.03
EVERY = {"grpo": 5, "distillation": 2}
KEPT = {"agreement": "feedback"}  # whose folder holds the policy it starts from
Curve = list[tuple[int, float]]


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in a folder: the configurations name what they read and write from there."""
    before = Path.cwd()
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def fitted(name: str, seed: int) -> None:
    """Run a configuration and export its policy, unless an earlier run has."""
    run = Path("runs/basics") / name
    if (run / "model").exists():
        return
    print(f"{name}, seed {seed}", flush=True)
    given = ["fit", "--config", str(CONFIGS / f"basics_{name}.yaml"), "--seed_everything", str(seed)]
    if name in EVERY:
        given += ["--trainer.val_check_interval", str(EVERY[name])]
    started = time.process_time()
    cli = Cli(given)
    cli.model.policy.save_pretrained(run / "model")
    (run / "cpu_seconds.json").write_text(json.dumps(time.process_time() - started))


def rollouts_to(curve: Curve, wanted: float) -> int | None:
    """The first rollout after which a share was reached; ``None`` if it never was."""
    return next((rollout for rollout, share in curve if share >= wanted - 1e-6), None)


def with_teacher(seeds: list[int], folder: Path) -> None:
    """The first comparison: one line for each seed and sampling."""
    print(f"| seed | pass@1 | teacher | within {NEAR} of it: GRPO | distillation | share | last | CPU s | CPU s |")
    print("|---" * 9 + "|")
    for seed in seeds:
        with inside(folder / f"seed_{seed}"):
            for name in ("sft", "grpo", "distillation"):
                fitted(name, seed)
            curves = {name: read_curves(Path("runs/basics") / name) for name in EVERY}
            cpu = [json.loads((Path("runs/basics") / name / "cpu_seconds.json").read_text()) for name in EVERY]
        for sampling in ("greedy", "sampled"):
            metric = f"val/basics/{sampling}/pass@1"
            ours, theirs = ([(int(x), y) for x, y in curves[name][metric]] for name in ("distillation", "grpo"))
            goal = theirs[-1][1]
            of_grpo, of_ours = (rollouts_to(curve, goal - NEAR) for curve in (theirs, ours))
            share = f"{of_ours / of_grpo:.2f}" if of_ours and of_grpo else "-"
            cells = [seed, sampling, f"{goal:.3f}", of_grpo, of_ours or "never", share, f"{ours[-1][1]:.3f}"]
            print("| " + " | ".join(map(str, [*cells, *(f"{seconds:.0f}" for seconds in reversed(cpu))])) + " |")


HINDSIGHT = Hindsight("feedback", feedback_template="{prompt}{attempt}" + REPAIR_TEMPLATE)
WITH_SOLUTIONS = Hindsight(
    "both", feedback_template="{prompt}{attempt}" + REPAIR_TEMPLATE, solution_template="{prompt}{solution}\n\n{prompt}"
)
AVERAGE: dict[str, Any] = {"refresh_reference_every": 1, "refresh_reference_share": 0.05}


def sdpo(
    distil: Distil, teacher: Any = "reference", hindsight: Hindsight = HINDSIGHT, **update: Any
) -> Callable[..., Any]:
    """A method that learns from feedback; by default from a moving average of the policy."""

    def make(policy: CausalLM, *, update: Callable[..., Update], **shared: Any) -> Distillation:
        return Distillation(
            policy, teacher=teacher, hindsight=hindsight, distil=distil, update=update(**settings), **shared
        )

    settings = AVERAGE | update
    return make


EXPERT = "expert iteration"
METHODS: dict[str, Callable[..., Any]] = {
    "GRPO": lambda policy, *, update, **shared: GRPO(policy, update=update(), **shared),
    "line spans": lambda policy, *, update, **shared: REINFORCE(
        policy, update=update(), baseline=GroupMean(normalize="none"), credit="spans", **shared
    ),
    "SDPO": sdpo(Distil(JSD())),
    "SDPO, reverse KL": sdpo(Distil(JSD(beta=1.0))),
    "SDPO, failed rows": sdpo(Distil(JSD(), rows="failed")),
    "SDPO, failing line": sdpo(Distil(JSD(), rows="failed", tokens="failing_line")),
    "SDPO, solutions": sdpo(Distil(JSD()), hindsight=WITH_SOLUTIONS),
    "SDPO, present weights": sdpo(Distil(JSD()), "policy"),
    "SDPO, weights of the start": sdpo(Distil(JSD()), refresh_reference_every=None, refresh_reference_share=1.0),
    "GRPO + SDPO 0.1": sdpo(Distil(JSD(), weight=0.1, reward_weight=1.0, rows="failed")),
    "GRPO + SDPO 1": sdpo(Distil(JSD(), reward_weight=1.0, rows="failed")),
    "GRPO + SDPO, sampled": sdpo(Distil(SampledReverseKL(clip=2.0), weight=0.3, reward_weight=1.0, rows="failed")),
}


def cell(method: str, seed: int, start: str, options: argparse.Namespace) -> dict[str, Any]:
    """Train one method with one seed until it has sampled its tokens, and measure it."""
    budget = repair.Budget(f"{method}, seed {seed}", repair.held_out()[: repair.NUM_ALONG_THE_WAY], options.tokens)

    def falling(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LambdaLR:
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1 - 0.9 * min(1.0, budget.spent))

    def update(**settings: Any) -> Update:
        return Update(optimizer=adamw(options.lr), lr_scheduler=falling, **settings)

    policy = CausalLM(start)
    module = METHODS[method](
        policy,
        update=update,
        sampling=Sampling(num_samples=repair.GROUP, max_tokens=repair.MAX_TOKENS),
        rewards=[TestsReward()],
        sandbox=Sandbox,
        seed=seed,
    )
    started = time.process_time()
    data = repair.task(seed, batch_size=8, num_train_problems=repair.NUM_TRAINED)
    trainer(options.folder, [budget]).fit(module, data)
    seconds = time.process_time() - started
    curve = [(share * options.tokens, shares) for share, shares in budget.curve]
    found = {"method": method, "seed": seed, "rollouts": budget.done, "tokens": budget.sampled, "curve": curve}
    return found | {"shares": repair.measure(policy), "cpu_seconds": seconds}


def expert_cell(method: str, seed: int, start: str, options: argparse.Namespace) -> dict[str, Any]:
    """Sample, keep what passes and imitate it, until as many tokens were sampled as by a method above."""
    task = "tellable_told" if options.told else "tellable"
    settings = Settings(task, start, "passed", problems=128, samples=8, epochs=2, batch_size=32, lr=6e-4)
    folder = options.folder / f"expert_{seed}"
    started, curve = time.process_time(), []
    with Sandbox() as sandbox:
        for done in expert_iteration(settings, seed, options.tokens, folder):
            policy = CausalLM(str(folder / f"round_{done.number}") if done.number else start)
            problems = repair.held_out()[: repair.NUM_ALONG_THE_WAY]
            curve.append((done.tokens, repair.measured(policy, problems, repair.GREEDY, sandbox)))
            if done.tokens >= options.tokens:
                break
    seconds = time.process_time() - started
    found = {"method": method, "seed": seed, "rollouts": done.number, "tokens": done.tokens, "curve": curve[1:-1]}
    return found | {"shares": repair.measure(policy), "cpu_seconds": seconds}


def from_feedback(seeds: list[int], methods: list[str], options: argparse.Namespace) -> None:
    """The second comparison: a table and a plot of the cells that are there."""
    repair.quiet()
    repair.KEY_POINTS = tuple((i + 1) / 8 for i in range(7))  # type: ignore[assignment]
    options.folder.mkdir(parents=True, exist_ok=True)
    start = repair.warm_start(options.folder, options.sft_updates)
    before = options.folder / "before.json"
    if not before.exists():
        before.write_text(json.dumps(repair.measure_start(start)))
    cells = []
    for seed in seeds:
        for method in methods:
            path = options.folder / f"{method} {seed} {options.tokens}.json".replace(" ", "_").replace(",", "")
            if not path.exists():
                run = expert_cell if method == EXPERT else cell
                path.write_text(json.dumps(run(method, seed, start, options)))
            cells.append(json.loads(path.read_text()))
    shares = json.loads(before.read_text())
    print(table(shares, cells))
    draw(shares, cells, options.folder / "pass_by_tokens.svg")


class Agreement(Distillation):
    """Prints how probable what it teaches is to policy and teacher, in the mean per token."""

    def _with_sampled_gap(self, experience: Experience, divergence: SampledReverseKL) -> Experience:
        assert self.taught is not None and experience.teacher_view is not None
        rows = (experience.row_mask & self.taught.any(-1)).nonzero()[:, 0]
        theirs = self.logprobs.under(self.scorer, experience.teacher_view, [rows])
        ours, taught = self.logprobs.old(experience.completions, self.dealt), self.taught & experience.loss_mask
        policy, teacher = (float(logprobs[taught].exp().mean()) for logprobs in (ours, theirs))
        print(f"{len(rows)} failed of {len(taught)} rows: policy {policy:.3f}, teacher {teacher:.3f}")
        return super()._with_sampled_gap(experience, divergence)


def agreement(options: argparse.Namespace) -> None:
    """The third comparison: three rollouts of 32 problems, of which nothing is learned."""
    repair.quiet()
    options.folder.mkdir(parents=True, exist_ok=True)
    module = Agreement(
        CausalLM(repair.warm_start(options.folder, options.sft_updates)),
        teacher="policy",
        hindsight=HINDSIGHT,
        distil=Distil(SampledReverseKL()),
        update=Update(optimizer=adamw(1e-12)),
        sampling=Sampling(num_samples=repair.GROUP, max_tokens=repair.MAX_TOKENS),
        rewards=[TestsReward()],
        sandbox=Sandbox,
        max_rollouts=3,
    )
    trainer(options.folder, []).fit(module, repair.task(batch_size=32, num_train_problems=repair.NUM_TRAINED))


COLUMNS = ("greedy/turn_1", "sampled/turn_1", "greedy/turn_2", "sampled/turn_2")


def by_method(cells: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return {name: of for name in (*METHODS, EXPERT) if (of := [one for one in cells if one["method"] == name])}


def spread(values: list[float], digits: int = 3) -> str:
    """Mean and standard deviation."""
    text = f"{statistics.mean(values):.{digits}f}"
    return text + (f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else "")


def table(before: dict[str, float], cells: list[dict[str, Any]]) -> str:
    """Markdown: the start, and each method over its seeds."""
    lines = ["| method | seeds | tokens | " + " | ".join(COLUMNS) + " | CPU s |", "|---" * (len(COLUMNS) + 4) + "|"]
    lines.append("| start | | | " + " | ".join(f"{before[name]:.3f}" for name in COLUMNS) + " | |")
    for name, of_method in by_method(cells).items():
        shown = [spread([one["shares"][column] for one in of_method]) for column in COLUMNS]
        tokens, cpu = (spread([one[key] for one in of_method], 0) for key in ("tokens", "cpu_seconds"))
        lines.append(f"| {name} | {len(of_method)} | {tokens} | " + " | ".join(shown) + f" | {cpu} |")
    return "\n".join(lines)


def draw(before: dict[str, float], cells: list[dict[str, Any]], path: Path) -> None:
    """Greedy pass@1 of one turn by sampled tokens: each method's mean over seeds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for name, of_method in by_method(cells).items():
        points = zip(*(one["curve"] for one in of_method), strict=False)
        means = [
            (statistics.mean(x for x, _ in at), statistics.mean(shares["turn_1"] for _, shares in at)) for at in points
        ]
        axes.plot(*zip((0, before["greedy/turn_1"]), *means, strict=True), label=name)
    axes.set(xlabel="sampled tokens", ylabel="greedy pass@1, one turn")
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path)
    print(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparison", choices=["teacher", "feedback", "agreement"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--methods", nargs="+", default=[*METHODS, EXPERT], choices=[*METHODS, EXPERT], metavar="METHOD"
    )
    parser.add_argument("--tokens", type=int, default=45_000, help="that each cell of the second comparison samples")
    parser.add_argument("--told", action="store_true", help="every constant stands in the prompt of the second one")
    parser.add_argument("--sft-updates", type=int, default=800, help="of the second comparison's warm start")
    parser.add_argument("--lr", type=float, default=1e-3, help="of the second comparison")
    parser.add_argument("--folder", type=Path, default=Path("runs/distillation"), help="of policies and results")
    options = parser.parse_args()
    options.folder = (
        options.folder / (KEPT.get(options.comparison, options.comparison) + "_told" * options.told)
    ).resolve()
    repair.UNTOLD = not options.told
    if options.comparison == "teacher":
        with_teacher(options.seeds, options.folder)
    elif options.comparison == "agreement":
        agreement(options)
    else:
        from_feedback(options.seeds, options.methods, options)


if __name__ == "__main__":
    main()
