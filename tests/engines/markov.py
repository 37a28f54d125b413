"""A custom engine, written against the public interface alone: a Markov chain over token ids.

It knows nothing of the policy but ``version``: the next id depends on the last one by a table of its own.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lit_rl.engines import Engine, Generation, Request, Session
from lit_rl.models import Policy
from lit_rl.types import Sampling, StopReason

Table = dict[int, dict[int, float]]
"""For each last id, the probabilities of the next one."""


class MarkovEngine(Engine):
    """Samples by a table instead of a model.

    Args:
        table: probabilities of the next id by the last one; ids without a row go on as id 0.
        eos_id: the id that ends a completion.
    """

    def __init__(self, table: Table, eos_id: int) -> None:
        self.table = table
        self.eos_id = eos_id
        self.num_sessions = 0
        self.num_stale = 0

    @contextmanager
    def session(self, policy: Policy, sampling: Sampling) -> Iterator[Session]:
        """Nothing is gathered: there are no weights."""
        self.num_sessions += 1
        yield MarkovSession(self, policy.version)

    def mark_stale(self) -> None:
        """Count, so that a test can see it."""
        self.num_stale += 1


class MarkovSession(Session):
    """Writes one token of each request a step."""

    def __init__(self, engine: MarkovEngine, version: int) -> None:
        self.engine = engine
        self.version = version
        self.rows: deque[Row] = deque()

    def submit(self, requests: Sequence[Request]) -> None:
        """Start at once, beside whatever is being written."""
        self.rows.extend(Row(request) for request in requests)

    def step(self) -> list[Generation]:
        """One token more for each row."""
        for row in self.rows:
            row.write(self.engine.table)
        done = [row for row in self.rows if row.reason(self.engine.eos_id) is not None]
        self.rows = deque(row for row in self.rows if row not in done)
        return [row.generation(self.engine.eos_id, self.version) for row in done]

    @property
    def num_unfinished(self) -> int:
        """Rows that are being written; nothing ever waits here."""
        return len(self.rows)


class Row:
    """One request and what was written for it."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.random = random.Random(request.stream)
        self.ids: list[int] = []
        self.logprobs: list[float] = []

    def write(self, table: Table) -> None:
        """Draw the next id from the row of the last one."""
        last = (self.ids or self.request.prompt_ids)[-1]
        following = table.get(last, table[0])
        token = self.random.choices(list(following), list(following.values()))[0]
        self.ids.append(token)
        self.logprobs.append(math.log(following[token]))

    def reason(self, eos_id: int) -> StopReason | None:
        """Why the row is over, if it is."""
        if self.ids[-1] == eos_id:
            return StopReason.EOS
        return StopReason.LENGTH if len(self.ids) == self.request.max_tokens else None

    def generation(self, eos_id: int, version: int) -> Generation:
        """The answer."""
        reason = self.reason(eos_id)
        assert reason is not None
        return Generation(self.request.row, tuple(self.ids), tuple(self.logprobs), reason, version)
