"""The interface of an engine: it answers requests for completions, each as soon as it is finished.

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
from lit_rl.signature_check import TypedArguments
from lit_rl.types import Generation, Request, Sampling


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
