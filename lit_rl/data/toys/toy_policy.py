"""What toy policies share: prompts and completions of numbers, under the protocol of all policies.

Letters: B prompts, N rows, P prompt tokens, T completion tokens, V vocabulary.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lit_rl.data.toys.number_codec import NumberCodec, Numbers
from lit_rl.models.decoding.protocol import Decoding
from lit_rl.models.padding import pad_left
from lit_rl.models.policy import Policy
from lit_rl.models.reference import FrozenCopy, Reference, frozen_copy
from lit_rl.types import Completions, StopReason


class ToyPolicy(Policy):
    """What toy policies share: prompts are the numbers of the check, completions are numbers.

    A subclass builds :attr:`weights` in :meth:`build` and implements :meth:`logits` and :meth:`is_complete`.

    Args:
        init_seed: seed of the initial weights.
    """

    def __init__(self, init_seed: int | None = None) -> None:
        super().__init__()
        self.init_seed = init_seed or 0
        self.weights: nn.Module | None = None
        self.frozen_reference: nn.Module | None = None
        self.codec = NumberCodec(self.reads)

    @abstractmethod
    def build(self, generator: torch.Generator) -> nn.Module:
        """New weights."""

    @abstractmethod
    def logits(self, prompt_ids: Tensor, completion_ids: Tensor, weights: Any = None) -> Tensor:
        """[N, T, V] logits of each completion token, given the prompt [N, P] and the tokens before it.

        Under ``weights`` such as :meth:`build` makes them, the policy's own by default.
        """

    @abstractmethod
    def is_complete(self, prompt: Sequence[int], ids: Sequence[int]) -> bool:
        """Whether a completion has ended."""

    @abstractmethod
    def reads(self, numbers: Numbers) -> bool:
        """Whether these numbers are a prompt that the policy was made for."""

    def load(self) -> None:
        """Build the weights."""
        if self.weights is None:
            self.weights = self.build(torch.Generator().manual_seed(self.init_seed))

    def decoding(self) -> NumberDecoding:
        """From the numbers themselves: a toy keeps no cache."""
        return NumberDecoding(self)

    def forward(
        self, completions: Completions, temperature: float = 1.0, with_entropy: bool = False, weights: Any = None
    ) -> tuple[Tensor, Tensor | None]:
        """Log-probabilities and entropies [N, T], under other weights if they are given; see :meth:`Policy.forward`."""
        logits = self.logits(completions.prompt_ids, completions.completion_ids, weights)
        logprobs = (logits / (temperature or 1.0)).log_softmax(-1)
        chosen = logprobs.gather(-1, completions.completion_ids[..., None])[..., 0]
        mask = completions.completion_mask
        if not with_entropy:
            return chosen * mask, None
        return chosen * mask, -(logprobs.exp() * logprobs).sum(-1) * mask

    def make_reference(self, *, will_refresh: bool = False) -> Reference:
        """A frozen copy of the policy as it is now; see :class:`Policy`."""
        assert self.weights is not None
        if self.frozen_reference is None:
            self.frozen_reference = frozen_copy(self.weights)
        return FrozenCopy(self.frozen_reference, self.weights, self._logprobs_under)

    def _logprobs_under(self, completions: Completions, temperature: float, weights: Any) -> Tensor:
        logprobs: Tensor = self(completions, temperature, weights=weights)[0]
        return logprobs

    def keeps(self, name: str) -> bool:
        """The reference is kept: it is as small as the policy."""
        return "frozen_reference." in name

    def make_room(self, names: Collection[str]) -> None:
        """Add a reference if the checkpoint has one."""
        if any("frozen_reference." in name for name in names):
            self.make_reference()


class NumberDecoding(Decoding):
    """Rows of a toy policy: each token's logits are computed from the prompt and all numbers before it.

    Args:
        policy: whose weights are used.
    """

    def __init__(self, policy: ToyPolicy) -> None:
        self._policy = policy

    def read(self, prompts: Sequence[Sequence[int]], copies: Tensor, most_tokens: int) -> Tensor:
        """Start from the prompts; see :meth:`Decoding.read`."""
        device = self._policy.device
        ids, _ = pad_left(prompts, 0, device)
        self._prompt_ids = ids[copies.to(device)]
        self._ids = torch.zeros(len(copies), 0, dtype=torch.long, device=device)
        self.room = [most_tokens] * len(copies)
        return self._next_logits()

    def append(self, tokens: Tensor) -> Tensor:
        """See :meth:`Decoding.append`."""
        self._ids = torch.cat([self._ids, tokens[:, None]], 1)
        return self._next_logits()

    def keep(self, rows: Tensor) -> None:
        """See :meth:`Decoding.keep`."""
        rows = rows.to(self._ids.device)
        self._prompt_ids, self._ids = self._prompt_ids[rows], self._ids[rows]

    def ends(self, prompt: Sequence[int], ids: Sequence[int], stop_strings: Sequence[str]) -> StopReason | None:
        """Where the policy says that a completion is complete."""
        return StopReason.EOS if self._policy.is_complete(prompt, ids) else None

    def _next_logits(self) -> Tensor:
        """[n, V]; the last number is not there yet, and no logits depend on it."""
        so_far = torch.cat([self._ids, torch.zeros_like(self._prompt_ids[:, :1])], 1)
        return self._policy.logits(self._prompt_ids, so_far)[:, -1]
