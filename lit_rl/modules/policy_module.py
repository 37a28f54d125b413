"""Base of every algorithm: a policy, its optimizer, its checkpoints, and evaluation by execution."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

import lightning.pytorch as pl
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from lit_rl.data.task import Split, add_inherited_arguments_to_signature
from lit_rl.errors import UsageError, seed_or_global, short_repr
from lit_rl.execution.interface import ProgramRunner
from lit_rl.models.policy import Policy
from lit_rl.models.sampling import RandomKey
from lit_rl.modules.module_config import describe_task_prompts, module_from_config, policy_config_json, to_config
from lit_rl.modules.settings import EvaluationConfig, Optimization
from lit_rl.modules.setup_check import (
    check_setup,
    limit_precision_conversion,
    task_of_trainer,
    warn_about_high_learning_rates,
)
from lit_rl.modules.update_trace import NotFiniteError, Snapshot, likely_cause_of_nonfinite, weight_and_gradient_norms
from lit_rl.rewards.composite import Composite
from lit_rl.rewards.term import RewardTerm
from lit_rl.rollout import Evaluated, RolloutCollector, RolloutConfig, RunnerFactory
from lit_rl.run_files.settings import setting_values_by_name
from lit_rl.signature_check import ArgumentChecks
from lit_rl.training.checkpoints import read_checkpoint, set_checkpoint_loop_counters
from lit_rl.training.host_memory import freeze_gc, keep_freed_memory, unfreeze_gc
from lit_rl.training.precision import add_gradients_to_masters, build_optimizer_with_masters, fp32_masters
from lit_rl.training.progress import StepCounter
from lit_rl.training.ranks import average_gradients, eval_mode, gather_whole_tensor, syncing_gradients_if
from lit_rl.training.schedules import build_schedule_at_step, plateau_states_to_load
from lit_rl.training.strategy import check_strategy
from lit_rl.training.threads import using_run_threads
from lit_rl.types import Problem, Sampling

X_AXIS = "step"
"""Lightning takes the value logged under this name as the place on the x-axis; Lightning's own count begins with 0."""


class _EndSandboxOnException(pl.Callback):
    """Callback that ends the sandbox after an exception; in a notebook, the sandbox would live on."""

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        pl_module.teardown("exception")


class PolicyModule(pl.LightningModule, ArgumentChecks):
    """A policy with an optimizer, evaluated by running what it writes.

    Optimization is manual: subclasses call :meth:`optimizer_step` once per update. There is one optimizer with
    parameter groups, so that ``global_step`` is the number of updates; ``clock`` counts training steps.

    Args:
        policy: the policy to train.
        rewards: reward terms; their mean is reported in validation too.
        sandbox: runs programs; or a function that builds the sandbox when a run starts. At its end the run closes a
            sandbox that it started; a sandbox that was running before stays open.
        collect: how rollouts are collected.
        update: how one optimizer step is made.
        evaluate: how the policy is measured.
        clock: counts training steps.
        seed: seed of every random stream of the run; by default that of ``seed_everything``, or 0.
    """

    metric_prefix = ""
    """Prefix of the metrics of a loss on given texts."""
    sampling: Sampling | None = None
    """Sampling settings of training; ``None`` if it does not sample."""
    samples_to_train = False
    """True if training runs programs too, not only validation."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "__init__" in vars(cls):
            add_inherited_arguments_to_signature(cls)

    def __init__(
        self,
        policy: Policy,
        *,
        rewards: list[RewardTerm] | Composite | None,
        sandbox: RunnerFactory | ProgramRunner | None,
        collect: RolloutConfig,
        update: Optimization,
        evaluate: EvaluationConfig,
        clock: StepCounter,
        seed: int | None,
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.strict_loading = False  # frozen weights are not in a checkpoint; load_state_dict checks the rest
        self.policy = policy
        self.rewards = rewards if rewards is None or isinstance(rewards, Composite) else Composite(rewards)
        self.seed = seed_or_global(seed)
        self.collector = RolloutCollector(policy, sandbox, collect, self.seed)
        self.progress = self.collector.progress
        self.update = update
        self.evaluate = evaluate
        self.clock = clock
        self.run_folder = Path()
        self.num_threads: int | None = None
        self._threads = ExitStack()

    @property
    def is_fitting(self) -> bool:
        """True if a trainer is training this module now; False if a trainer only measures it or there is none."""
        return self._trainer is not None and self.trainer.state.fn == TrainerFn.FITTING

    # -- life of a run -------------------------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        check_strategy(self.trainer.strategy)
        check_setup(self, stage)
        limit_precision_conversion(self.trainer)
        self.collector.open()
        if self.rewards is not None:
            self.rewards.setup()

    def configure_model(self) -> None:
        self.load_models()
        datamodule = getattr(self.trainer, "datamodule", None)
        if datamodule is not None:
            datamodule.set_problem_filter(self.select_usable_problems)
        self.configure_threads()
        keep_freed_memory(self.trainer.strategy.root_device)

    def configure_threads(self, saved: int | None = None) -> None:
        """Set torch's number of threads until the run ends, to suit what is loaded, or to a checkpoint's number."""
        self._threads.close()
        strategy: Any = self.trainer.strategy
        steps_on = torch.device("cpu") if getattr(strategy, "offload", False) else strategy.root_device
        of_run = using_run_threads(self, steps_on, saved)
        self.num_threads = self._threads.enter_context(of_run)

    def select_usable_problems(self, problems: list[Problem], task: str, split: Split) -> list[Problem]:
        """Return the problems of a task's split whose prompts leave room for a completion."""
        kept = [problem for problem in problems if self.collector.has_room_for_completion(problem)]
        if len(kept) < len(problems):
            rank_zero_info(
                f"{task}: {len(problems) - len(kept)} of {len(problems)} {split} problems left out: "
                "their prompts leave no room for a completion in the policy's context or max_row_tokens"
            )
        return kept

    def load_models(self) -> None:
        """Load what the constructor left out; later calls do nothing."""
        self.collector.policy = self.policy  # another policy may have been assigned since
        self.policy.load()

    def configure_callbacks(self) -> list[pl.Callback]:
        """Return a callback that ends the sandbox after an exception: Lightning does not call teardown then."""
        return [_EndSandboxOnException()]

    def on_fit_start(self) -> None:
        """Note the run's folder while all ranks are together: asking the trainer for the folder waits for all ranks."""
        self.run_folder = Path(self.trainer.log_dir or self.trainer.default_root_dir)
        self.fast_forward_schedule()  # fails before a callback writes; repeated once the optimizer is restored

    def on_train_start(self) -> None:
        """Stop if the resumed run has already reached its limit; otherwise step the schedule to where the run is."""
        freeze_gc()  # leaves what is loaded out of garbage collections
        if self.clock.is_over:
            count = f"{self.clock.count} of {self.clock.limit} {self.clock.unit}s"
            rank_zero_info(
                f"the run has finished ({count}), so nothing is trained: raise model.max_{self.clock.unit}s "
                "to continue it, or begin another run with a new module in another folder"
            )
            self.trainer.should_stop = True
            return
        self.fast_forward_schedule()
        self.clock.planned = self.clock.limit
        values = setting_values_by_name(self.settings())
        # TensorBoard has the settings that TensorBoardLayout writes.
        others = [one for one in self.loggers if not isinstance(one, TensorBoardLogger)]
        for logger in others if self.trainer.enable_autolog_hparams else ():
            try:
                logger.log_hyperparams(values)
            except Exception as error:  # of a service: MLflow refuses to change a parameter when a run resumes
                rank_zero_warn(f"{type(logger).__name__} did not take the settings of the run: {error}")
        warn_about_high_learning_rates(self.trainer.optimizers[0])

    def on_train_end(self) -> None:
        unfreeze_gc()

    def teardown(self, stage: str) -> None:
        self.collector.close()
        self._threads.close()

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        if isinstance(batch, str | Mapping) or any(isinstance(one, str | Mapping) for one in batch):
            raise UsageError(
                f"a batch must be a list of lit_rl.types.Problem, got {short_repr(batch)}: give a task of lit_rl.data "
                "or your own (see lit-rl docs tasks)"
            )
        return batch

    # -- updates -------------------------------------------------------------------------------------------

    def trained_parameters_by_group(self) -> dict[str, list[nn.Parameter]]:
        """Return each group's trained parameters; a group has its own gradient norm and can have its own rate."""
        return {"policy": [p for p in self.policy.parameters() if p.requires_grad]}

    def set_group_learning_rates(self, optimizer: Optimizer) -> None:
        """Give groups of parameters learning rates of their own, before a schedule sees them."""

    def max_gradient_norm(self, group: str) -> float | None:
        """Largest gradient norm of a parameter group."""
        return self.update.gradient_clip_norm

    def configure_optimizers(self) -> Any:
        groups = self.trained_parameters_by_group()
        if frozen := [name for name, weights in groups.items() if not weights]:
            raise UsageError(f"no weight of the {frozen[0]} is trainable (requires_grad=False): unfreeze some weights")
        return self.build_optimizer_and_schedule([{"params": group, "name": name} for name, group in groups.items()])

    def build_optimizer_and_schedule(self, groups: list[dict[str, Any]]) -> Any:
        """Return the optimizer of some parameter groups, with the schedule if there is one, as Lightning takes them."""
        optimizer = build_optimizer_with_masters(self.update.optimizer, groups)
        self.set_group_learning_rates(optimizer)
        if self.update.lr_scheduler is None:
            return optimizer
        schedule = self.build_schedule(optimizer)
        if not isinstance(schedule, ReduceLROnPlateau):
            return {"optimizer": optimizer, "lr_scheduler": schedule}
        watched: Any = schedule  # the class of lightning.pytorch.cli names its metric
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "monitor": watched.monitor}}

    def build_schedule(self, optimizer: Optimizer) -> Any:
        """Return the schedule of an optimizer's learning rates."""
        assert self.update.lr_scheduler is not None
        return self.update.lr_scheduler(optimizer)

    def fast_forward_schedule(self) -> None:
        """Build the schedule anew and advance it to the run's step.

        Without this, a second fit would begin at 0, and a checkpoint would restore the state of another schedule.
        """
        if self.update.lr_scheduler is not None and not self.clock.is_over:
            placed = build_schedule_at_step(self.build_schedule, self.trainer.optimizers[0], self.clock)
            if placed is not None:
                self.trainer.strategy.lr_scheduler_configs[0].scheduler = placed

    def manual_backward(self, loss: Tensor, *args: Any, last: bool = True, **kwargs: Any) -> None:
        """Add to the gradients, and average them over ranks in the ``last`` pass before an optimizer step.

        FSDP2 averages in each pass unless ``whole_gradients``; float32 masters wait for :meth:`optimizer_step`.
        """
        optimizer: Any = self.optimizers()
        strategy: Any = self.trainer.strategy
        now = last and not fp32_masters(optimizer.optimizer)  # those of masters are summed in float32, before the step
        with syncing_gradients_if(strategy.model, now, whole=getattr(strategy, "whole_gradients", False)):
            super().manual_backward(loss, *args, **kwargs)
        add_gradients_to_masters(optimizer.optimizer)

    def optimizer_step(self) -> dict[str, float]:  # type: ignore[override]  # Lightning calls it in automatic mode only
        """Check that each group's gradient is finite, clip it, take a step, and clear the gradients.

        Returns:
            Norm of each group's gradient before clipping, by metric name.
        """
        optimizer: Any = self.optimizers()
        if fp32_masters(optimizer.optimizer):
            average_gradients([parameter for group in optimizer.param_groups for parameter in group["params"]])
        norms, parts = {}, dict[str, list[Tensor]]()
        for group in optimizer.param_groups:  # the user's own optimizer may have split a part, for example by shape
            parts.setdefault(group["name"], []).extend(group["params"])
        for name, weights in parts.items():
            norm: Any = torch.nn.utils.get_total_norm([p.grad for p in weights if p.grad is not None])
            value = float(gather_whole_tensor(norm))
            # Checked before clipping, which would spread one bad number over all gradients in the evidence.
            self.require_finite(f"gradient norm of the {name}", value)
            norms[f"{name}/gradient_norm"] = value
            if (limit := self.max_gradient_norm(name)) is not None:
                torch.nn.utils.clip_grads_with_norm_(weights, limit, norm)
        optimizer.step()
        optimizer.zero_grad()
        self.policy.version += 1
        self.collector.engine.mark_weights_stale()
        return norms

    def step_schedule(self) -> None:
        """Advance the schedule by one training step, unless the schedule waits for a metric."""
        schedule: Any = self.lr_schedulers() if self.update.lr_scheduler is not None else None
        if schedule is not None and not isinstance(schedule, ReduceLROnPlateau):
            with warnings.catch_warnings():
                # A first rollout with nothing to learn makes no optimizer step, and the schedule moves all the same.
                warnings.filterwarnings("ignore", message=r".*lr_scheduler\.step\(\)` before `optimizer\.step\(\)`.*")
                schedule.step()

    def step_plateau_schedule(self, metrics: Mapping[str, Any]) -> None:
        """Give a ``ReduceLROnPlateau`` the metric that it watches, if that metric was just measured."""
        schedule: Any = self.lr_schedulers() if self.update.lr_scheduler is not None else None
        if isinstance(schedule, ReduceLROnPlateau) and (monitor := getattr(schedule, "monitor", "")) in metrics:
            schedule.step(float(metrics[monitor]))

    def require_finite(self, what: str, value: float) -> None:
        """Stop the run if a quantity is not finite, after saving the data of the update."""
        if math.isfinite(value):
            return
        step, rank = self.trainer.global_step, self.trainer.global_rank
        optimizer: Any = self.optimizers()
        evidence = {"quantity": what, "value": value, "update": step, "learning_rate": optimizer.param_groups[0]["lr"]}
        evidence |= self.crash_snapshot() | weight_and_gradient_norms(self, fp32_masters(optimizer.optimizer))
        path = self.run_folder / f"not_finite_update_{step}_rank_{rank}.pt"
        saved = f"rows, rewards, log-probabilities and norms are in {path}"
        try:
            self.run_folder.mkdir(parents=True, exist_ok=True)
            torch.save(evidence, path)
        except OSError:  # which must not hide the error itself
            saved = f"the data of the update could not be written to {self.run_folder}"
        cause = likely_cause_of_nonfinite(evidence)
        raise NotFiniteError(f"{what} is {value} at update {step}: {cause}. The optimizer did not step; {saved}")

    def crash_snapshot(self) -> Snapshot:
        """Return tensors of the current update, which :meth:`require_finite` saves."""
        return {}

    # -- evaluation ----------------------------------------------------------------------------------------

    def validation_step(  # type: ignore[override]  # callbacks read what it returns
        self, batch: Sequence[Problem], batch_idx: int, dataloader_idx: int = 0
    ) -> Evaluated:
        rollouts, rewards = {}, {}
        with torch.no_grad(), eval_mode(self.policy):
            for name, sampling in self.validation_sampling.items():
                # Every evaluation has the same random numbers: curves then differ by the policy alone.
                key = RandomKey(self.seed, f"validation/{name}", 0)
                self.progress.begin(key.purpose)
                rollout = rollouts[name] = self.collector.collect(batch, sampling, key)
                if self.rewards is not None:
                    self.progress.enter_phase("rewarding")
                    rewards[name] = self.rewards(rollout.completions, rollout.judgements)
        self.progress.end_and_take_seconds()
        return Evaluated(rollouts, rewards, self.collector.judge_empty_programs(batch))

    @property
    def validation_sampling(self) -> dict[str, Sampling]:
        """Sampling settings of validation, by name."""
        return self.evaluate.samplings_or_greedy(None if self.sampling is None else self.sampling.max_tokens)

    def test_step(  # type: ignore[override]
        self, batch: Sequence[Problem], batch_idx: int, dataloader_idx: int = 0
    ) -> Evaluated:
        return self.validation_step(batch, batch_idx, dataloader_idx)

    def predict_step(self, batch: Sequence[Problem], batch_idx: int, dataloader_idx: int = 0) -> Evaluated:
        self.progress.begin("predict")
        with torch.no_grad(), eval_mode(self.policy):
            rollout = self.collector.collect(batch, self.evaluate.predict, RandomKey(self.seed, "predict", 0))
        self.collector.refuse_too_many_unjudged(rollout)
        rewards = {} if self.rewards is None else {"predict": self.rewards(rollout.completions, rollout.judgements)}
        return Evaluated({"predict": rollout}, rewards)

    def on_validation_epoch_end(self) -> None:
        """Pass the metrics of a validation to the schedule, before a checkpoint stores its state."""
        if self.is_fitting:
            measured = self.trainer.callback_metrics
            self.step_plateau_schedule({name: value for name, value in measured.items() if name.startswith("val")})
            self.log(X_AXIS, float(self.clock.count), rank_zero_only=True)

    # -- checkpoints ---------------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """Return this module and its task as a configuration has them, to be compared with a later start of the run."""
        model = to_config(self)
        model["init_args"]["collect"] = to_config(self.collector.settings)
        made = {"optimizer": self.trainer.optimizers[0], "lr_scheduler": self.lr_schedulers()}
        model["init_args"]["update"] |= to_config(made)
        return {"model": model, "data": to_config(task_of_trainer(self.trainer))}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["policy_version"] = self.policy.version
        checkpoint["made_of"] = policy_config_json(self, self.policy)
        checkpoint["task"] = None if self._trainer is None else describe_task_prompts(task_of_trainer(self.trainer))
        checkpoint["num_threads"] = self.num_threads
        self.clock.save(checkpoint)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Make a fit resume at the training step after the checkpoint's, even at the end of an epoch."""
        if self._trainer is not None:  # before weights of 64-true are restored, which float32 would round
            self._trainer.precision_plugin.convert_module(self)
        if self.is_fitting:
            self.clock.require_same_unit(checkpoint, type(self).__name__)
            set_checkpoint_loop_counters(self.trainer, checkpoint)
            if self.update.lr_scheduler is not None:
                checkpoint["lr_schedulers"] = plateau_states_to_load(checkpoint["lr_schedulers"])
            self.configure_threads(checkpoint.get("num_threads"))
        self.policy.version = checkpoint.get("policy_version", 0)
        self.clock.load(checkpoint)

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """Return all weights but frozen base weights, which the configuration can rebuild."""
        state: dict[str, Any] = super().state_dict(*args, **kwargs)
        frozen = {name for name, p in self.named_parameters(remove_duplicate=False) if not p.requires_grad}
        dropped = {name for name in frozen if not self.policy.saves_frozen_parameter(name)}
        # Scales of a 4-bit weight are named after it: base.weight.absmax goes with base.weight.
        return {
            name: value
            for name, value in state.items()
            if dropped.isdisjoint(accumulate(name.split("."), "{}.{}".format))  # a, a.b, a.b.c of a.b.c
        }

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        self.prepare_for_saved_weights({name: tuple(value.shape) for name, value in state_dict.items()})
        return super().load_state_dict(state_dict, strict=False, assign=assign)

    def prepare_for_saved_weights(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Make room for a checkpoint's weights, and raise if the checkpoint is of another model."""
        self.policy.add_reference_if_saved(shapes.keys())
        own = {name: tuple(value.shape) for name, value in self.state_dict().items()}
        wrong = [name for name in own.keys() | shapes.keys() if own.get(name) != shapes.get(name)]
        if wrong:
            raise UsageError(
                f"the checkpoint is of another model: {len(wrong)} weights differ in name or shape, "
                f"for example {sorted(wrong)[0]}; resume with the configuration it was made with"
            )

    @classmethod
    def load_from_checkpoint(  # type: ignore[override]  # hyperparameters are the configuration that it holds
        cls, checkpoint_path: str | Path, *, trust: Sequence[str] = (), **arguments: Any
    ) -> Self:
        """Build a module with the weights of a checkpoint.

        Args:
            checkpoint_path: a file or a folder of shards.
            trust: modules and classes of your own, such as ``my_rewards``, that the configuration in the checkpoint
                may name; any other that is not part of lit_rl is neither imported nor built.
            **arguments: arguments of the constructor; without any the module is built as the configuration in the
                checkpoint says.
        """
        checkpoint = read_checkpoint(Path(checkpoint_path))
        if arguments:
            module = cls(**arguments)
        else:
            named = (*trust, f"{cls.__module__}.{cls.__qualname__}")
            module = module_from_config(PolicyModule, checkpoint, checkpoint_path, named)
        module.load_models()
        module.on_load_checkpoint(checkpoint)
        module.load_state_dict(checkpoint["state_dict"])
        return module
