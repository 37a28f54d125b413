"""The codec of toy policies: a token is a number, and a text is numbers with a space between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lit_rl.arguments import UsageError
from lit_rl.models.codecs.codec import Codec, Spans
from lit_rl.types import Problem, StopReason

Numbers = tuple[int, ...]


class NumberCodec(Codec):
    """Prompts are the numbers of the check, completions are numbers.

    Args:
        reads: whether the policy can do something with a prompt of these numbers.
    """

    def __init__(self, reads: Callable[[Numbers], bool]) -> None:
        super().__init__(eos_ids=frozenset(), pad_id=0)
        self._reads = reads

    def encode(self, problem: Problem) -> Numbers:
        """The numbers themselves."""
        return numbers_of(problem)

    def fits(self, problem: Problem) -> bool:
        """Whether the problem is one of numbers that the policy reads."""
        numbers = problem.check.numbers
        return numbers is not None and self._reads(numbers)

    def given(self, text: str) -> tuple[Numbers, StopReason]:
        """The numbers of a text."""
        return read_numbers(text), StopReason.EOS

    def decode(self, ids: Sequence[int], reason: StopReason, stop_strings: Sequence[str]) -> tuple[str, Spans]:
        """Numbers with a space between them; no number is left out at the end."""
        spans, start = [], 0
        for number in ids:
            spans.append((start, start + len(str(number))))
            start += len(str(number)) + 1
        return " ".join(map(str, ids)), tuple(spans)

    def extend(self, problem: Problem, ids: Sequence[int], reason: StopReason, message: str) -> Numbers:
        """The numbers of the message."""
        return read_numbers(message)

    def shorten(self, text: str, max_tokens: int) -> str:
        """The text itself.

        Raises:
            ValueError: it has more numbers: nothing could stand for those left out.
        """
        count = len(read_numbers(text))
        if count > max_tokens:
            raise UsageError(f"a message of {count} numbers is longer than {max_tokens} tokens: allow more tokens")
        return text


def numbers_of(problem: Problem) -> Numbers:
    """The numbers of a toy problem.

    Raises:
        ValueError: it has none.
    """
    numbers = problem.check.numbers
    if numbers is None:
        raise UsageError(f"a toy policy reads numbers (TokenTarget), but {problem.task_id} has none")
    return numbers


def read_numbers(text: str) -> Numbers:
    """The numbers of a text with spaces between them.

    Raises:
        ValueError: the text holds something else.
    """
    try:
        return tuple(int(word) for word in text.split())
    except ValueError as error:
        raise UsageError(f"a toy policy reads numbers with spaces between them, got {text[:60]!r}") from error
