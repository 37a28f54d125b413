"""What every module shares: a policy, its optimizer, and evaluation by execution."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

import lightning.pytorch as pl
import torch
import yaml
from jsonargparse import ArgumentParser
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from lightning.pytorch.trainer.states import TrainerFn
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from lit_rl.bounds import require_above
from lit_rl.data.base import Split, TaskDataModule
from lit_rl.engines.base import Engine
from lit_rl.engines.in_process import InProcess
from lit_rl.execution.outcome import Outcome, Verdict
from lit_rl.execution.runner import ProgramRunner
from lit_rl.models.export import read_checkpoint
from lit_rl.models.masters import build_optimizer, take_gradients
from lit_rl.models.policy import Policy
from lit_rl.models.streams import StreamKey
from lit_rl.modules.epochs import settle_progress
from lit_rl.modules.finite import Evidence, NotFiniteError, likely_cause, norms, save_evidence
from lit_rl.rewards.base import RewardTerm
from lit_rl.rewards.composite import Composite
from lit_rl.rollout import Evaluated, Rollout, collect, require_infrastructure
from lit_rl.signatures import show_all_arguments
from lit_rl.training.modes import evaluating
from lit_rl.training.strategy import check_strategy
from lit_rl.types import Problem, Sampling

LARGEST_FAILED_SHARE = 0.1
"""Share of programs that may fail for our own reasons before what is left says too little."""

RunnerFactory = Callable[[], ProgramRunner]


class _TearDownOnException(pl.Callback):
    """In a notebook the process lives on after an exception, and the sandbox would with it."""

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        pl_module.teardown("exception")


class PolicyModule(pl.LightningModule):
    """A policy with an optimizer, evaluated by running what it writes.

    Manual optimization: subclasses call :meth:`optimizer_step` once per update. One optimizer with parameter
    groups, so that ``global_step`` is the number of updates; rollouts are counted by ``rollout_step``.

    Args:
        policy: what is trained.
        optimizer: from parameters to an optimizer.
        lr_scheduler: from the optimizer to a schedule, stepped once per training step; ``ReduceLROnPlateau`` whenever
            its metric was measured.
        gradient_clip_norm: largest norm of the gradient of an update; ``None`` for no limit.
        validation_sampling: how validation samples, by name; metrics are ``val/<name>/...``.
        predict_sampling: how ``predict`` samples; eight completions of each problem unless said otherwise.
        rewards: reward terms; their mean is reported in validation too.
        sandbox: what runs programs, or a function that builds it when a run starts. The run closes at its end what it
            started; a sandbox that is running already stays open.
        engine: what samples; by default the trainer's own process.
        seed: of every random stream of the run; on the command line ``seed_everything`` unless it is set, else 0.
    """

    samples_to_train = False
    """Whether training runs programs too, not only validation."""

    def __init__(
        self,
        policy: Policy,
        *,
        optimizer: OptimizerCallable = lambda params: torch.optim.AdamW(params, lr=1e-6),
        lr_scheduler: LRSchedulerCallable | None = None,
        gradient_clip_norm: float | None = 1.0,
        validation_sampling: dict[str, Sampling] | None = None,
        predict_sampling: Sampling = Sampling(num_samples=8),  # noqa: B008  # frozen
        rewards: list[RewardTerm] | Composite | None = None,
        sandbox: RunnerFactory | ProgramRunner | None = None,
        engine: Engine | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        require_above(0, gradient_clip_norm=gradient_clip_norm)
        self.automatic_optimization = False
        self.strict_loading = False  # frozen weights are not in a checkpoint; load_state_dict looks closer
        self.policy = policy
        self.optimizer = optimizer
        self.lr_scheduler = lr_scheduler
        self.gradient_clip_norm = gradient_clip_norm
        self.validation_sampling = validation_sampling or {"greedy": Sampling(temperature=0.0)}
        self.predict_sampling = predict_sampling
        self.rewards = Composite(rewards) if isinstance(rewards, list) else rewards
        self.sandbox = sandbox
        self.engine = engine or InProcess()
        self.seed = seed or 0
        self.runner: ProgramRunner | None = None
        self._silence: dict[str, Future[Outcome]] = {}
        self._runs_longer = False  # the sandbox was running when it was handed in, and stays open
        self.run_folder = Path()

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        show_all_arguments(cls)

    # -- life of a run -------------------------------------------------------------------------------------

    def configure_model(self) -> None:
        """Load the weights and leave out problems that do not fit; called again for validation after fit."""
        self.load_weights()
        datamodule = getattr(self.trainer, "datamodule", None)
        if datamodule is not None:
            datamodule.keep_only(self.policy.fits)

    def setup(self, stage: str) -> None:
        """Start the sandbox; look whether strategy, precision and rewards have what they need.

        Raises:
            ValueError: a strategy or a precision that cannot work here.
        """
        check_strategy(self.trainer.strategy)
        if stage == "fit":  # refuses a rate or a schedule that makes no sense while nothing is loaded yet
            self.optimizer_of(
                [{"params": [nn.Parameter(torch.zeros(()))], "name": name} for name in ("policy", "critic")]
            )
        self.require_problems(stage)
        if getattr(self.trainer.precision_plugin, "scaler", None) is not None:
            raise ValueError(
                "precision 16-mixed scales losses, and gradients would be clipped in their scaled size: "
                "use bf16-mixed or 32-true"
            )
        # bf16-true and 64-true would convert the batch, which holds no tensors, and fail on frozen dataclasses.
        precision: Any = self.trainer.precision_plugin
        precision.convert_input = unchanged
        self.require_sandbox(stage)
        if self.runner is None and self.sandbox is not None:
            self._take_runner(self.sandbox)
        if self.rewards is not None:
            self.rewards.setup()

    def require_problems(self, stage: str) -> None:
        """Check whether the task has what this stage is about.

        Raises:
            ValueError: it has not one problem for it.
        """
        splits: dict[str, Split] = {"fit": "train", "validate": "validation", "test": "test", "predict": "train"}
        task: Any = getattr(self.trainer, "datamodule", None)
        if not isinstance(task, TaskDataModule):
            return
        tasks = (task.validation_tasks or [task]) if stage == "validate" else [task]
        if not any(of.problems(splits[stage]) for of in tasks):
            verb = next(name for name in splits if name == stage)  # Lightning's stages are members of an enumeration
            raise ValueError(f"{task.name} has no {splits[stage]} problems, so there is nothing to {verb}")

    def require_sandbox(self, stage: str) -> None:
        """Check whether there is a sandbox if the problems of this stage have programs to run.

        Raises:
            ValueError: there is none.
        """
        task: Any = getattr(self.trainer, "datamodule", None)
        if self.sandbox is not None or self.runner is not None or not isinstance(task, TaskDataModule):
            return
        validates = stage == "validate" or (stage == "fit" and self.trainer.limit_val_batches)
        problems = [p for of in task.validation_tasks or [task] for p in of.problems("validation")] if validates else []
        if stage == "test":
            problems += task.problems("test")
        if stage == "predict" or (stage == "fit" and self.samples_to_train):
            problems += task.problems("train")
        if any(problem.check.runs_program for problem in problems):
            raise ValueError(
                f"{type(self).__name__} has no sandbox, and the problems of {task.name} have programs to run: set "
                "model.sandbox, such as lit_rl.execution.Sandbox"
                + ("" if self.samples_to_train or stage != "fit" else ", or trainer.limit_val_batches to 0")
            )

    def _take_runner(self, sandbox: RunnerFactory | ProgramRunner) -> None:
        if isinstance(sandbox, ProgramRunner):
            self._runs_longer = sandbox.is_running
            sandbox.reopen()
            self.runner = sandbox
        else:
            self._runs_longer = False
            self.runner = sandbox()

    def on_fit_start(self) -> None:
        """Note the run's folder while all ranks are together: asking the trainer for it waits for all of them."""
        self.run_folder = Path(self.trainer.log_dir or self.trainer.default_root_dir)

    def shorten_bar(self, steps_left: int | None) -> None:
        """Let the epoch's progress bar end where the run ends."""
        shown: Any = self.trainer.progress_bar_callback
        bar = getattr(shown, "train_progress_bar", None) if getattr(shown, "is_enabled", False) else None
        if steps_left is not None and bar is not None and bar.total is not None:
            bar.total = min(bar.total, steps_left)

    def configure_callbacks(self) -> list[pl.Callback]:
        """Have the sandbox ended by an exception too, after which Lightning tears no module down."""
        return [_TearDownOnException()]

    def teardown(self, stage: str) -> None:
        """End the sandbox's processes."""
        if self.runner is not None and not self._runs_longer:
            self.runner.close()
        self.runner = None
        self.engine.close()

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """Batches are problems, which are plain data."""
        return batch

    # -- optimization --------------------------------------------------------------------------------------

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """What learns, by name: each group has its own gradient norm and can have its own learning rate."""
        return {"policy": [p for p in self.policy.parameters() if p.requires_grad]}

    def group_learning_rates(self) -> dict[str, float]:
        """Learning rates of groups that do not take the optimizer's."""
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
        """Look whether each group's gradient is finite, clip it, step, clear it.

        Returns:
            norm of each group's gradient before clipping, by metric name.
        """
        optimizer: Any = self.optimizers()
        take_gradients(optimizer.optimizer)
        norms = {}
        for group in optimizer.param_groups:
            limit = self.clip_norm(group["name"])
            norm: Any = torch.nn.utils.get_total_norm([p.grad for p in group["params"] if p.grad is not None])
            value = float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)
            # Before clipping, which would spread one bad number over all gradients that are written down.
            self.require_finite(f"gradient norm of the {group['name']}", value)
            norms[f"{group['name']}/gradient_norm"] = value
            if limit is not None:
                torch.nn.utils.clip_grads_with_norm_(group["params"], limit, norm)
        optimizer.step()
        optimizer.zero_grad()
        self.engine.after_update(self.policy)
        return norms

    def clip_norm(self, group: str) -> float | None:
        """Largest gradient norm of a parameter group."""
        return self.gradient_clip_norm

    def step_schedule(self) -> None:
        """Move the learning rate one training step on; one that waits for a metric stays."""
        schedule: Any = self.lr_schedulers() if self.lr_scheduler is not None else None
        if schedule is not None and not isinstance(schedule, ReduceLROnPlateau):
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

    def require_finite(self, what: str, value: float) -> None:
        """Stop the run if a quantity is no number, after writing down what the update was made of.

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
                else f"{self.run_folder} took no file"
            )
        )

    def evidence(self) -> Evidence:
        """What the update at hand was made of, for :meth:`require_finite` to write down."""
        return {}

    # -- evaluation ----------------------------------------------------------------------------------------

    def validation_step(  # type: ignore[override]  # callbacks read what it returns
        self, batch: Sequence[Problem], batch_idx: int, dataloader_idx: int = 0
    ) -> Evaluated:
        """Sample, run, and hand the result to whoever counts; every rank takes part, also with no problem."""
        rollouts, rewards = {}, {}
        with torch.no_grad(), evaluating(self.policy):
            for name, sampling in self.validation_sampling.items():
                # The same random numbers at each evaluation: curves then differ by the policy alone.
                key = StreamKey(self.seed, f"validation/{name}", 0)
                rollout = rollouts[name] = self.collect(batch, sampling, key)
                if self.rewards is not None:
                    rewards[name] = self.rewards(rollout.completions, rollout.judgements)
        return Evaluated(rollouts, rewards, self.silence_of(batch))

    def silence_of(self, problems: Sequence[Problem]) -> dict[str, Outcome]:
        """Judge the empty program under checks with stages, once per problem: what writing nothing would earn.

        Failures of ours are left out, and judged again when the problem comes again.
        """
        staged = [problem for problem in problems if problem.check.stages]
        for problem in staged:
            if problem.task_id not in self._silence and self.runner is not None:
                self._silence[problem.task_id] = self.runner.submit("", problem.check)
        outcomes = {p.task_id: self._silence[p.task_id].result() for p in staged if p.task_id in self._silence}
        lost = [name for name, one in outcomes.items() if one.verdict is Verdict.INFRASTRUCTURE_FAILURE]
        for name in lost:
            del self._silence[name], outcomes[name]
        return outcomes

    def test_step(  # type: ignore[override]
        self, batch: Sequence[Problem], batch_idx: int, dataloader_idx: int = 0
    ) -> Evaluated:
        """As validation."""
        return self.validation_step(batch, batch_idx, dataloader_idx)

    def predict_step(self, batch: Sequence[Problem], batch_idx: int, dataloader_idx: int = 0) -> Evaluated:
        """Sample several completions of each problem, run and reward them; NaN where there is no reward.

        Raises:
            ValueError: the module has no rewards, so it cannot say which completion is the better one.
        """
        if self.rewards is None:
            raise ValueError("predict compares completions by their rewards: list at least one reward term")
        with torch.no_grad(), evaluating(self.policy):
            rollout = self.collect(batch, self.predict_sampling, StreamKey(self.seed, "predict", 0))
        require_infrastructure(rollout, LARGEST_FAILED_SHARE)
        return Evaluated({"predict": rollout}, {"predict": self.rewards(rollout.completions, rollout.judgements)})

    def collect(self, problems: Sequence[Problem], sampling: Sampling, key: StreamKey) -> Rollout:
        """Sample completions and run their programs."""
        return collect(self.policy, self.engine, self.runner, problems, sampling, key)

    # -- checkpoints ---------------------------------------------------------------------------------------

    @property
    def is_fitting(self) -> bool:
        """Whether a trainer trains this module now, rather than measuring it or being absent."""
        return self._trainer is not None and self.trainer.state.fn == TrainerFn.FITTING

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Make a fit go on at the rollout after the checkpoint's, also at the end of an epoch."""
        if self.is_fitting:
            settle_progress(self.trainer, checkpoint)

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """All weights but frozen base weights, which the configuration can rebuild."""
        state: dict[str, Any] = super().state_dict(*args, **kwargs)
        frozen = {name for name, p in self.named_parameters(remove_duplicate=False) if not p.requires_grad}
        dropped = {name for name in frozen if not self.policy.keeps(name)}
        # Scales of a 4-bit weight are named after it: base.weight.absmax goes with base.weight.
        return {name: value for name, value in state.items() if dropped.isdisjoint(_and_owners(name))}

    @classmethod
    def load_from_checkpoint(  # type: ignore[override]  # hyperparameters are the configuration that it holds
        cls, checkpoint_path: str | Path, **arguments: Any
    ) -> Self:
        """Build a module with the weights of a checkpoint.

        Args:
            checkpoint_path: a file or a folder of shards.
            **arguments: of the constructor; without any the module is built as the configuration in the
                checkpoint says.

        Raises:
            ValueError: no arguments are given and the checkpoint holds no configuration, or it is of another model.
        """
        checkpoint = read_checkpoint(Path(checkpoint_path))
        module = cls(**arguments) if arguments else cls._as_configured(checkpoint.get("config"), checkpoint_path)
        module.load_weights()
        module.on_load_checkpoint(checkpoint)
        module.load_state_dict(checkpoint["state_dict"])
        return module

    @classmethod
    def _as_configured(cls, config: str | None, path: str | Path) -> Self:
        if not config:
            raise ValueError(
                f"{path} holds no configuration (it was not made by lit-rl fit): give {cls.__name__}'s arguments, "
                "at least policy"
            )
        parser = ArgumentParser(exit_on_error=False)
        parser.add_subclass_arguments(PolicyModule, "model")
        parsed = parser.parse_object({"model": yaml.safe_load(config)["model"]})
        module: Self = parser.instantiate_classes(parsed).model
        return module

    def load_weights(self) -> None:
        """Load what the constructor left out; later calls do nothing."""
        self.policy.load()

    def prepare_to_load(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Make room for what a checkpoint holds, and look whether it is of this model.

        Args:
            shapes: of the checkpoint's weights, by name.

        Raises:
            ValueError: the checkpoint is of another model: names or shapes differ.
        """
        self.policy.make_room(shapes.keys())
        own = {name: tuple(value.shape) for name, value in self.state_dict().items()}
        wrong = [name for name in own.keys() | shapes.keys() if own.get(name) != shapes.get(name)]
        if wrong:
            raise ValueError(
                f"the checkpoint is of another model: {len(wrong)} weights differ in name or shape, "
                f"for example {sorted(wrong)[0]}; resume with the configuration it was made with"
            )

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load a checkpoint's weights.

        Raises:
            ValueError: the checkpoint is of another model: names or shapes differ.
        """
        self.prepare_to_load({name: tuple(value.shape) for name, value in state_dict.items()})
        return super().load_state_dict(state_dict, strict=False, assign=assign)


def unchanged(batch: Any) -> Any:
    """The batch as it is."""
    return batch


def _and_owners(name: str) -> Iterator[str]:
    """``a``, ``a.b``, ``a.b.c`` of the name ``a.b.c``."""
    return accumulate(name.split("."), "{}.{}".format)
