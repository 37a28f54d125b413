"""The interface of an engine: it answers requests for completions, each as soon as it is finished.

An engine of your own is one file with two classes (``docs/own_engine.md`` shows one): an :class:`Engine` whose
``session`` prepares a policy's weights and yields a :class:`Session`, which takes requests and returns generations. An
engine deals in ids and log-probabilities alone: it sees no problems, no text and no tensors of a batch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

from lit_rl.errors import LitRLError, UsageError
from lit_rl.models.codecs.codec import Codec
from lit_rl.models.policy import Policy
from lit_rl.signature_check import TypedArguments
from lit_rl.types import Generation, Request, Sampling, StopReason


class EngineError(LitRLError, RuntimeError):
    """The engine failed, not the policy: a server that died, an answer that cannot be used.

    The error ends the run and is never a reward of 0. The callback Checkpointing saves first, so raise the error on all
    ranks.
    """


class Session(ABC):
    """Sampling with one state of the weights, from the beginning of a ``with`` block to its end.

    Requests may be submitted at any time, even while others are being sampled. Each is answered once.
    """

    @abstractmethod
    def submit(self, requests: Sequence[Request]) -> None:
        """Accept requests; the sampling happens in :meth:`step`.

        What is sampled for a request depends on its ids, its stream and the session's sampling, not on other requests
        or on when it arrives. At temperature 0 the stream is not used.

        Args:
            requests: ``row`` is a number that the caller chooses; it comes back with the answer.
        """

    @abstractmethod
    def step(self) -> list[Generation]:
        """Make some progress, such as one token for each request, and return what has finished; often nothing.

        Called again and again while :attr:`num_unfinished` is above 0; returns at once if it is 0. It should not wait
        for long: the programs of finished completions go to the sandbox between two steps.
        """

    @property
    @abstractmethod
    def num_unfinished(self) -> int:
        """Requests submitted but not yet answered."""


class Engine(TypedArguments, ABC):
    """Samples completions with a policy's weights."""

    in_rounds: bool = False
    """True if the next turn is requested only once every row has finished its turn, in the order of the rows.

    Set it for engines whose numbers depend, if only in the last bit, on which rows are computed together. Timing then
    does not decide which rows start together, and a resumed run samples the same. Other engines get each request as
    soon as it is ready.
    """

    shares_weights: bool = False
    """True if sessions read the policy's own weights, so that the present weights sample on every rank.

    Modules that train on rows at once then need not ask other ranks how old their weights are.
    """

    @abstractmethod
    def session(self, policy: Policy, sampling: Sampling) -> AbstractContextManager[Session]:
        """A ``with`` block that samples: weights are gathered or pushed once at its start and freed at its end.

        All ranks enter and leave together, even those without requests; inside the block an engine makes no call that
        waits for other ranks. Gradients are off inside. The policy's train or eval mode is restored afterwards, even
        after an exception; requests not answered by then are dropped.

        Args:
            policy: whose weights sample; ``policy.version`` names them in each :class:`Generation`.
            sampling: temperature, top-k and top-p of all requests; token limits and streams come with each request.
        """

    def require_ready(self) -> None:  # most engines need nothing else
        """Check whether what the engine needs is installed; called before the policy's weights are loaded."""

    def mark_stale(self) -> None:  # most engines share the weights
        """Called after each optimizer step: the weights have changed, so the next session renews any copy of them."""

    def close(self) -> None:
        """Release what the engine holds; called once, after the last session."""


_ROUNDING = 1e-3
"""Log-probabilities of certain tokens come out above 0 by this much at most, in half precision."""


def check_generation(answer: Generation, request: Request | None, codec: Codec, name: str) -> None:
    """Raise if an engine's answer is not what was asked for: ``request`` is the open request of its row, if any."""
    ids, eos_ids = answer.ids, codec.eos_ids
    if request is None:
        fault = "which is not being asked for: answer each request once, with its own row"
    elif not 1 <= len(ids) <= request.max_tokens:
        fault = f"with {len(ids)} ids, but 1 to {request.max_tokens} were asked for"
    elif len(answer.logprobs) != len(ids):
        fault = f"with {len(answer.logprobs)} log-probabilities for {len(ids)} ids: give one for each, EOS included"
    elif odd := {type(one) for one in (*ids, *answer.logprobs) if not isinstance(one, int | float)}:
        fault = f"with numbers of type {odd.pop().__name__}: give plain int and float, as .tolist() does"
    elif not all(-math.inf < one <= _ROUNDING for one in answer.logprobs):
        fault = "with a log-probability that is no number of at most 0"
    elif min(ids) < 0 or (codec.num_ids is not None and max(ids) >= codec.num_ids):
        fault = f"with an id outside the policy's vocabulary of {codec.num_ids}"
    elif answer.reason is StopReason.EOS and eos_ids and ids[-1] not in eos_ids:
        fault = f"with the reason eos, but its last id is {ids[-1]}: keep the id of EOS, one of {sorted(eos_ids)}"
    elif not eos_ids.isdisjoint(ids[:-1]):
        fault = f"with ids after EOS: end a completion at each of {sorted(eos_ids)}"
    else:
        return
    raise UsageError(f"{name}.step answered row {answer.row}, {fault}")
