"""What every module shares: a policy, its optimizer, and evaluation by execution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from torch import nn

from lit_rl.bounds import require_above
from lit_rl.engines.base import Engine
from lit_rl.engines.in_process import InProcess
from lit_rl.execution.outcome import Outcome, Verdict
from lit_rl.execution.runner import ProgramRunner
from lit_rl.kinds import require_function, require_kind
from lit_rl.models.policy import Policy
from lit_rl.models.streams import StreamKey
from lit_rl.modules.mismatch import SamplerCheck, compare, judge
from lit_rl.modules.optimized_module import OptimizedModule
from lit_rl.modules.requirements import (
    require_extendable,
    require_no_programs,
    require_playable,
    require_problems,
    settle_precision,
)
from lit_rl.rewards.composite import Composite
from lit_rl.rewards.term import RewardTerm
from lit_rl.rollout import (
    Environment,
    Evaluated,
    Rollout,
    SingleTurn,
    require_environment,
    require_infrastructure,
    write_rows,
)
from lit_rl.signatures import show_all_arguments
from lit_rl.training.modes import evaluating
from lit_rl.training.progress import Progress
from lit_rl.training.ranks import Means
from lit_rl.training.strategy import check_strategy
from lit_rl.types import Completions, Problem, Sampling

LARGEST_FAILED_SHARE = 0.1
"""Share of programs that may fail for our own reasons before what is left says too little."""

RunnerFactory = Callable[[], ProgramRunner]


class _TearDownOnException(pl.Callback):
    """In a notebook the process lives on after an exception, and the sandbox would with it."""

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        pl_module.teardown("exception")


class PolicyModule(OptimizedModule):
    """A policy with an optimizer, evaluated by running what it writes.

    Manual optimization: subclasses call :meth:`optimizer_step` once per update. One optimizer with parameter
    groups, so that ``global_step`` is the number of updates; rollouts are counted by ``rollout_step``.

    Args:
        policy: the policy to train.
        optimizer: from parameters to an optimizer.
        lr_scheduler: from the optimizer to a schedule, stepped once per training step; ``ReduceLROnPlateau`` whenever
            its metric was measured.
        gradient_clip_norm: largest norm of the gradient of an update; ``None`` for no limit.
        validation_sampling: how validation samples, by name; metrics are ``val/<name>/...``.
        predict_sampling: how ``predict`` samples; eight completions of each problem unless said otherwise.
        rewards: reward terms; their mean is reported in validation too.
        sandbox: runs programs; or a function that builds it when a run starts. The run closes at its end what it
            started; a sandbox that is running already stays open.
        engine: samples; by default the trainer's own process.
        sampler_check: how engines with weights of their own are compared with the policy; ``None`` does not.
        environment: answers the policy between turns; by default each problem gets one turn.
        seed: seed of every random stream of the run; on the command line ``seed_everything`` unless set, else 0.
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
        sampler_check: SamplerCheck | None = SamplerCheck(),  # noqa: B008  # frozen
        environment: Environment | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        require_kind(Policy, 'CausalLM("folder")', policy=policy)
        require_function("the parameters", "lambda params: AdamW(params, lr=1e-6)", optimizer=optimizer)
        require_function("the optimizer", "lambda optimizer: LinearLR(optimizer)", lr_scheduler=lr_scheduler)
        require_kind(Sampling, "Sampling(num_samples=8)", predict_sampling=predict_sampling)
        require_above(0, gradient_clip_norm=gradient_clip_norm)
        self.policy = policy
        self.optimizer = optimizer
        self.lr_scheduler = lr_scheduler
        self.gradient_clip_norm = gradient_clip_norm
        self.validation_sampling = validation_sampling or {"greedy": Sampling(temperature=0.0)}
        require_kind(dict, '{"greedy": Sampling(temperature=0.0)}', validation_sampling=self.validation_sampling)
        for name, one in self.validation_sampling.items():
            require_kind(Sampling, "Sampling(temperature=0.0)", **{f"validation_sampling[{name!r}]": one})
        self.predict_sampling = predict_sampling
        self.rewards = rewards if rewards is None or isinstance(rewards, Composite) else Composite(rewards)
        self.sandbox = sandbox
        self.engine = engine or InProcess()
        self.sampler_check = sampler_check
        self.mismatch = Means()  # of the rollout at hand, where it was looked at
        self._compared: int | None = None
        self._warned_of_mismatch = False
        self.environment = SingleTurn() if environment is None else environment
        require_environment(self.environment)
        self.seed = seed or 0
        self.runner: ProgramRunner | None = None
        self._silence: dict[str, Future[Outcome]] = {}
        self._runs_longer = False  # the sandbox was running when it was handed in, and stays open
        self.run_folder = Path()
        self.progress = Progress()

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        show_all_arguments(cls)

    # -- life of a run -------------------------------------------------------------------------------------

    def configure_model(self) -> None:
        """Load the weights and leave out problems that do not fit; called again for validation after fit."""
        self.load_weights()
        datamodule = getattr(self.trainer, "datamodule", None)
        if datamodule is not None:
            datamodule.keep_only(self.has_room)
        if self.environment.max_turns > 1:
            require_extendable(self.policy.codec, self.trainer)

    def has_room(self, problem: Problem) -> bool:
        """Whether a problem's prompt leaves room to write in, by the policy's positions and the environment's limit."""
        codec, unlimited = self.policy.codec, self.environment.max_row_tokens is None
        return codec.fits(problem) and (unlimited or self.environment.leaves_room(len(codec.encode(problem))))

    def setup(self, stage: str) -> None:
        """Start the sandbox; check whether strategy, precision and rewards have what they need.

        Raises:
            ValueError: a strategy, a precision or a task that cannot work here, or no sandbox for its programs.
        """
        check_strategy(self.trainer.strategy)
        if stage == "fit":  # refuse a rate or schedule that makes no sense before anything is loaded
            self.optimizer_of(
                [{"params": [nn.Parameter(torch.zeros(()))], "name": name} for name in ("policy", "critic")]
            )
        require_problems(self.trainer, stage)
        require_playable(self.environment, self.trainer, stage, train=self.samples_to_train)
        settle_precision(self.trainer)
        if self.sandbox is None and self.runner is None:
            require_no_programs(self, stage)
        if self.runner is None and self.sandbox is not None:
            self._take_runner(self.sandbox)
        if self.rewards is not None:
            self.rewards.setup()

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

    # -- evaluation ----------------------------------------------------------------------------------------

    def validation_step(  # type: ignore[override]  # callbacks read what it returns
        self, batch: Sequence[Problem], batch_idx: int, dataloader_idx: int = 0
    ) -> Evaluated:
        """Sample, run, and return the result to the callbacks; every rank takes part, even without a problem."""
        rollouts, rewards = {}, {}
        with torch.no_grad(), evaluating(self.policy):
            for name, sampling in self.validation_sampling.items():
                # The same random numbers at each evaluation: curves then differ by the policy alone.
                key = StreamKey(self.seed, f"validation/{name}", 0)
                self.progress.begin(key.purpose)
                rollout = rollouts[name] = self.collect(batch, sampling, key)
                if self.rewards is not None:
                    self.progress.enter("rewarding")
                    rewards[name] = self.rewards(rollout.completions, rollout.judgements)
        self.progress.end()
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
        """Same as :meth:`validation_step`."""
        return self.validation_step(batch, batch_idx, dataloader_idx)

    def predict_step(self, batch: Sequence[Problem], batch_idx: int, dataloader_idx: int = 0) -> Evaluated:
        """Sample several completions of each problem, run and reward them; NaN where there is no reward.

        Raises:
            ValueError: the module has no rewards, so it cannot say which completion is the better one.
        """
        if self.rewards is None:
            raise ValueError("predict compares completions by their rewards: list at least one reward term")
        self.progress.begin("predict")
        with torch.no_grad(), evaluating(self.policy):
            rollout = self.collect(batch, self.predict_sampling, StreamKey(self.seed, "predict", 0))
        require_infrastructure(rollout, LARGEST_FAILED_SHARE)
        return Evaluated({"predict": rollout}, {"predict": self.rewards(rollout.completions, rollout.judgements)})

    def collect(self, problems: Sequence[Problem], sampling: Sampling, key: StreamKey) -> Rollout:
        """Sample completions, run their programs, and compare the sampler with the policy where they may differ."""
        rollout = write_rows(
            self.policy, self.engine, self.runner, problems, sampling, key, self.environment, self.progress
        ).finish(self.progress)
        # Once for each arrival of weights, and in training on every rollout.
        if not self.engine.shares_weights and (key.purpose == "train" or self._compared != self.policy.version):
            self.compare_sampler(rollout.completions, sampling)
        return rollout

    def compare_sampler(self, completions: Completions, sampling: Sampling) -> None:
        """Compare the sampler's log-probabilities of a few rows with the policy's; all ranks call together.

        Raises:
            SamplerMismatchError: they differ too much, and ``sampler_check.stop`` is set.
        """
        check = self.sampler_check
        if check is None:
            return
        self._compared = self.policy.version
        fresh = [i for i, version in enumerate(completions.weights_versions) if version == self.policy.version]
        with evaluating(self.policy):
            self.mismatch, some = compare(self.policy, completions.select(fresh), sampling, check.rows)
            warn = not self._warned_of_mismatch
            self._warned_of_mismatch |= judge(check, self.policy, self.mismatch, some, sampling, warn=warn)
