"""What an engine is asked for and what it answers; :mod:`lit_rl.types` exports these names too."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lit_rl.arguments import ArgumentError, UsageError


@dataclass(frozen=True)
class Sampling:
    """How completions are sampled.

    Args:
        num_samples: completions per prompt; the group size G when training.
        temperature: temperature of the softmax; 0 is greedy.
        top_p: keep the smallest set of tokens that has this much probability; 1 keeps all.
        top_k: keep this many of the most likely tokens; 0 keeps all.
        max_tokens: a completion is cut after this many tokens.
    """

    num_samples: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 256

    def __post_init__(self) -> None:
        if self.num_samples < 1 or self.max_tokens < 1:
            raise UsageError(
                "num_samples and max_tokens must be at least 1, "
                f"got {self.num_samples} and {self.max_tokens}: sample at least one token of one completion"
            )
        if self.temperature < 0:
            raise ArgumentError("temperature", "a number of at least 0 (0 is greedy)", str(self.temperature))
        if not 0 < self.top_p <= 1 or self.top_k < 0:
            raise ArgumentError(
                "top_p and top_k", "top_p in (0, 1] and top_k of at least 0", f"{self.top_p} and {self.top_k}"
            )
        if self.temperature == 0 and self.num_samples > 1:
            raise UsageError(
                f"greedy sampling gives the same completion each time, got num_samples={self.num_samples}: "
                "use num_samples: 1 or a temperature above 0"
            )


class StopReason(StrEnum):
    """Why a completion ended; recorded by the sampler, never guessed from ids or lengths."""

    EOS = "eos"
    LENGTH = "length"
    STOP_STRING = "stop_string"


@dataclass(frozen=True)
class Request:
    """What an engine is asked for: to continue these ids.

    Args:
        row: number of the rollout's row, handed back with the answer.
        prompt_ids: everything so far; ids of earlier turns exactly as they were sampled.
        stream: seed of the request's own random stream, see :class:`lit_rl.models.decoding.streams.StreamKey`.
        max_tokens: the completion is cut after this many tokens.
        stop_strings: the completion ends with the token that completes the first of these.
    """

    row: int
    prompt_ids: tuple[int, ...]
    stream: int
    max_tokens: int
    stop_strings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.prompt_ids:
            raise UsageError(f"the prompt of row {self.row} has no tokens: give the policy at least one to continue")
        if self.max_tokens < 1:
            raise ArgumentError("max_tokens", "at least 1", f"{self.max_tokens} in the request of row {self.row}")


@dataclass(frozen=True)
class Generation:
    """What an engine answers to a :class:`Request`.

    Args:
        row: the request's.
        ids: the sampled ids, at least one; EOS and the tokens of a stop string included.
        logprobs: log-probability of each id (nats), under the distribution that it was drawn from.
        reason: why the completion ended.
        weights_version: the policy's ``version`` that its tokens were sampled with; the lowest, if there were several.
    """

    row: int
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    reason: StopReason
    weights_version: int
