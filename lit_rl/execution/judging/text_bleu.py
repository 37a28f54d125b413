"""BLEU of one text against one reference, for comparing small output files where no package may be loaded.

Counts n-grams of words between white space, up to four, with the effective order and the exponential smoothing
of sacrebleu's sentence BLEU, so that both give the same number (see the tests). The reward term over
completions uses sacrebleu itself.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

_ORDER = 4


def text_bleu(text: str, reference: str) -> float:
    """Sentence BLEU in [0, 1]; 1 for equal words, also for two empty texts.

    Source:
        Papineni et al. 2002, https://aclanthology.org/P02-1040; smoothing: Chen and Cherry 2014, method 3,
        https://aclanthology.org/W14-3346

    Example:
        >>> text_bleu("a b c d", "a b c d")
        1.0
    """
    words, expected = text.split(), reference.split()
    if not words or not expected:
        return float(words == expected)
    logs, halvings = [], 1.0
    for order in range(1, min(_ORDER, len(words)) + 1):
        total = len(words) - order + 1
        matched = _count_matches(words, expected, order)
        if not matched:
            if order == 1:
                return 0.0
            halvings *= 2
        logs.append(math.log((matched or 1 / halvings) / total))
    brevity = min(0.0, 1 - len(expected) / len(words))
    return math.exp(brevity + sum(logs) / len(logs))


def _count_matches(words: Sequence[str], expected: Sequence[str], order: int) -> int:
    """Count n-grams that both have. Only those of the reference are kept: the text may be long on purpose."""
    left = Counter(zip(*(expected[i:] for i in range(order)), strict=False))
    matched = 0
    for ngram in zip(*(itertools.islice(words, i, None) for i in range(order)), strict=False):
        if left.get(ngram, 0) > 0:
            left[ngram] -= 1
            matched += 1
    return matched
