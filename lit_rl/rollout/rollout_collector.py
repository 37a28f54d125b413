"""Collection of rollouts: sampled now or one rollout ahead, judged, and compared with the policy.

    staleness 0   | sample k | wait for verdicts k | update k | sample k+1 | ...
    staleness 1   | sample k+1 | wait for verdicts k | update k | sample k+2 | ...

A program starts when its row's turn is finished, while other rows are still sampled; the wait is for what then still
runs. With staleness 1 programs of rollout k run while the policy is updated on rollout k-1 and writes rollout k+1, so
the trainer waits only for those that take longer than that. The price: each rollout comes from weights one rollout of
updates old, which a correction must make up for. Sampling and updating share one device and never run side by side.

Letters: B problems of one rank, G completions per problem, N = B * G rows, T completion tokens, n rows compared.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
from lightning_utilities.core.rank_zero import rank_zero_warn
from torch.distributed.fsdp import FSDPModule

from lit_rl.engines.engine import Engine
from lit_rl.engines.in_process import InProcess
from lit_rl.errors import UsageError
from lit_rl.execution.checks import ReferenceText
from lit_rl.execution.interface import Outcome, ProgramRunner, Verdict
from lit_rl.models.policy import Policy
from lit_rl.models.sampling import RandomKey
from lit_rl.rollout.environment import Environment, SingleTurn
from lit_rl.rollout.records import InfrastructureError, Rollout
from lit_rl.rollout.resampling import FreshProblems, one_sided_groups, replace_groups
from lit_rl.rollout.sampler_check import GAP, SamplerCheck, SamplerMismatchError, add_sampler_mismatch
from lit_rl.rollout.sampling_loop import PendingRollout, restore_conversations, sample_rows
from lit_rl.signature_check import NonNegativeInt, Share, checked_dataclass
from lit_rl.training.progress import RolloutProgress
from lit_rl.training.ranks import Means, eval_mode, gather_over_ranks, max_over_ranks, rank
from lit_rl.types import Completions, Problem, Sampling, StopReason

RunnerFactory = Callable[[], ProgramRunner]

_KEY = "pending_rollout"
_TRAIN = "train"


@checked_dataclass
@dataclass(frozen=True)
class RolloutConfig:
    """Settings for collecting rollouts.

    Args:
        engine: engine that samples; by default the trainer's own process.
        environment: answers the policy between turns; by default each problem gets one turn.
        sampler_check: comparison of the policy with an engine that holds its own weights; ``None`` for none.
        staleness: 1 samples the next rollout while the present rollout's programs still run, before training on them;
            use 1 if programs are slow. 1 is off-policy, so ``objective.correction: auto`` weights the losses; 0 is not.
        max_resamples: replace groups in which all programs passed, or none did, by groups of other training problems,
            at most this many times per rollout (DAPO's dynamic sampling); 0 keeps them.
        max_failures: largest share of infrastructure failures among a rollout's programs; a single failure is always
            tolerated, unless this share is 0.
    """

    engine: Engine | None = None
    environment: Environment | None = None
    sampler_check: SamplerCheck | None = SamplerCheck()  # noqa: RUF009  # frozen
    staleness: Literal[0, 1] = 0
    max_resamples: NonNegativeInt = 0
    max_failures: Share = 0.1

    def __post_init__(self) -> None:
        if self.max_resamples and self.staleness:
            raise UsageError(
                f"max_resamples={self.max_resamples} waits for verdicts before it samples again; staleness=1 samples "
                "without waiting for verdicts; set one of the two to 0"
            )


class RolloutCollector:
    """Samples completions with the engine and runs their programs, for training, validation and prediction.

    Args:
        policy: writes the completions.
        sandbox: runs programs; or a function that builds the sandbox when a run starts. A sandbox that was already
            running is not closed at the end.
        collect: how rollouts are collected.
        seed: seed of the random streams.

    Attributes:
        engine: samples the completions.
        environment: answers the policy.
        runner: the sandbox, between :meth:`open` and :meth:`close`.
        progress: what is being done now, for displays.
        gap: distance of sampler and policy in the latest rollout, where it was measured before the update.
    """

    def __init__(
        self, policy: Policy, sandbox: RunnerFactory | ProgramRunner | None, collect: RolloutConfig, seed: int
    ) -> None:
        self.policy = policy
        self.sandbox = sandbox
        self.settings = collect
        self.seed = seed
        self.engine: Engine = collect.engine or InProcess()
        self.environment: Environment = SingleTurn() if collect.environment is None else collect.environment
        self.runner: ProgramRunner | None = None
        self.every_case = True
        """True to run all cases of standard input, not just those up to the first that fails."""
        self.progress = RolloutProgress()
        self.gap = Means()
        self.pending: PendingRollout | None = None
        """Rows that were sampled ahead for the next rollout."""
        self._stored: dict[str, Any] | None = None  # rows of all ranks, as loaded from a checkpoint
        self._empty_outcomes: dict[str, Future[Outcome]] = {}
        self._stays_open = False
        self._compared: int | None = None
        self._warned_of_gap = False

    # -- life ----------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Check whether the engine can start; start the sandbox, unless it is running."""
        self.engine.require_ready()
        if self.runner is not None or self.sandbox is None:
            return
        if isinstance(self.sandbox, ProgramRunner):
            self._stays_open = self.sandbox.is_running
            self.sandbox.reopen()
            self.runner = self.sandbox
        else:
            self._stays_open = False
            self.runner = self.sandbox()

    def close(self) -> None:
        """End the sandbox's processes; rows that were sampled ahead stay, for a checkpoint or for another fit."""
        for conversation in () if self.pending is None else self.pending.conversations:
            conversation.outcomes.clear()  # start_missing_programs brings them back
        if self.runner is not None and not self._stays_open:
            self.runner.close()
        self.runner = None
        self.engine.close()

    def has_room_for_completion(self, problem: Problem) -> bool:
        """Return whether a problem's prompt leaves room to write, by the policy's and the environment's limits."""
        codec, limit = self.policy.codec, self.environment.max_row_tokens
        ids = codec.encode_problem(problem)
        if not ids:
            raise UsageError(f"the prompt of problem {problem.task_id} has no tokens: give a prompt with some text")
        if self.environment.max_turns > 1 and not isinstance(problem.prompt, str):
            codec.encode_message(problem, (), StopReason.LENGTH, "")  # raises if the template rewrites earlier turns
        return codec.has_room_for_completion(problem) and (limit is None or len(ids) < limit)

    # -- rollouts ------------------------------------------------------------------------------------------

    def collect(self, problems: Sequence[Problem], sampling: Sampling, key: RandomKey) -> Rollout:
        """Sample rows and judge them."""
        return self._sample(problems, sampling, key).finish(self.progress)

    def collect_training(
        self,
        batch: Sequence[Problem],
        sampling: Sampling,
        number: int,
        *,
        next_problems: Callable[[], Sequence[Problem] | None],
        others: Callable[[], Sequence[Problem]],
    ) -> Rollout:
        """Sample and judge the rows to train on; an engine with weights of its own is compared each time.

        With staleness 1, ``next_problems`` gives the next rollout's problems, or ``None`` after the last rollout. If
        groups are sampled again, ``others`` gives all training problems. Returns B * G rows, prompt-major.
        """
        key = RandomKey(self.seed, _TRAIN, number)
        if self.settings.staleness:
            pending = self._take_pending_rollout(batch, sampling, number) or self._sample(batch, sampling, key)
            following, ahead = next_problems(), replace(key, rollout=number + 1)
            self.pending = None if following is None else self._sample(following, sampling, ahead)
            return pending.finish(self.progress)
        rollout = self.collect(batch, sampling, key)
        if not self.settings.max_resamples:
            return rollout
        # While some rank has one-sided groups, sample other problems in their place.
        fresh = FreshProblems(others(), batch, RandomKey(self.seed, "resample", number), rank())
        for attempt in range(self.settings.max_resamples):
            groups = one_sided_groups(rollout)
            problems = fresh.take(len(groups))
            # Every rank samples as often as the others, even one with nothing to replace.
            if max_over_ranks(len(problems), self.policy.device) == 0:
                break
            key = RandomKey(self.seed, f"resample/{attempt}", number)
            rollout = replace_groups(rollout, groups[: len(problems)], self.collect(problems, sampling, key))
        return rollout

    def refuse_too_many_unjudged(self, rollout: Rollout) -> None:
        """Stop when too many programs could not be judged: the rows that are left would be a biased sample.

        A single failure is allowed unless ``max_failures`` is 0: in a small rollout one failure is a large share.
        """
        share, outcomes = self.settings.max_failures, [judgement.outcome for judgement in rollout.judgements]
        lost = [outcome for outcome in outcomes if outcome.verdict is Verdict.INFRASTRUCTURE_FAILURE]
        if len(lost) > max(share * len(outcomes), 1 if share else 0):
            stderr = lost[0].stderr.strip()
            missing = re.search(r"No module named '(\w+)", stderr)
            remedy = "See lit-rl docs sandbox, or raise collect.max_failures if this is expected"
            if missing:
                remedy = f"Name the module in the sandbox's packages: --model.sandbox.packages '[{missing[1]}]'"
            raise InfrastructureError(
                f"{len(lost)} of {len(outcomes)} programs could not be judged (at most {share:.0%} may fail); "
                f"the first said: {stderr or 'nothing'}. {remedy}"
            )

    def _sample(self, problems: Sequence[Problem], sampling: Sampling, key: RandomKey) -> PendingRollout:
        """Sample rows: the engine takes a ``Request`` for each turn and returns its ``Generation`` (lit_rl/types.py).

        An engine with weights of its own is compared with the policy; in training, every time.
        """
        policy, engine, runner, more = self.policy, self.engine, self.runner, (self.environment, self.progress)
        pending = sample_rows(policy, engine, runner, problems, sampling, key, *more, every_case=self.every_case)
        if not engine.shares_weights and (key.purpose == _TRAIN or self._compared != policy.version):
            self.check_sampler_gap(pending.completions(), sampling)
        return pending

    # -- rows that were sampled ahead ----------------------------------------------------------------------

    def _take_pending_rollout(self, batch: Sequence[Problem], sampling: Sampling, number: int) -> PendingRollout | None:
        """Return the rows sampled ahead for these problems; ``None`` on all ranks if some rank has no such rows."""
        pending, stored = self.pending, self._stored
        self.pending = self._stored = None
        expected = pending is not None or stored is not None
        # A checkpoint's rows, if they are of this rollout and sampled with the present settings.
        if pending is None and stored and (stored["rollout"], stored["sampling"]) == (number, asdict(sampling)):
            codec, device = self.policy.codec, self.policy.device
            if (rows := restore_conversations(stored["rows"], batch, sampling.num_samples, codec)) is not None:
                pending = PendingRollout(rows, self.environment.max_turns, codec.pad_id, device)
        fits = pending is not None and pending.task_ids == [problem.task_id for problem in batch]
        if not max_over_ranks(int(not fits), self.policy.device) and pending is not None:
            pending.start_missing_programs(self.runner, self.every_case)
            return pending
        if expected:
            rank_zero_warn(
                f"the rows sampled ahead for rollout {number + 1} do not match this run's problems, prompts or "
                "settings; sampling them again"
            )
        return None

    def save_pending_rows(self, checkpoint: dict[str, Any], sampling: Sampling, number: int) -> None:
        """Store the rows that were sampled ahead for this rollout; all ranks call this together."""
        if self.pending is not None:
            rows = [row for of_rank in gather_over_ranks(self.pending.rows_to_store()) for row in of_rank]
            checkpoint[_KEY] = {"rollout": number, "sampling": asdict(sampling), "rows": rows}
        elif self._stored is not None:
            checkpoint[_KEY] = self._stored

    def load_pending_rows(self, checkpoint: Mapping[str, Any], *, resumes: bool) -> None:
        """Restore the stored rows if the run resumes; their programs run again."""
        self.pending = None
        self._stored = checkpoint.get(_KEY) if resumes and self.settings.staleness else None

    # -- besides rollouts ----------------------------------------------------------------------------------

    def check_sampler_gap(self, completions: Completions, sampling: Sampling) -> None:
        """Compare the sampler's log-probabilities of a few rows, evenly spread, with the policy's.

        All ranks call this together, also a rank without rows. If the gap is too large, warn once, or stop.
        """
        check, policy = self.settings.sampler_check, self.policy
        if check is None:
            return
        self._compared = policy.version
        fresh = [i for i, version in enumerate(completions.weights_versions) if version == policy.version]
        rows = {fresh[i * len(fresh) // check.rows] for i in range(check.rows)} if fresh else set[int]()
        some = completions.select(sorted(rows)).trim()
        self.gap = Means()
        with torch.no_grad(), eval_mode(policy):
            if fresh:
                logprobs = policy.logprobs(some, sampling.temperature)
                add_sampler_mismatch(self.gap, logprobs, some.sampler_logprobs, some.completion_mask)
            elif isinstance(policy, FSDPModule):  # the others wait for this rank's share of the weights
                probe = Problem("probe", "a", ReferenceText(""))
                policy.logprobs(policy.codec.completions_from_texts([probe], ["a"], policy.device))
        gap = self.gap.reduce(policy.device).get(GAP, 0.0)
        if gap <= check.largest_gap or sampling.filters:
            return
        cause = "likely other weights (stale, another model), another dtype, temperature or filter, or other prompt ids"
        if math.isnan(gap):
            cause = "the policy's own log-probabilities are not finite: start again with a lower learning rate"
        message = (
            f"sampler and trainer differ by {gap:.2g} nats a token (at most {check.largest_gap:g} is rounding): "
            f"{cause}; see lit-rl docs engines#when-sampler-and-trainer-differ"
        )
        if check.stop:
            raise SamplerMismatchError(message)
        if not self._warned_of_gap:
            warnings.warn(message, stacklevel=2)
        self._warned_of_gap = True

    def judge_empty_programs(self, problems: Sequence[Problem]) -> dict[str, Outcome]:
        """Judge the empty program under checks with stages, once per problem, to know the score of an empty answer.

        Infrastructure failures are left out, and judged again when the problem is sampled again.
        """
        staged = [problem for problem in problems if problem.check.stages]
        for problem in staged:
            if problem.task_id not in self._empty_outcomes and self.runner is not None:
                self._empty_outcomes[problem.task_id] = self.runner.submit("", problem.check)
        known = self._empty_outcomes
        outcomes = {p.task_id: known[p.task_id].result() for p in staged if p.task_id in known}
        lost = [name for name, one in outcomes.items() if one.verdict is Verdict.INFRASTRUCTURE_FAILURE]
        for name in lost:
            del self._empty_outcomes[name], outcomes[name]
        return outcomes
