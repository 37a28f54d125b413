"""Completions of a policy, sampled as a rollout samples them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lit_rl.engines.in_process import InProcess
from lit_rl.models import Policy
from lit_rl.models.streams import StreamKey
from lit_rl.types import Completions, Problem, Sampling

KEY = StreamKey(seed=3, purpose="test", rollout=0)


def sample(policy: Policy, problems: Sequence[Problem], key: StreamKey = KEY, **sampling: Any) -> Completions:
    """Sample with :class:`InProcess`; the rest are fields of :class:`Sampling`."""
    return InProcess().generate(policy, policy.codec.prompts(problems, policy.device), Sampling(**sampling), key)
