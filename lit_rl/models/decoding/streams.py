"""One random stream per (seed, purpose, rollout, problem, sample, turn).

What a row samples then depends on nothing else: not on its place in the batch, on which rows finished
before it, on the number of ranks, or on what was drawn earlier in the run. A resumed run needs no
generator state to go on with the same samples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_BLOCK_TOKENS = 32


@dataclass(frozen=True)
class StreamKey:
    """Names the random streams of one rollout.

    Args:
        seed: of the run.
        purpose: ``train`` or the name of an evaluation, so that the two never share numbers.
        rollout: number of the rollout.
    """

    seed: int
    purpose: str
    rollout: int

    def seed_of(self, task_id: str, sample: int, turn: int = 0) -> int:
        """The seed of the stream of one turn of a row, in [0, 2**63)."""
        text = f"{self.seed}/{self.purpose}/{self.rollout}/{task_id}/{sample}"
        if turn:
            text += f"/turn {turn}"  # no number alone, which would be a sample of a problem called task_id/sample
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") >> 1


class Uniforms:
    """One uniform number per row and token, each row from its own stream.

    Args:
        seeds: one seed per row.
    """

    def __init__(self, seeds: Sequence[int] = ()) -> None:
        self._generators: list[torch.Generator] = []
        self._block = torch.empty(0, _BLOCK_TOKENS, dtype=torch.float64)
        self.add(seeds)

    def add(self, seeds: Sequence[int]) -> None:
        """Add rows behind those that are there."""
        self._generators += [torch.Generator().manual_seed(seed) for seed in seeds]
        self._block = torch.cat([self._block, self._block.new_empty(len(seeds), _BLOCK_TOKENS)])

    def at(self, steps: Tensor, rows: Tensor) -> Tensor:
        """Numbers in [0, 1) for a token of each of the given rows.

        Args:
            steps: [n] int64 token positions, 0-based. Those of a row are asked for in order, none left out.
            rows: [n] int64 row numbers on the CPU.

        Returns:
            [n] float64 on the CPU.
        """
        column = steps % _BLOCK_TOKENS
        for row in rows[column == 0].tolist():
            self._block[row] = torch.rand(_BLOCK_TOKENS, generator=self._generators[row], dtype=torch.float64)
        return self._block[rows, column]
