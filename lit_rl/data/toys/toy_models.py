"""Toy policies: a few numbers instead of a language model.

A token is a number, and a text is numbers with a space between them.

Letters: B prompts, N rows, P prompt tokens, T completion tokens, V vocabulary, H embedding size.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lit_rl.data.toys.toy_tasks import APPROACH, numbers_of_toy_problem
from lit_rl.math.masking import end_column_per_row
from lit_rl.models.codecs.codec import Codec, Spans
from lit_rl.models.critic import Critic
from lit_rl.models.decoding import BatchDecoder
from lit_rl.models.padding import pad_left
from lit_rl.models.policy import Policy
from lit_rl.models.reference import FrozenCopyReference, NoGradScorer, make_frozen_copy
from lit_rl.types import Completions, Problem, StopReason

Numbers = tuple[int, ...]


class NumberCodec(Codec):
    """A codec: prompts are the check's numbers if the policy ``reads`` such numbers; completions are numbers."""

    def __init__(self, reads: Callable[[Numbers], bool]) -> None:
        super().__init__(eos_ids=frozenset(), pad_id=0)
        self._reads = reads

    def encode_problem(self, problem: Problem) -> Numbers:
        return numbers_of_toy_problem(problem)

    def has_room_for_completion(self, problem: Problem) -> bool:
        numbers = problem.check.numbers
        return numbers is not None and self._reads(numbers)

    def encode_completion(self, text: str, *, is_finished: bool = True) -> tuple[Numbers, StopReason]:
        return parse_numbers(text), StopReason.EOS if is_finished else StopReason.LENGTH

    def decode(self, ids: Sequence[int], reason: StopReason, stop_strings: Sequence[str]) -> tuple[str, Spans]:
        spans, start = [], 0
        for number in ids:
            spans.append((start, start + len(str(number))))
            start += len(str(number)) + 1
        return " ".join(map(str, ids)), tuple(spans)

    def encode_message(self, problem: Problem, ids: Sequence[int], reason: StopReason, message: str) -> Numbers:
        return parse_numbers(message)

    def truncate_middle(self, text: str, max_tokens: int) -> str:
        return " ".join(text.split()[:max_tokens])


def parse_numbers(text: str) -> Numbers:
    """Return the numbers of a text with spaces between them."""
    return tuple(int(word) for word in text.split())


class ToyPolicy(Policy):
    """Base of toy policies: prompts are the numbers of the check, completions are numbers.

    A subclass builds :attr:`weights` in :meth:`build_model` and implements :meth:`logits` and :meth:`is_complete`.
    """

    def __init__(self, init_seed: int | None = None) -> None:
        super().__init__()
        self.init_seed = init_seed or 0
        self.weights: nn.Module | None = None
        self.frozen_reference: nn.Module | None = None
        self.codec = NumberCodec(self.accepts_prompt)

    @abstractmethod
    def build_model(self, generator: torch.Generator) -> nn.Module:
        """Build new weights."""

    @abstractmethod
    def logits(self, prompt_ids: Tensor, completion_ids: Tensor, weights: Any = None) -> Tensor:
        """Return [N, T, V] logits of each completion token, given the prompt [N, P] and the tokens before it.

        They are computed with ``weights`` as :meth:`build_model` makes them, by default the policy's own.
        """

    @abstractmethod
    def is_complete(self, prompt: Sequence[int], ids: Sequence[int]) -> bool:
        """Return whether a completion has ended."""

    @abstractmethod
    def accepts_prompt(self, numbers: Numbers) -> bool:
        """Return whether these numbers are a prompt that the policy was made for."""

    def load(self) -> None:
        if self.weights is None:
            self.weights = self.build_model(torch.Generator().manual_seed(self.init_seed))

    def make_batch_decoder(self) -> NumberDecoding:
        return NumberDecoding(self)

    def forward(
        self, completions: Completions, temperature: float = 1.0, with_entropy: bool = False, model: Any = None
    ) -> tuple[Tensor, Tensor | None]:
        logits = self.logits(completions.prompt_ids, completions.completion_ids, model)
        logprobs = (logits / (temperature or 1.0)).log_softmax(-1)
        chosen = logprobs.gather(-1, completions.completion_ids[..., None])[..., 0]
        mask = completions.completion_mask
        if not with_entropy:
            return chosen * mask, None
        return chosen * mask, -(logprobs.exp() * logprobs).sum(-1) * mask

    def make_reference(self, *, will_refresh: bool = False) -> NoGradScorer:
        assert self.weights is not None
        if self.frozen_reference is None:
            self.frozen_reference = make_frozen_copy(self.weights)
        return FrozenCopyReference(self, self.frozen_reference, self.weights)

    def saves_frozen_parameter(self, name: str) -> bool:
        """Return True for the reference, which is as small as the policy."""
        return "frozen_reference." in name

    def add_reference_if_saved(self, names: Collection[str]) -> None:
        if any("frozen_reference." in name for name in names):
            self.make_reference()


class NumberDecoding(BatchDecoder):
    """Rows of a toy policy: each token's logits are computed from the prompt and all numbers before it."""

    def __init__(self, policy: ToyPolicy) -> None:
        self._policy = policy

    def prefill(self, prompts: Sequence[Sequence[int]], copies: Tensor, max_tokens: int) -> Tensor:
        device = self._policy.device
        ids, _ = pad_left(prompts, 0, device)
        self._prompt_ids = ids[copies.to(device)]
        self._ids = torch.zeros(len(copies), 0, dtype=torch.long, device=device)
        self.room = [max_tokens] * len(copies)
        return self._next_logits()

    def decode_step(self, tokens: Tensor) -> Tensor:
        self._ids = torch.cat([self._ids, tokens[:, None]], 1)
        return self._next_logits()

    def keep_rows(self, rows: Tensor) -> None:
        rows = rows.to(self._ids.device)
        self._prompt_ids, self._ids = self._prompt_ids[rows], self._ids[rows]

    def stop_reason_if_ended(
        self, prompt: Sequence[int], ids: Sequence[int], stop_strings: Sequence[str]
    ) -> StopReason | None:
        return StopReason.EOS if self._policy.is_complete(prompt, ids) else None

    def _next_logits(self) -> Tensor:
        """Return [n, V] logits of the next number, which is not there yet; no logits depend on its placeholder."""
        so_far = torch.cat([self._ids, torch.zeros_like(self._prompt_ids[:, :1])], 1)
        return self._policy.logits(self._prompt_ids, so_far)[:, -1]


class SortingPolicy(ToyPolicy):
    """A policy that maps a prompt of fixed length to as many numbers, each on its own (not autoregressively).

        encoded = sum over prompt positions i of embedding[prompt[i]] @ encode[i]   [N, H]
        logits[t] = (encoded @ decode[t]) @ embedding.T                             [N, T, V]

    Args:
        vocabulary_size: numbers 0 to V - 1.
        length: numbers in prompt and response.
        embedding_size: H.
        embedding_std: standard deviation of the initial embedding. In the lecture it is 1: logits then start with
            a standard deviation of 5, so some answers are all but decided before the first reward.
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

    def build_model(self, generator: torch.Generator) -> nn.Module:
        """Build an embedding, one encoder matrix per prompt position and one decoder matrix per response position."""
        size = self.embedding_size
        weights = nn.ParameterDict()
        weights["embedding"] = torch.randn(self.vocabulary_size, size, generator=generator) * self.embedding_std
        weights["encode"] = torch.randn(self.length, size, size, generator=generator) / math.sqrt(size)
        weights["decode"] = torch.randn(self.length, size, size, generator=generator) / math.sqrt(size)
        return weights

    def accepts_prompt(self, numbers: Numbers) -> bool:
        return len(numbers) == self.length and max(numbers) < self.vocabulary_size

    def logits(self, prompt_ids: Tensor, completion_ids: Tensor, weights: Any = None) -> Tensor:
        """Return [N, T, V] logits; earlier tokens do not matter."""
        weights = self.weights if weights is None else weights
        embedding = weights["embedding"]
        encoded = torch.einsum("nph,phk->nk", embedding[prompt_ids], weights["encode"])
        decode = weights["decode"][: completion_ids.shape[1]]
        decoded = torch.einsum("nh,thk->ntk", encoded, decode)
        logits: Tensor = decoded @ embedding.T
        return logits

    def is_complete(self, prompt: Sequence[int], ids: Sequence[int]) -> bool:
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

    def build_model(self, generator: torch.Generator) -> nn.Module:
        """Build a table [num_cells + 1, 2] of zeros; row 0, the goal, is never used."""
        return _zero_table(self.num_cells, 2)

    def accepts_prompt(self, numbers: Numbers) -> bool:
        return numbers[0] <= self.num_cells

    def logits(self, prompt_ids: Tensor, completion_ids: Tensor, weights: Any = None) -> Tensor:
        """Return [N, T, 2] logits: the row of the distance before each action."""
        weights = self.weights if weights is None else weights
        logits: Tensor = weights(distances_to_goal(prompt_ids, completion_ids))
        return logits

    def is_complete(self, prompt: Sequence[int], ids: Sequence[int]) -> bool:
        at = torch.tensor([[*ids, 0]])
        return int(distances_to_goal(torch.tensor([prompt]), at)[0, -1]) == 0


class CorridorCritic(Critic):
    """A table of one value for each distance to the goal, zero at first; the goal has the value 0.

    Args:
        num_cells: cells besides the goal.
    """

    def __init__(self, num_cells: int = 5) -> None:
        super().__init__()
        self.num_cells = num_cells
        self.weights = _zero_table(num_cells, 1)

    def load(self, policy: Policy) -> None:
        """Do nothing: the table exists already."""

    def forward(self, completions: Completions) -> tuple[Tensor, Tensor]:
        """Return values [N, T] before each action, 0 outside the mask, and [N] after the last; see :class:`Critic`."""
        mask = completions.completion_mask
        # One more column, so that the distance after the last action is included.
        actions = torch.cat([completions.completion_ids, torch.zeros_like(completions.completion_ids[:, :1])], 1)
        before = distances_to_goal(completions.prompt_ids, actions)
        values = self.weights(before)[..., 0] * (before > 0)
        tails: Tensor = values.gather(1, end_column_per_row(mask)[:, None])[:, 0]
        return values[:, :-1] * mask, tails

    def trained_parameters(self) -> list[nn.Parameter]:
        return list(self.parameters())


def distances_to_goal(prompt_ids: Tensor, completion_ids: Tensor) -> Tensor:
    """Return the distance to the goal before each action.

    The corridor has ``num_cells`` cells, then the goal. Approaching takes one off the distance; going the other
    way adds one, but not past the wall at the far end. Actions after the goal was reached have no effect.

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


def _zero_table(num_cells: int, width: int) -> nn.Embedding:
    table = nn.Embedding(num_cells + 1, width)
    nn.init.zeros_(table.weight)
    return table
