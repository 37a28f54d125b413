"""Completions of a policy, sampled in a session of an engine; no program is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lit_rl.engines import Engine, InProcess
from lit_rl.models import Policy
from lit_rl.models.sampling import RandomKey, make_sampling_requests
from lit_rl.types import Completions, Problem, Sampling

KEY = RandomKey(seed=3, purpose="test", rollout=0)


def sample(
    policy: Policy, problems: Sequence[Problem], key: RandomKey = KEY, engine: Engine | None = None, **sampling: Any
) -> Completions:
    """Sample rows of one turn, prompt-major; the rest are fields of :class:`Sampling`."""
    how = Sampling(**sampling)
    done = []
    with (engine or InProcess()).session(policy, how) as session:
        session.submit(make_sampling_requests(policy.codec, problems, how, key))
        while session.num_unfinished:
            done += session.step()
    done.sort(key=lambda one: one.row)
    return policy.codec.completions_from_generations(problems, done, how.num_samples, policy.device)
