import pytest

from lit_rl.rewards import Span, TermScore
from lit_rl.rewards.attribution import TokenPlaces
from lit_rl.types import Program

# Four tokens of two bytes, then EOS, then padding.
TOKENS = ((0, 2), (2, 4), (4, 6), (6, 8), (8, 8))
MASK = (True, True, True, True, True, False)


def credit(of: TokenPlaces, scores: list[tuple[float, TermScore]]) -> list[float]:
    return of.spread(of.parts(scores))


def places(start: int | None = None, end: int = 0) -> TokenPlaces:
    return TokenPlaces(TOKENS, MASK, None if start is None else Program("", start, end))


def test_a_token_that_overlaps_by_one_byte_is_flagged() -> None:
    assert places().flagged(3, 5) == [1, 2]
    assert places().flagged(2, 4) == [1]


def test_an_empty_place_means_the_token_that_has_its_byte() -> None:
    assert places().flagged(2, 2) == [1]
    assert places().flagged(3, 3) == [1]
    assert places().flagged(8, 8) == []


def test_tokens_outside_the_mask_are_never_flagged() -> None:
    assert TokenPlaces(TOKENS, (True, False, True, True, True), None).flagged(0, 8) == [0, 2, 3]


def test_tokens_that_share_a_broken_character_are_flagged_together() -> None:
    shared = TokenPlaces(((0, 1), (1, 4), (1, 4), (4, 5)), (True,) * 4, None)
    assert shared.flagged(2, 3) == [1, 2]


def test_a_special_token_inside_a_broken_character_changes_nothing() -> None:
    shared = TokenPlaces(((0, 3), (3, 3), (0, 3), (3, 4)), (True,) * 4, None)
    assert shared.flagged(0, 1) == [0, 2]


def test_spans_of_padding_are_left_out() -> None:
    assert TokenPlaces((*TOKENS, (8, 8), (8, 8)), MASK[:4], None).flagged(0, 9) == [0, 1, 2, 3]


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
    last = TokenPlaces(TOKENS, mask, Program("", 2, 8), start=3)
    assert last.flagged(3, 5) == [4, 5]
    parts = last.parts([(1.0, TermScore(-1.0, (Span(0, 2, -0.4),)))])
    assert last.spread(parts) == pytest.approx([0, 0, 0, -0.4, -0.2, -0.2, -0.2, 0, 0])
    assert parts.decided == pytest.approx([0, 0, 0, 0, -0.4, 0, 0, 0, 0])
    without = TokenPlaces(TOKENS, mask, None, start=3)
    assert credit(without, [(1.0, TermScore(1.0))]) == pytest.approx([0, 0, 0, *[0.2] * 5, 0])
