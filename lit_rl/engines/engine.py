"""The interface of an engine, which answers each request for a completion as soon as the completion is finished.

An engine of your own is one file with two classes (``docs/own_engine.md`` shows one): an :class:`Engine` whose
``session`` prepares a policy's weights and yields a :class:`Session`, which takes requests and returns generations. An
engine deals in ids and log-probabilities alone: it sees no problems, no text and no tensors of a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

from lit_rl.errors import LitRLError
from lit_rl.models.policy import Policy
from lit_rl.signature_check import ArgumentChecks
from lit_rl.types import Generation, Request, Sampling


class EngineError(LitRLError, RuntimeError):
    """The engine failed, not the policy: a server died, for example, or an answer cannot be used.

    The error ends the run and is never a reward of 0. The callback Checkpointing saves first, so raise the error on all
    ranks.
    """


class Session(ABC):
    """Sampling with one state of the weights, from the beginning of a ``with`` block to its end.

    Requests may be submitted at any time, even while other requests are being sampled. Each request is answered once.
    """

    @abstractmethod
    def submit(self, requests: Sequence[Request]) -> None:
        """Accept requests; the sampling happens in :meth:`step`.

        The completion of a request depends on the request's ids and stream and on the session's sampling settings, not
        on other requests or on the time of its arrival. At temperature 0 the stream is not used.

        Args:
            requests: each has a ``row``, a number that the caller chooses and that comes back with the answer.
        """

    @abstractmethod
    def step(self) -> list[Generation]:
        """Make some progress, such as one token per request, and return the finished completions, often none.

        The rollout calls this method again and again while :attr:`num_unfinished` is above 0; at 0 the method returns
        immediately. A step should be short: the programs of finished completions go to the sandbox between two steps.
        """

    @property
    @abstractmethod
    def num_unfinished(self) -> int:
        """Number of requests that were submitted but not yet answered."""


class Engine(ArgumentChecks, ABC):
    """Samples completions with a policy's weights."""

    in_rounds: bool = False
    """True if next turns are requested together, in the order of the rows, once every row has finished its turn.

    Set this for engines whose numbers depend, if only in the last bit, on which rows are computed together. Timing then
    does not decide which rows start together, and a resumed run samples the same tokens. Other engines get each request
    as soon as it is ready.
    """

    shares_weights: bool = False
    """True if sessions read the policy's own weights, so that every rank samples with the present weights.

    Modules that train on rows as soon as they are sampled then need not ask other ranks for the age of their weights.
    """

    @abstractmethod
    def session(self, policy: Policy, sampling: Sampling) -> AbstractContextManager[Session]:
        """Return a ``with`` block that samples: weights are gathered or pushed once at its start and freed at its end.

        All ranks enter and leave the block together, even ranks without requests; inside, an engine makes no call that
        waits for other ranks. Gradients are off inside. The policy's train or eval mode is restored afterwards, even
        after an exception; requests not answered by then are dropped.

        Args:
            policy: the policy whose weights sample; ``policy.version`` names the weights in each :class:`Generation`.
            sampling: temperature, top-k and top-p of all requests; token limits and streams come with each request.
        """

    def require_ready(self) -> None:  # most engines need nothing else
        """Check that everything the engine needs is installed; called before the policy's weights are loaded."""

    def mark_weights_stale(self) -> None:  # most engines share the weights
        """Note that the weights changed, so that the next session renews any copy; called after each optimizer step."""

    def close(self) -> None:
        """Release what the engine holds; called once, after the last session."""
