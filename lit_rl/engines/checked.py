"""A session whose answers are checked, so that a mistake in an engine is one error line, not a hang or a bad tensor."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from itertools import chain
from typing import Any

from lit_rl.arguments import ArgumentError, UsageError
from lit_rl.engines.base import Session
from lit_rl.types import Generation, Request, StopReason

_SECONDS_OF_SILENCE = 600.0


class CheckedSession(Session):
    """An engine's session whose every answer is checked.

    Args:
        session: of the engine.
        eos_ids: every id that ends a completion; empty if the policy knows none.
        seconds: without an answer, with requests open, after which a warning says that the engine may hang.
    """

    def __init__(
        self, session: Session, eos_ids: frozenset[int] = frozenset(), seconds: float = _SECONDS_OF_SILENCE
    ) -> None:
        self._session = session
        self._name = type(session).__name__
        self._eos_ids = eos_ids
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
        """What the engine's session has finished.

        Raises:
            ValueError: it answers what nobody asked for, forgets a request, exceeds a limit, or returns something
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
        """What is wrong with an answer; empty if nothing is."""
        ids = answer.ids
        if not 1 <= len(ids) <= request.max_tokens:
            return f"{len(ids)} ids, but 1 to {request.max_tokens} were asked for: keep to Request.max_tokens"
        if len(answer.logprobs) != len(ids):
            return f"{len(answer.logprobs)} log-probabilities for {len(ids)} ids: give one for each, EOS included"
        types = dict.fromkeys(chain(map(type, ids), map(type, answer.logprobs)))
        odd = [one for one in types if not issubclass(one, int | float)]
        if odd:
            return f"numbers of type {odd[0].__name__}: give plain int and float, as .tolist() does"
        if answer.reason is StopReason.EOS and self._eos_ids and ids[-1] not in self._eos_ids:
            return f"the reason eos, but its last id is {ids[-1]}: keep the id of EOS, one of {sorted(self._eos_ids)}"
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
