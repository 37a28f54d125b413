"""Toy policies: a few numbers instead of a language model.

Letters: N rows, P prompt tokens, T completion tokens, V vocabulary, H embedding size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lit_rl.data.toys.number_codec import Numbers
from lit_rl.data.toys.toy_policy import ToyPolicy
from lit_rl.data.toys.toy_worlds import APPROACH
from lit_rl.functional.masking import ends
from lit_rl.models.critic import Critic
from lit_rl.models.policy import Policy
from lit_rl.types import Completions


class SortingPolicy(ToyPolicy):
    """Maps a prompt of fixed length to as many numbers, each position on its own (not autoregressive).

        encoded = sum over prompt positions i of embedding[prompt[i]] @ encode[i]   [N, H]
        logits[t] = (encoded @ decode[t]) @ embedding.T                             [N, T, V]

    Args:
        vocabulary_size: numbers 0 to V - 1.
        length: numbers in prompt and response.
        embedding_size: H.
        embedding_std: standard deviation of the initial embedding. The lecture's is 1: logits then start with a
            standard deviation of 5, so some answers are all but decided before the first reward.
        init_seed: seed of the initial weights.

    Source:
        the model of the policy-gradient lecture of Stanford CS336, 2025
    """

    def __init__(
        self,
        vocabulary_size: int = 5,
        length: int = 3,
        embedding_size: int = 10,
        embedding_std: float = 0.3,
        init_seed: int | None = None,
    ) -> None:
        super().__init__(init_seed)
        self.vocabulary_size = vocabulary_size
        self.length = length
        self.embedding_size = embedding_size
        self.embedding_std = embedding_std

    def build(self, generator: torch.Generator) -> nn.Module:
        """Embedding, one encoder matrix per prompt position, one decoder matrix per response position."""
        size = self.embedding_size
        weights = nn.ParameterDict()
        weights["embedding"] = torch.randn(self.vocabulary_size, size, generator=generator) * self.embedding_std
        weights["encode"] = torch.randn(self.length, size, size, generator=generator) / math.sqrt(size)
        weights["decode"] = torch.randn(self.length, size, size, generator=generator) / math.sqrt(size)
        return weights

    def reads(self, numbers: Numbers) -> bool:
        """Whether there are as many numbers as the policy takes, all of which it knows."""
        return len(numbers) == self.length and max(numbers) < self.vocabulary_size

    def logits(self, prompt_ids: Tensor, completion_ids: Tensor, weights: Any = None) -> Tensor:
        """[N, T, V]; earlier tokens do not matter."""
        weights = self.weights if weights is None else weights
        embedding = weights["embedding"]
        encoded = torch.einsum("nph,phk->nk", embedding[prompt_ids], weights["encode"])
        decode = weights["decode"][: completion_ids.shape[1]]
        decoded = torch.einsum("nh,thk->ntk", encoded, decode)
        logits: Tensor = decoded @ embedding.T
        return logits

    def is_complete(self, prompt: Sequence[int], ids: Sequence[int]) -> bool:
        """A response has as many numbers as the prompt."""
        return len(ids) == self.length


class CorridorPolicy(ToyPolicy):
    """A table of two logits for each distance to the goal: towards it (1) or away from it (0).

    Args:
        num_cells: cells besides the goal.
        init_seed: not used: all actions are equally likely at first.
    """

    def __init__(self, num_cells: int = 5, init_seed: int | None = None) -> None:
        super().__init__(init_seed)
        self.num_cells = num_cells

    def build(self, generator: torch.Generator) -> nn.Module:
        """A table [num_cells + 1, 2] of zeros; row 0, the goal, is never used."""
        return _table(self.num_cells, 2)

    def reads(self, numbers: Numbers) -> bool:
        """Whether the corridor is not longer than the table."""
        return numbers[0] <= self.num_cells

    def logits(self, prompt_ids: Tensor, completion_ids: Tensor, weights: Any = None) -> Tensor:
        """[N, T, 2]: the row of the distance before each action."""
        weights = self.weights if weights is None else weights
        logits: Tensor = weights(distances(prompt_ids, completion_ids))
        return logits

    def is_complete(self, prompt: Sequence[int], ids: Sequence[int]) -> bool:
        """The walk ends at the goal."""
        at = torch.tensor([[*ids, 0]])
        return int(distances(torch.tensor([prompt]), at)[0, -1]) == 0

    def table(self) -> dict[int, float]:
        """Probability of walking towards the goal, by distance."""
        assert isinstance(self.weights, nn.Embedding)
        approach = self.weights.weight.detach().softmax(-1)[:, APPROACH].tolist()
        return {distance: approach[distance] for distance in range(1, self.num_cells + 1)}


class CorridorCritic(Critic):
    """A table of one value for each distance to the goal, zero at first; the goal itself is worth nothing more.

    Args:
        num_cells: cells besides the goal.
    """

    def __init__(self, num_cells: int = 5) -> None:
        super().__init__()
        self.num_cells = num_cells
        self.weights = _table(num_cells, 1)

    def load(self, policy: Policy) -> None:
        """The table is there already."""

    def forward(self, completions: Completions) -> tuple[Tensor, Tensor]:
        """Values [N, T] before each action, 0 outside the mask, and [N] after the last; see :class:`Critic`."""
        mask = completions.completion_mask
        # One more column, so that the distance after the last action is there too.
        actions = torch.cat([completions.completion_ids, torch.zeros_like(completions.completion_ids[:, :1])], 1)
        before = distances(completions.prompt_ids, actions)
        values = self.weights(before)[..., 0] * (before > 0)
        tails: Tensor = values.gather(1, ends(mask)[:, None])[:, 0]
        return values[:, :-1] * mask, tails

    def trained_parameters(self) -> list[nn.Parameter]:
        """The table."""
        return list(self.parameters())

    def table(self) -> dict[int, float]:
        """Value by distance."""
        values = self.weights.weight.detach()[:, 0].tolist()
        return {distance: values[distance] for distance in range(1, self.num_cells + 1)}


def distances(prompt_ids: Tensor, completion_ids: Tensor) -> Tensor:
    """Distance to the goal before each action; see :func:`lit_rl.data.toys.toy_worlds.corridor_distances`.

    Args:
        prompt_ids: [N, 2] ``(num_cells, start)``.
        completion_ids: [N, T] actions.

    Returns:
        [N, T] int64.
    """
    num_cells, here = prompt_ids[:, -2], prompt_ids[:, -1]
    before = []
    for action in completion_ids.unbind(1):
        before.append(here)
        moved = torch.where(action == APPROACH, here - 1, torch.minimum(here + 1, num_cells))
        here = torch.where(here > 0, moved, 0)
    return torch.stack(before, 1) if before else completion_ids


def _table(num_cells: int, width: int) -> nn.Embedding:
    table = nn.Embedding(num_cells + 1, width)
    nn.init.zeros_(table.weight)
    return table
