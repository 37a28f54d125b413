"""Sampling in the trainer's own process with the trainer's own weights: always on-policy, nothing to sync."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from lit_rl.engines.engine import Engine, Session
from lit_rl.models.policy import Policy
from lit_rl.models.sampling import RunningBatch
from lit_rl.signature_check import PositiveInt
from lit_rl.training.ranks import eval_mode, naming_phase, unsharded_weights
from lit_rl.types import Generation, Request, Sampling

# Each batch costs a forward pass per token, however few rows it has. So requests wait for each other until their number
# is a quarter of the running rows, but for no more than ``_MAX_STEPS_WAITING`` steps.
_SHARE_TO_START = 0.25
_MAX_STEPS_WAITING = 16


class InProcess(Engine):
    """The default engine: samples with the policy's own weights, token by token.

    Requests that start together form one batch, in which equal prompts are read once. Requests that arrive while other
    requests are being sampled start as a separate batch.

    Args:
        max_rows: largest number of rows sampled at the same time; further requests wait until rows have ended. ``None``
            for no limit: all requests submitted together then share one batch.
    """

    in_rounds = True
    shares_weights = True

    def __init__(self, max_rows: PositiveInt | None = None) -> None:
        self.max_rows = max_rows

    @contextmanager
    def session(self, policy: Policy, sampling: Sampling) -> Iterator[Session]:
        with torch.no_grad(), eval_mode(policy), naming_phase("sampling"), unsharded_weights(policy):
            session = InProcessSession(policy, sampling, self.max_rows)
            try:
                yield session
            finally:
                session.end()


class InProcessSession(Session):
    """A queue of waiting requests, and the batches being sampled.

    Waiting requests start together, up to the room that ``max_rows`` leaves. They start as soon as their number reaches
    a quarter of the running rows (so immediately if no row is running), or after 16 steps if there is room for all.
    """

    def __init__(self, policy: Policy, sampling: Sampling, max_rows: int | None = None) -> None:
        self._policy = policy
        self._sampling = sampling
        self._max_rows = max_rows
        self._version = policy.version
        self._waiting: deque[Request] = deque()
        self._steps_waiting = 0
        self._batches: list[RunningBatch] = []

    def submit(self, requests: Sequence[Request]) -> None:
        self._waiting.extend(requests)

    def step(self) -> list[Generation]:
        held = sum(batch.num_rows_in_memory for batch in self._batches)
        room = len(self._waiting) if self._max_rows is None else self._max_rows - held
        count = min(len(self._waiting), room)
        waited = count == len(self._waiting) and self._steps_waiting >= _MAX_STEPS_WAITING
        count = count if waited or count >= _SHARE_TO_START * held else 0
        if count:
            requests = [self._waiting.popleft() for _ in range(count)]
            if self._batches and self._batches[-1].can_add_rows:
                self._batches[-1].add_requests(requests)
            else:
                self._batches.append(
                    RunningBatch(self._policy.make_batch_decoder(), requests, self._sampling, self._version)
                )
        self._steps_waiting = self._steps_waiting + 1 if self._waiting and not count else 0
        generations = [generation for batch in self._batches for generation in batch.step()]
        self._batches = [batch for batch in self._batches if batch.num_running]
        return generations

    @property
    def num_unfinished(self) -> int:
        return len(self._waiting) + sum(batch.num_running for batch in self._batches)

    def end(self) -> None:
        """Drop unanswered requests and all caches; the weights may be sharded again from here on."""
        self._waiting.clear()
        self._batches.clear()
