"""What an engine is: it answers requests for completions, each as soon as it is finished.

An engine of your own is one file with two classes: an :class:`Engine` whose ``session`` gets ready for a policy's
weights and hands out a :class:`Session`, which takes requests and gives generations back::

    class Mine(Engine):
        @contextmanager
        def session(self, policy, sampling):
            yield MySession(policy, sampling)   # gather or push the weights before, free them after


    class MySession(Session):
        def __init__(self, policy, sampling):
            self.waiting = []

        def submit(self, requests):
            self.waiting.extend(requests)

        def step(self):
            done, self.waiting = self.waiting, []
            return [self.write(request) for request in done]

        @property
        def num_unfinished(self):
            return len(self.waiting)

Ids and log-probabilities are all that crosses: an engine sees no problems, no text and no tensors of a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

from lit_rl.models.policy import Policy
from lit_rl.types import Generation, Request, Sampling

__all__ = ["Engine", "Generation", "Request", "Session"]


class Session(ABC):
    """Sampling with one state of the weights, from the beginning of a ``with`` block to its end.

    Requests may be submitted at any time, also while others are being sampled. Each is answered once.
    """

    @abstractmethod
    def submit(self, requests: Sequence[Request]) -> None:
        """Take up requests; sampling goes on in :meth:`step`.

        What is sampled for a request depends on its ids, its stream and the session's sampling, not on other requests
        or on the time at which it comes. At temperature 0 the stream is not used.

        Args:
            requests: their ``row`` is theirs to choose and comes back with the answer.

        Raises:
            ValueError: the engine cannot do what a request asks for; none of these requests is taken up.
        """

    @abstractmethod
    def step(self) -> list[Generation]:
        """Make some progress, such as one token for each request, and return what has finished; often nothing.

        Called again and again while :attr:`num_unfinished` is above 0; returns at once if it is 0. It should not wait
        for long: programs of finished completions are fed to the sandbox between two steps.
        """

    @property
    @abstractmethod
    def num_unfinished(self) -> int:
        """Requests that were submitted and not answered yet."""


class Engine(ABC):
    """Samples completions with a policy's weights."""

    in_rounds: bool = False
    """Whether further turns are asked for only when all rows have finished theirs, in the order of the rows.

    For engines whose numbers depend on which rows are computed side by side, if only in the last bit: what enters
    together then depends on no clock, and a resumed run samples the same. Others are asked as soon as there is
    something to ask.
    """

    shares_weights: bool = False
    """Whether sessions read the policy's own weights, so that no row is ever sampled by older ones.

    Modules then need not ask the other ranks how old their rows are.
    """

    @abstractmethod
    def session(self, policy: Policy, sampling: Sampling) -> AbstractContextManager[Session]:
        """A ``with`` block that samples: weights are gathered or pushed once at its start and freed at its end.

        All ranks enter and leave together, also those without requests; between the two ends of the block an engine
        makes no call that waits for other ranks. Gradients are off inside. The policy's train or eval mode is the same
        afterwards, also after an exception; requests that were not answered by then are forgotten.

        Args:
            policy: whose weights sample; ``policy.version`` names them in each :class:`Generation`.
            sampling: temperature, top-k and top-p of all requests; their token limits and numbers are the requests'.
        """

    def mark_stale(self) -> None:  # noqa: B027  # most engines share the weights
        """Called after each optimizer step: the weights have moved. Copies of them are renewed in the next session."""

    def close(self) -> None:  # noqa: B027
        """Give back what the engine holds; called once, after the last session."""
