"""What each span of a text earns, counted by eye; in bulk against loops in test_credit_in_bulk.py."""

import pytest
import torch

from lit_rl.rewards import Span, TermScore
from lit_rl.rewards.attribution import TokenPlaces
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


def test_a_token_that_overlaps_by_one_byte_is_flagged() -> None:
    assert flagged(places(), 3, 5) == [1, 2]
    assert flagged(places(), 2, 4) == [1]


def test_an_empty_place_means_the_token_that_has_its_byte() -> None:
    assert flagged(places(), 2, 2) == [1]
    assert flagged(places(), 3, 3) == [1]
    assert flagged(places(), 8, 8) == []


def test_tokens_outside_the_mask_are_never_flagged() -> None:
    assert flagged(of(TOKENS, (True, False, True, True, True)), 0, 8) == [0, 2, 3]


def test_tokens_that_share_a_broken_character_are_flagged_together() -> None:
    assert flagged(of(((0, 1), (1, 4), (1, 4), (4, 5)), (True,) * 4), 2, 3) == [1, 2]


def test_a_special_token_inside_a_broken_character_changes_nothing() -> None:
    assert flagged(of(((0, 3), (3, 3), (0, 3), (3, 4)), (True,) * 4), 0, 1) == [0, 2]


def test_spans_of_padding_are_left_out() -> None:
    assert flagged(of((*TOKENS, (8, 8), (8, 8)), MASK[:4]), 0, 9) == [0, 1, 2, 3]


def test_a_span_is_split_evenly_and_the_rest_spread_over_the_program() -> None:
    # value -1: 0.6 of it on tokens 1 and 2, the remaining 0.4 over the program's tokens 1, 2, 3
    score = TermScore(-1.0, (Span(3, 5, -0.6),))
    assert credit(places(3, 8), [(1.0, score)]) == pytest.approx([0, -0.3 - 0.4 / 3, -0.3 - 0.4 / 3, -0.4 / 3, 0, 0])


def test_spans_that_find_no_token_are_spread() -> None:
    score = TermScore(1.0, (Span(40, 41, 1.0),))
    assert credit(places(0, 4), [(1.0, score)]) == pytest.approx([0.5, 0.5, 0, 0, 0, 0])


def test_without_a_program_everything_gets_its_part_even_eos_but_no_padding() -> None:
    assert credit(places(), [(1.0, TermScore(-1.0))]) == pytest.approx([-0.2] * 5 + [0])


def test_an_empty_program_counts_as_none() -> None:
    assert credit(places(4, 4), [(1.0, TermScore(1.0))]) == pytest.approx([0.2] * 5 + [0])


def test_the_weight_scales_all_parts() -> None:
    score = TermScore(-1.0, (Span(0, 1, -0.5),))
    assert credit(places(0, 8), [(2.0, score)]) == pytest.approx([-1.25, -0.25, -0.25, -0.25, 0, 0])


def test_terms_add_up() -> None:
    scores = [(1.0, TermScore(-1.0, (Span(0, 1, -1.0),))), (0.5, TermScore(4.0)), (1.0, TermScore(None))]
    assert credit(places(0, 8), scores) == pytest.approx([-0.5, 0.5, 0.5, 0.5, 0, 0])


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
