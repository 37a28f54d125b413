"""Estimate pass@k of a policy on problems, without a trainer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from lit_rl.engines.engine import Engine
from lit_rl.engines.in_process import InProcess
from lit_rl.errors import UsageError
from lit_rl.execution.interface import ProgramRunner, Verdict
from lit_rl.models.policy import Policy
from lit_rl.models.sampling import RandomKey
from lit_rl.reports.summary import PassAtKMetric, filter_program_judgements, require_pass_at_k_samples
from lit_rl.rollout import Environment, Rollout, sample_rows
from lit_rl.signature_check import PositiveInt, check_call_arguments
from lit_rl.training.host_memory import keep_freed_memory
from lit_rl.training.ranks import eval_mode
from lit_rl.training.threads import using_run_threads
from lit_rl.types import Problem, Sampling


@dataclass(frozen=True)
class Evaluation:
    """The result of an evaluation.

    Args:
        pass_at: pass@k by k, over the problems that could be judged; a row of several turns counts once, by the
            outcome of its last program.
        verdicts: number of rows whose check runs programs, by the verdict of their last turn.
        rollouts: completions and judgements, one rollout per batch, in the order of the problems.
        pass_at_turn: pass@k by k after one turn, after two and so on; a row with fewer turns counts with its last turn.
            The last entry is ``pass_at``.
    """

    pass_at: Mapping[int, float]
    verdicts: Mapping[Verdict, int]
    rollouts: tuple[Rollout, ...] = field(repr=False)
    pass_at_turn: tuple[Mapping[int, float], ...]


@check_call_arguments
def evaluate(
    policy: Policy,
    problems: Sequence[Problem],
    *,
    sampling: Sampling = Sampling(temperature=0.0),  # noqa: B008  # frozen
    sandbox: ProgramRunner | None = None,
    engine: Engine | None = None,
    environment: Environment | None = None,
    ks: Sequence[PositiveInt] = (1,),
    batch_size: PositiveInt = 32,
    seed: int = 0,
) -> Evaluation:
    """Sample completions of problems, run their programs, and estimate pass@k.

    Rows with an infrastructure failure are left out of pass@k.

    Args:
        policy: policy to evaluate; loaded if it is not loaded yet.
        problems: problems to solve, such as ``Basics().problems("validation")``.
        sampling: sampling settings; ``num_samples`` completions per problem.
        sandbox: runs the programs and stays open; ``None`` only for tasks without programs.
        engine: engine that samples; by default this process samples.
        environment: answers the policy between turns; by default each problem gets one turn, as do problems that
            the environment rejects.
        ks: the values of k for pass@k, each at most ``num_samples``.
        batch_size: problems sampled at the same time.
        seed: seed of the samples.
    """
    if not problems:
        raise UsageError("there are no problems to evaluate on: the split is empty, or all prompts are too long")
    require_pass_at_k_samples(ks, sampling.num_samples)
    refused = [environment.reason_unplayable(problem) for problem in problems] if environment is not None else []
    if refused and all(refused):
        raise UsageError(refused[0])
    if engine is not None:
        engine.require_ready()
    policy.load()
    keep_freed_memory(policy.device)
    key = RandomKey(seed, "evaluate", 0)
    rollouts = []
    passes = PassAtKMetric(ks, 1 if environment is None else environment.max_turns, sync_on_compute=False)
    with torch.no_grad(), eval_mode(policy), using_run_threads(policy, policy.device):
        for first in range(0, len(problems), batch_size):
            batch = problems[first : first + batch_size]
            pending = sample_rows(policy, engine or InProcess(), sandbox, batch, sampling, key, environment)
            rollouts.append(pending.finish())
            passes.update(rollouts[-1])
    pass_at_turn = passes.compute()
    judged = filter_program_judgements([judgement for rollout in rollouts for judgement in rollout.judgements])
    verdicts = Counter(judgement.outcome.verdict for judgement in judged)
    return Evaluation(pass_at_turn[-1], verdicts, tuple(rollouts), pass_at_turn)
