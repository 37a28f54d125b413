"""What an in-process engine needs of a policy: read prompts, give the next logits, take the chosen tokens.

Letters: B distinct prompts, n rows being written, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor

from lit_rl.types import StopReason


class Decoding(ABC):
    """Rows of a policy that are written side by side, one token each at a time.

    A policy makes a new one for each batch of rows. :meth:`read` comes first; then the caller chooses a token per row
    and appends them, again and again. Used in eval mode and without gradients.
    """

    can_join: bool = False
    """Whether :meth:`read` may be called again, between two tokens, to begin rows behind those that are there."""

    room: Sequence[int]
    """Tokens that each row of the last :meth:`read` may write before the policy's positions are full."""

    @abstractmethod
    def read(self, prompts: Sequence[Sequence[int]], copies: Tensor, most_tokens: int) -> Tensor:
        """Read each prompt once, then begin the rows that continue it.

        Args:
            prompts: ids of B distinct prompts, none of them empty.
            copies: [n] int64 on the CPU: the prompt that each row continues.
            most_tokens: no row writes more than this.

        Returns:
            [n, V] logits of the first token of each of these rows.
        """

    @abstractmethod
    def append(self, tokens: Tensor) -> Tensor:
        """Append a token to each row.

        Args:
            tokens: [n] int64.

        Returns:
            [n, V] logits of the tokens after them.
        """

    @abstractmethod
    def keep(self, rows: Tensor) -> None:
        """Keep only these of the present rows, in this order.

        Args:
            rows: int64 on the CPU, numbers from 0 to n - 1.
        """

    @abstractmethod
    def ends(self, prompt: Sequence[int], ids: Sequence[int], stop_strings: Sequence[str]) -> StopReason | None:
        """Why a row ends with its last token, if it does; token limits are the caller's.

        Args:
            prompt: of the row.
            ids: written so far, at least one.
            stop_strings: of its request.
        """
