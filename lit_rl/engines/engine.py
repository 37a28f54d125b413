"""The interface of an engine: it answers requests for completions, each as soon as it is finished.

An engine of your own is one file with two classes: an :class:`Engine` whose ``session`` prepares a policy's weights
and yields a :class:`Session`, which takes requests and returns generations::

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

An engine deals in ids and log-probabilities alone: it sees no problems, no text and no tensors of a batch.
"""

from __future__ import annotations

import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any

from lit_rl.arguments import ArgumentError, LitRLError, TypedArguments, UsageError
from lit_rl.models.policy import Policy
from lit_rl.types import Generation, Request, Sampling, StopReason

__all__ = ["Engine", "EngineError", "Generation", "Request", "Session"]


class EngineError(LitRLError, RuntimeError):
    """The engine failed, not the policy: a server that died, an answer that cannot be used.

    It ends the run; it is never a reward of 0. The callback Checkpointing saves before that, so raise it on all ranks.
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
            requests: ``row`` is the caller's to choose and comes back with the answer.

        Raises:
            ValueError: the engine cannot do what a request asks for; none of these requests is accepted.
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

    For engines whose numbers depend on which rows are computed together, if only in the last bit: which rows start
    together then does not depend on timing, and a resumed run samples the same. Other engines get each request as
    soon as it is ready.
    """

    shares_weights: bool = False
    """True if sessions read the policy's own weights, so that the present ones sample on every rank.

    Modules that train on rows at once then skip asking the other ranks how old theirs are.
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
        """Check whether what the engine needs is installed; called before the policy's weights are loaded.

        Raises:
            ImportError: it is not; the message says how to install it.
        """

    def mark_stale(self) -> None:  # most engines share the weights
        """Called after each optimizer step: the weights have changed, so the next session renews any copy of them."""

    def close(self) -> None:
        """Release what the engine holds; called once, after the last session."""


_SECONDS_OF_SILENCE = 600.0
_ROUNDING = 1e-3
"""Log-probabilities of certain tokens come out above 0 by this much at most, in half precision."""


class CheckedSession(Session):
    """An engine's session whose every answer is checked.

    Args:
        session: of the engine.
        eos_ids: every id that ends a completion; empty if the policy knows none.
        seconds: without an answer, with requests open, after which a warning says that the engine may hang.
        num_ids: ids that the policy knows, from 0 on; ``None`` if unknown.
    """

    def __init__(
        self,
        session: Session,
        eos_ids: frozenset[int] = frozenset(),
        seconds: float = _SECONDS_OF_SILENCE,
        num_ids: int | None = None,
    ) -> None:
        self._session = session
        self._name = type(session).__name__
        self._eos_ids = eos_ids
        self._num_ids = num_ids
        self._open: dict[int, Request] = {}
        self._seconds = seconds
        self._last_answer = time.monotonic()

    def submit(self, requests: Sequence[Request]) -> None:
        """Pass requests on; a row may be requested again once it has been answered."""
        if requests:
            self._session.submit(requests)
            self._open |= {request.row: request for request in requests}
            self._last_answer = time.monotonic()

    def step(self) -> list[Generation]:
        """Step the engine's session and return the generations it has finished.

        Raises:
            ValueError: it answers what was not requested, forgets a request, exceeds a limit, or returns something
                other than generations.
        """
        finished: Any = self._session.step()
        if not isinstance(finished, Sequence) or not all(isinstance(one, Generation) for one in finished):
            raise ArgumentError(f"{self._name}.step", "a list of Generation, often empty", f"{finished!r:.80}")
        for generation in finished:
            self._take(generation)
        self._require_count()
        self._warn_of_silence(bool(finished))
        return list(finished)

    @property
    def num_unfinished(self) -> int:
        """Requests not yet answered."""
        return len(self._open)

    def _take(self, generation: Generation) -> None:
        """Close the request that a generation answers."""
        request = self._open.pop(generation.row, None)
        if request is None:
            raise UsageError(
                f"{self._name}.step answered row {generation.row}, which is not being asked for: answer each request "
                "once, with its own row"
            )
        fault = self._fault(generation, request)
        if fault:
            raise UsageError(f"{self._name}.step answered row {generation.row} with {fault}")

    def _fault(self, answer: Generation, request: Request) -> str:
        """Return the fault of an answer; empty if it has none."""
        ids = answer.ids
        if not 1 <= len(ids) <= request.max_tokens:
            return f"{len(ids)} ids, but 1 to {request.max_tokens} were asked for: keep to Request.max_tokens"
        if len(answer.logprobs) != len(ids):
            return f"{len(answer.logprobs)} log-probabilities for {len(ids)} ids: give one for each, EOS included"
        types = dict.fromkeys(chain(map(type, ids), map(type, answer.logprobs)))
        odd = [one for one in types if not issubclass(one, int | float)]
        if odd:
            return f"numbers of type {odd[0].__name__}: give plain int and float, as .tolist() does"
        if min(ids) < 0 or (self._num_ids is not None and max(ids) >= self._num_ids):
            odd_id = min(ids) if min(ids) < 0 else max(ids)
            return f"the id {odd_id}: give ids of the policy's vocabulary, from 0 to {(self._num_ids or 0) - 1}"
        wrong = next((one for one in answer.logprobs if not -math.inf < one <= _ROUNDING), None)
        if wrong is not None:
            return f"the log-probability {wrong}: give the natural logarithm of the probability of each sampled id"
        if not isinstance(answer.reason, StopReason):
            return (
                f"the reason {answer.reason!r}: give one of {', '.join(f'StopReason.{one.name}' for one in StopReason)}"
            )
        if answer.reason is StopReason.EOS and self._eos_ids and ids[-1] not in self._eos_ids:
            return f"the reason eos, but its last id is {ids[-1]}: keep the id of EOS, one of {sorted(self._eos_ids)}"
        if not self._eos_ids.isdisjoint(ids[:-1]):
            return f"ids after EOS: end a completion at each of {sorted(self._eos_ids)}"
        return ""

    def _require_count(self) -> None:
        """Check the session's own count of open requests: callers loop until it is 0."""
        says, left = self._session.num_unfinished, len(self._open)
        if says != left:
            rows = ", ".join(map(str, list(self._open)[:5])) + (", ..." if left > 5 else "")
            raise UsageError(
                f"{self._name}.num_unfinished is {says}, but {left} requests are not answered yet"
                f"{f' (rows {rows})' if left else ''}: answer every request and count those that wait"
            )

    def _warn_of_silence(self, answered: bool) -> None:
        """Warn when nothing has been answered for long; no error, because an engine may be slow for good reason."""
        now = time.monotonic()
        if answered:
            self._last_answer = now
        elif now - self._last_answer > self._seconds:
            warnings.warn(
                f"{self._name}.step has answered none of {len(self._open)} requests for {self._seconds:.0f} seconds: "
                "does it make progress each time?",
                stacklevel=3,
            )
            self._last_answer = now
