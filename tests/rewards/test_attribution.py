"""What each span of a text earns, counted by eye; in bulk against loops in test_credit_in_bulk.py."""

import pytest
import torch
from support.completions import problem

from lit_rl.rewards import Span, TermScore
from lit_rl.rewards.places import Places, TokenPlaces
from lit_rl.rollout import find_program
from lit_rl.types import Program

# Four tokens of two bytes, then EOS, then padding.
TOKENS = ((0, 2), (2, 4), (4, 6), (6, 8), (8, 8))
MASK = (True, True, True, True, True, False)


def of(
    tokens: tuple[tuple[int, int], ...], mask: tuple[bool, ...], program: Program | None = None, start: int = 0
) -> TokenPlaces:
    return TokenPlaces(tokens, torch.tensor(mask), program, start)


def places(start: int | None = None, end: int = 0) -> TokenPlaces:
    return of(TOKENS, MASK, None if start is None else Program("", start, end))


def credit(places: TokenPlaces, scores: list[tuple[float, TermScore]]) -> list[float]:
    return places.spread(places.parts(scores)).tolist()


def flagged(places: TokenPlaces, start: int, end: int) -> list[int]:
    return places.flagged(start, end).tolist()


ALL = (True,) * 4
# Tokens, mask, a place, and the tokens that it flags.
FLAGGED = [
    (TOKENS, MASK, (3, 5), [1, 2]),  # an overlap of one byte
    (TOKENS, MASK, (2, 4), [1]),
    (TOKENS, MASK, (2, 2), [1]),  # an empty place means the token that has its byte
    (TOKENS, MASK, (3, 3), [1]),
    (TOKENS, MASK, (8, 8), []),
    (TOKENS, (True, False, True, True, True), (0, 8), [0, 2, 3]),  # none outside the mask
    (((0, 1), (1, 4), (1, 4), (4, 5)), ALL, (2, 3), [1, 2]),  # all that share a broken character
    (((0, 3), (3, 3), (0, 3), (3, 4)), ALL, (0, 1), [0, 2]),  # with a special token inside it
    ((*TOKENS, (8, 8), (8, 8)), MASK[:4], (0, 9), [0, 1, 2, 3]),  # no padding
]


def test_tokens_of_a_place_are_flagged() -> None:
    for tokens, mask, place, expected in FLAGGED:
        assert flagged(of(tokens, mask), *place) == expected, (tokens, mask, place)


# A program's place or none, weights and scores, and the credit of each token.
CREDIT = {
    # value -1: 0.6 of it on tokens 1 and 2, the remaining 0.4 over the program's tokens 1, 2, 3
    "a span, and the rest over the program": (
        (3, 8),
        [(1.0, TermScore(-1.0, (Span(3, 5, -0.6),)))],
        [0, -0.3 - 0.4 / 3, -0.3 - 0.4 / 3, -0.4 / 3, 0, 0],
    ),
    "a span without a token is spread": ((0, 4), [(1.0, TermScore(1.0, (Span(40, 41, 1.0),)))], [0.5, 0.5, 0, 0, 0, 0]),
    "without a program all but padding, even EOS": ((), [(1.0, TermScore(-1.0))], [*[-0.2] * 5, 0]),
    "an empty program is none": ((4, 4), [(1.0, TermScore(1.0))], [*[0.2] * 5, 0]),
    "the weight scales all parts": (
        (0, 8),
        [(2.0, TermScore(-1.0, (Span(0, 1, -0.5),)))],
        [-1.25, -0.25, -0.25, -0.25, 0, 0],
    ),
    "terms add up": (
        (0, 8),
        [(1.0, TermScore(-1.0, (Span(0, 1, -1.0),))), (0.5, TermScore(4.0)), (1.0, TermScore(None))],
        [-0.5, 0.5, 0.5, 0.5, 0, 0],
    ),
}


def test_each_token_gets_its_part() -> None:
    for name, (place, scores, expected) in CREDIT.items():
        assert credit(places(*place), scores) == pytest.approx(expected), name


def test_only_the_last_turn_is_flagged_and_gets_the_rest() -> None:
    """Turn, message, and a last turn of the tokens above from column 3 on."""
    mask = (True, False, False, *MASK)
    last = of(TOKENS, mask, Program("", 2, 8), start=3)
    assert flagged(last, 3, 5) == [4, 5]
    parts = last.parts([(1.0, TermScore(-1.0, (Span(0, 2, -0.4),)))])
    assert last.spread(parts).tolist() == pytest.approx([0, 0, 0, -0.4, -0.2, -0.2, -0.2, 0, 0])
    assert parts.decided.tolist() == pytest.approx([0, 0, 0, 0, -0.4, 0, 0, 0, 0])
    without = of(TOKENS, mask, start=3)
    assert credit(without, [(1.0, TermScore(1.0))]) == pytest.approx([0, 0, 0, *[0.2] * 5, 0])


TEXTS = {
    "as it is": "Voilà:\n```python\ndef f(x):\n    return '文' + ⟪wrong⟫\n```\n",
    "in a list": "1. Voilà:\n\n   ```python\n   def f(x):\n\n       return '文' + ⟪wrong⟫\n   ```\n",
    "tabs": "\t```python\n\tdef f(x):\n\t\treturn ⟪wrong⟫\n\t```\n",
    "carriage returns": "- ```py\r\n  def f(x):\r\n    return ⟪wrong⟫\r\n  ```\r\n",
    "a last line without end": "   ```python\n   def f(x):\n       return ⟪wrong⟫",
    "another block is behind": "   ```python\n   def f(x):\n       return ⟪wrong⟫\n   ```\n```python\nf(1)\n```\n",
}


@pytest.mark.parametrize("marked", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("prefix", ["", "import math\n# é\n"])
def test_a_place_in_the_program_is_found_in_the_completion(marked: str, prefix: str) -> None:
    text = marked.replace("⟪", "").replace("⟫", "")
    program = find_program(problem(fields={"entry_point": "f"}, program_prefix=prefix), text)
    assert program is not None
    compile(program.source, "<program>", "exec")
    places = Places(text, program)
    assert places.known
    begin = len(program.source.partition("wrong")[0].encode())
    span = places.span(begin, begin + len("wrong"), -1.0)
    assert span is not None
    first = len(marked.partition("⟪")[0].encode())
    assert (span.start, span.end) == (first, first + len("wrong"))
    line = program.source[: program.source.index("wrong")].count("\n") + 1
    of_line = places.line_span(line, -1.0)
    assert of_line is not None
    assert text.encode()[of_line.start : of_line.end].decode().strip().startswith("return")
    assert text.encode()[of_line.start : of_line.end].decode().endswith("wrong")


def test_nothing_of_the_prefix_has_a_place() -> None:
    text = "   ```python\n   x = 1\n   ```\n"
    program = find_program(problem(program_prefix="import math\n"), text)
    assert program is not None
    assert Places(text, program).line_span(1, -1.0) is None
    assert Places(text, program).span(0, len("import math\n"), -1.0) is None
