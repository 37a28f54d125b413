from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lit_rl.data.numerical.build_judge import text_bleu

TEXTS = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=14).map(" ".join)


@given(TEXTS, TEXTS)
def test_it_is_sacrebleus_sentence_bleu(text, reference):
    sacrebleu = pytest.importorskip("sacrebleu")
    expected = sacrebleu.sentence_bleu(text, [reference], tokenize="none").score / 100
    assert text_bleu(text, reference) == pytest.approx(expected, abs=1e-9)


def test_equal_texts_score_one_and_texts_without_a_common_word_nothing():
    assert text_bleu("plt 1 2\n3", "plt 1 2 3") == pytest.approx(1.0)
    assert text_bleu("", "") == 1.0
    assert text_bleu("a b", "c d") == 0.0
    assert text_bleu("", "a") == text_bleu("a", "") == 0.0
