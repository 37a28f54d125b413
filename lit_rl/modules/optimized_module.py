"""One optimizer with parameter groups: clipped, stepped and scheduled by the module itself."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from lightning.pytorch.trainer.states import TrainerFn
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from lit_rl.engines.base import Engine
from lit_rl.models.masters import build_optimizer, take_gradients
from lit_rl.modules.finite import Evidence, NotFiniteError, likely_cause, norms, save_evidence
from lit_rl.modules.stored_module import StoredModule

X_AXIS = "step"
"""Lightning takes what is logged by this name as the place on the x-axis; its own count begins with 0."""


class OptimizedModule(StoredModule):
    """A module that steps its optimizer itself: subclasses call :meth:`optimizer_step` once per update."""

    optimizer: OptimizerCallable
    lr_scheduler: LRSchedulerCallable | None
    gradient_clip_norm: float | None
    engine: Engine
    run_folder: Path

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    @property
    def steps_done(self) -> int:
        """What the x-axis of every curve counts: updates, or rollouts where there are rollouts."""
        return int(self.trainer.global_step)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """What learns, by name: each group has its own gradient norm and can have its own learning rate."""
        return {"policy": [p for p in self.policy.parameters() if p.requires_grad]}

    def group_learning_rates(self) -> dict[str, float]:
        """Learning rates of groups that do not use the optimizer's."""
        return {}

    def configure_optimizers(self) -> Any:
        """One optimizer, one parameter group for each part that learns, the schedule if there is one."""
        rates = self.group_learning_rates()
        groups: list[dict[str, Any]] = [
            {"params": group, "name": name} | ({"lr": rates[name]} if name in rates else {})
            for name, group in self.parameter_groups().items()
        ]
        return self.optimizer_of(groups)

    def optimizer_of(self, groups: list[dict[str, Any]]) -> Any:
        """The optimizer of some parameter groups, with the schedule if there is one, as Lightning takes them.

        Raises:
            ValueError: numbers that make no sense, or a ``ReduceLROnPlateau`` without a metric.
        """
        optimizer = build_optimizer(self.optimizer, groups)
        if self.lr_scheduler is None:
            return optimizer
        schedule = self.lr_scheduler(optimizer)
        if not isinstance(schedule, ReduceLROnPlateau):
            return {"optimizer": optimizer, "lr_scheduler": schedule}
        monitor = getattr(schedule, "monitor", None)
        if monitor is None:
            raise ValueError(
                "ReduceLROnPlateau needs a metric to look at: use lightning.pytorch.cli.ReduceLROnPlateau and set "
                "its monitor, such as val/greedy/pass@1"
            )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "monitor": monitor}}

    def optimizer_step(self) -> dict[str, float]:  # type: ignore[override]  # Lightning calls it in automatic mode only
        """Check that each group's gradient is finite, clip it, step, clear it.

        Returns:
            Norm of each group's gradient before clipping, by metric name.
        """
        optimizer: Any = self.optimizers()
        take_gradients(optimizer.optimizer)
        norms = {}
        for group in optimizer.param_groups:
            limit = self.clip_norm(group["name"])
            norm: Any = torch.nn.utils.get_total_norm([p.grad for p in group["params"] if p.grad is not None])
            value = float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)
            # Before clipping, which would spread one bad number over all gradients in the evidence.
            self.require_finite(f"gradient norm of the {group['name']}", value)
            norms[f"{group['name']}/gradient_norm"] = value
            if limit is not None:
                torch.nn.utils.clip_grads_with_norm_(group["params"], limit, norm)
        optimizer.step()
        optimizer.zero_grad()
        self.policy.version += 1
        self.engine.mark_stale()
        return norms

    def clip_norm(self, group: str) -> float | None:
        """Largest gradient norm of a parameter group."""
        return self.gradient_clip_norm

    def step_schedule(self) -> None:
        """Move the learning rate on by one training step; one that waits for a metric stays."""
        schedule: Any = self.lr_schedulers() if self.lr_scheduler is not None else None
        if schedule is not None and not isinstance(schedule, ReduceLROnPlateau):
            with warnings.catch_warnings():
                # A first rollout with nothing to learn makes no optimizer step, and the schedule moves all the same.
                warnings.filterwarnings("ignore", message=r".*lr_scheduler\.step\(\)` before `optimizer\.step\(\)`.*")
                schedule.step()

    def step_plateau(self, metrics: Mapping[str, Any]) -> None:
        """Show a ``ReduceLROnPlateau`` its metric, if that is among those just measured."""
        schedule: Any = self.lr_schedulers() if self.lr_scheduler is not None else None
        if isinstance(schedule, ReduceLROnPlateau) and (monitor := getattr(schedule, "monitor", "")) in metrics:
            schedule.step(float(metrics[monitor]))

    def on_validation_epoch_end(self) -> None:
        """Show the schedule what validation measured, before a checkpoint holds its state."""
        if self.trainer.state.fn == TrainerFn.FITTING:
            measured = self.trainer.callback_metrics
            self.step_plateau({name: value for name, value in measured.items() if name.startswith("val")})
            self.log(X_AXIS, float(self.steps_done), rank_zero_only=True)

    def require_finite(self, what: str, value: float) -> None:
        """Stop the run if a quantity is not finite, after saving what the update was made of.

        Raises:
            NotFiniteError: it is NaN or infinite; the message names step, quantity, likely cause and the file.
        """
        if math.isfinite(value):
            return
        step, rank = self.trainer.global_step, self.trainer.global_rank
        evidence = {"quantity": what, "value": value, "update": step} | self.evidence() | norms(self)
        path = save_evidence(self.run_folder, f"not_finite_update_{step}_rank_{rank}.pt", evidence)
        raise NotFiniteError(
            f"{what} is {value} at update {step}: {likely_cause(evidence)}. The optimizer did not step; "
            + (
                f"rows, rewards, log-probabilities and norms are in {path}"
                if path
                else f"what it was made of could not be written to {self.run_folder}"
            )
        )

    def evidence(self) -> Evidence:
        """What the current update was made of, for :meth:`require_finite` to save."""
        return {}
