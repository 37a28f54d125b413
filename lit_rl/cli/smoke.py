"""``lit-rl fit --config FILE --smoke``: a short, small run of a configuration that says whether everything works.

Trains the first rollouts on few problems, in a folder of its own, then checks what a healthy run shows: programs run,
rewards vary, the first ratio is 1, the weights and the loss move, memory stays flat, the checkpoint loads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import lightning.pytorch as pl
import torch

from lit_rl.callbacks.checkpointing import Checkpointing
from lit_rl.callbacks.diagnostics import Diagnostics
from lit_rl.cli.config_files import files_of
from lit_rl.reports.diagnosis import FirstRatio
from lit_rl.reports.diagnosis.run_history import some_weights

FLAG = "--smoke"
ROLLOUTS = 20
_MOST_PROBLEMS = 4
_FOLDER_VARIABLE = "LIT_RL_SMOKE_FOLDER"
_MOST_FAILURES, _MOST_TIMED_OUT = 0.05, 0.5
_MOST_GROWTH, _SMALL_GROWTH = 0.1, 0.1
_LARGEST_GAP = 0.05


class Check(NamedTuple):
    """What was looked at, whether it is as it should be, and what was seen."""

    name: str
    passed: bool
    seen: str

    def line(self) -> str:
        """For the report."""
        return f"  {'pass' if self.passed else 'FAIL'}  {self.name:<22}  {self.seen}"


class Observer(pl.Callback):
    """Notes the numbers of each rollout, or update, and the weights before and after."""

    def __init__(self) -> None:
        self.steps: list[dict[str, float]] = []
        self.before = self.after = torch.zeros(0)

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Note the weights."""
        self.before = some_weights(pl_module)

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, *_: Any) -> None:
        """Note what was logged."""
        values = {name: float(value) for name, value in trainer.callback_metrics.items() if name[:3] != "val"}
        self.steps.append(values)
        self.after = some_weights(pl_module)

    def values(self, name: str) -> list[float]:
        """A metric of each rollout that logged it."""
        return [step[name] for step in self.steps if name in step]

    def mean(self, name: str) -> float:
        """Its mean, 0 if it was never logged."""
        values = self.values(name)
        return sum(values) / len(values) if values else 0.0


class SmokeTest:
    """A run made short and small, and what it shows.

    Args:
        arguments: of ``lit-rl``, ``--smoke`` or ``--smoke=N`` (rollouts) among them.

    Raises:
        ValueError: another command than ``fit``, or no number of rollouts.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        given = next(argument for argument in arguments if _is_flag(argument))
        number = given.removeprefix(FLAG).removeprefix("=") or str(ROLLOUTS)
        if arguments[0] != "fit":
            raise ValueError(f"{FLAG} tries out a run, got it beside {arguments[0]}: lit-rl fit --config FILE {FLAG}")
        if not number.isdigit() or int(number) < 2:
            raise ValueError(f"{given} is no number of rollouts from 2 on: {FLAG}=30, or {FLAG} for {ROLLOUTS}")
        self.rollouts = int(number)
        self.folder = smoke_folder(files_of(arguments))
        self.observer = Observer()
        self.diagnostics = Diagnostics(max(2, self.rollouts // 2), rules=[FirstRatio(_LARGEST_GAP)])

    def watch(self, trainer: Any) -> None:
        """Add what observes the run, and a checkpoint at its end."""
        callbacks = [one for one in trainer.callbacks if not isinstance(one, Diagnostics)]
        if not any(isinstance(one, Checkpointing) for one in callbacks):
            callbacks.append(Checkpointing(str(self.folder / "checkpoints"), every_n_rollouts=self.rollouts))
        trainer.callbacks = [*callbacks, self.diagnostics, self.observer]

    def finish(self, trainer: Any, module: Any, task: Any) -> None:
        """Say what was seen; end with status 1 if something is not as it should be."""
        checks = [*checks_of(module, self.observer), checkpoint_loads(trainer, module, task)]
        failed = [check for check in checks if not check.passed]
        if trainer.is_global_zero:
            notes = [f"  note  {one.rule:<22}  {one.message}" for one in self.diagnostics.found]
            result = f"failed: {', '.join(one.name for one in failed)}" if failed else "passed: everything works"
            print("\n".join([f"smoke test in {self.folder}", *(one.line() for one in checks), *notes, result]))
        if failed:
            raise SystemExit(1)


def wants_smoke(arguments: Sequence[str]) -> bool:
    """Whether a command asks for a smoke test."""
    return any(map(_is_flag, arguments))


def without_flag(arguments: Sequence[str]) -> list[str]:
    """The command itself."""
    return [argument for argument in arguments if not _is_flag(argument)]


def _is_flag(argument: str) -> bool:
    return argument == FLAG or argument.startswith(f"{FLAG}=")


# -- before --------------------------------------------------------------------------------------------------


def smoke_folder(files: Sequence[str]) -> Path:
    """A folder that is not there yet, the same for all processes that this one starts."""
    if _FOLDER_VARIABLE not in os.environ:
        name = Path(files[-1]).stem if files else "run"
        job = os.environ.get("SLURM_JOB_ID") or os.environ.get("TORCHELASTIC_RUN_ID")
        numbers = iter(range(1, sys.maxsize))
        folder = Path("runs/smoke") / (f"{name}_{job}" if job else name)
        while not job and folder.exists():
            folder = Path("runs/smoke") / f"{name}_{next(numbers)}"
        os.environ[_FOLDER_VARIABLE] = str(folder)
    return Path(os.environ[_FOLDER_VARIABLE])


def shrink(config: Any, rollouts: int, folder: Path) -> None:
    """Change a parsed configuration in place: few rollouts of few problems, everything written into one folder."""
    model, data, trainer = config["model"]["init_args"], config["data"]["init_args"], config["trainer"]
    for length in ("max_rollouts", "max_updates"):
        if length in model:
            model[length] = min(rollouts, model[length] or rollouts)
    if data.get("batch_size"):
        data["batch_size"] = min(_MOST_PROBLEMS, data["batch_size"])
    trainer["logger"] = False
    trainer["default_root_dir"] = str(folder)
    trainer["max_epochs"], trainer["max_time"] = -1, None
    if trainer.get("limit_val_batches") != 0:
        trainer["limit_val_batches"] = 1
        trainer["check_val_every_n_epoch"], trainer["val_check_interval"] = None, rollouts
    for callback in trainer.get("callbacks") or []:
        if callback["class_path"].rpartition(".")[2] == "Checkpointing":
            changes = {"folder": str(folder / "checkpoints"), "every_n_rollouts": rollouts, "every_minutes": None}
            for name, value in changes.items():
                callback["init_args"][name] = value


# -- after ---------------------------------------------------------------------------------------------------


def checks_of(module: Any, seen: Observer) -> list[Check]:
    """Everything but the checkpoint."""
    samples = bool(seen.values("reward/mean"))
    checks = [programs_run(module, seen), rewards_vary(seen), first_ratio(module, seen)] if samples else []
    return [*checks, loss_moves(seen), weights_move(seen), memory_is_flat(seen)]


def programs_run(module: Any, seen: Observer) -> Check:
    """Programs are found and judged, and few time out."""
    found, failed = seen.mean("completion/program_rate"), seen.mean("verdict/infrastructure_failure_fraction")
    timed_out = seen.mean("verdict/timed_out_fraction")
    if module.sampler.sandbox is None:
        return Check("programs run", True, "the task has none to run")
    passed = found > 0 and failed <= _MOST_FAILURES and timed_out <= _MOST_TIMED_OUT
    said = f"a program in {found:.0%} of the rows, {failed:.0%} not judged, {timed_out:.0%} timed out"
    return Check("programs run", passed, said)


def rewards_vary(seen: Observer) -> Check:
    """Some groups have unequal rewards: there is something to learn from."""
    trained, spread = seen.mean("update/trained_fraction"), seen.mean("reward/std")
    said = f"mean {seen.mean('reward/mean'):.3g}, std {spread:.2g}, {trained:.0%} of the rows teach something"
    return Check("rewards vary", spread > 0 and trained > 0, said)


def first_ratio(module: Any, seen: Observer) -> Check:
    """Sampler and trainer agree before the update."""
    sampling, gap = module.sampling, seen.mean("sampling/logprob_gap/mean")
    if sampling.top_k or sampling.top_p < 1:
        return Check("the first ratio is 1", True, "cannot be seen: sampling filters by top-k or top-p")
    if module.sampler.settings.staleness:
        return Check("the first ratio is 1", True, "cannot be seen: rows are sampled ahead, by older weights")
    if not seen.values("sampling/logprob_gap/mean"):
        return Check("the first ratio is 1", False, "no row was trained, so there was none")
    return Check("the first ratio is 1", gap <= _LARGEST_GAP, f"sampler and trainer differ by {gap:.2g} nats a token")


def loss_moves(seen: Observer) -> Check:
    """The loss is finite and not always the same."""
    losses = next(
        (values for name in ("policy/loss", "loss", "sft/loss", "dpo/loss") if (values := seen.values(name))), []
    )
    moves = len(set(losses)) > 1 and all(isfinite(loss) for loss in losses)
    said = f"{losses[0]:.3g} at first, {losses[-1]:.3g} at last" if losses else "there was none"
    return Check("the loss moves", moves, said)


def weights_move(seen: Observer) -> Check:
    """The optimizer changes the weights, by less than their own size."""
    moved = float((seen.after - seen.before).norm() / seen.before.norm().clamp(min=1e-30))
    return Check(
        "the weights move", 0 < moved < 1 or (moved > 0 and not seen.before.any()), f"by {moved:.2g} of their size"
    )


def memory_is_flat(seen: Observer) -> Check:
    """The most memory that was taken does not grow in the second half of the run."""
    peaks = seen.values("memory/peak_gigabytes")
    if len(peaks) < 2:
        return Check("memory stays flat", True, "not measured")
    half, last = peaks[len(peaks) // 2], peaks[-1]
    flat = last - half <= max(_MOST_GROWTH * half, _SMALL_GROWTH)
    return Check("memory stays flat", flat, f"{half:.2f} GB after half of the rollouts, {last:.2f} GB at the end")


def checkpoint_loads(trainer: Any, module: Any, task: Any) -> Check:
    """A validation from the last checkpoint has the weights that training ended with."""
    name = "the checkpoint loads"
    (saved,) = [one for one in trainer.checkpoint_callbacks if isinstance(one, Checkpointing)][:1]
    path = saved.run.target("last")
    if path is None:
        return Check(name, False, f"there is none in {saved.run.path}")
    before = some_weights(module)
    with torch.no_grad():
        for parameter in module.policy.parameters():
            if parameter.requires_grad:
                parameter.zero_()
    trainer.validate(module, datamodule=task, ckpt_path=str(path), verbose=False)
    same = bool(torch.equal(some_weights(module), before))
    return Check(name, same, f"{path}" if same else f"{path} has other weights than the run ended with")
