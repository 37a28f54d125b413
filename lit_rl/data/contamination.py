"""Finding problems of the evaluation in the training data, by the word n-grams that they share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lit_rl.signature_check import PositiveInt, PositiveShare, check_call_arguments
from lit_rl.types import Problem


@dataclass(frozen=True)
class ProblemOverlap:
    """A training problem that shares text with a held-out problem.

    Args:
        train_id: task id of the training problem.
        held_out_id: task id of the held-out problem.
        share: share of the held-out statement's n-grams that the training statement has too, in (0, 1].
    """

    train_id: str
    held_out_id: str
    share: float


def word_ngrams(text: str, size: int) -> frozenset[tuple[str, ...]]:
    """Return all runs of ``size`` words in lower case, without punctuation; a shorter text is one run of its own.

    Example:
        >>> sorted(word_ngrams("Add two numbers!", 2))
        [('add', 'two'), ('two', 'numbers')]
    """
    words = re.findall(r"\w+", text.lower())
    if not words:
        return frozenset()
    return frozenset(tuple(words[i : i + size]) for i in range(max(1, len(words) - size + 1)))


def statement_text(problem: Problem) -> str:
    """Return the problem's own text: ``fields["statement"]`` if there is one, otherwise the prompt.

    Wording that all prompts of a task share would count as overlap, so DataModules store the statement separately.
    """
    own = problem.fields.get("statement")
    if own is not None:
        return str(own)
    if isinstance(problem.prompt, str):
        return problem.prompt
    return "\n".join(message["content"] for message in problem.prompt)


@check_call_arguments
def find_overlaps(
    train: Iterable[Problem],
    held_out: Sequence[Problem],
    *,
    ngram_words: PositiveInt = 10,
    min_share: PositiveShare = 0.5,
) -> list[ProblemOverlap]:
    """Return pairs of a training problem and a held-out problem whose statements have n-grams in common.

    A held-out statement shorter than an n-gram counts only if a training statement has exactly the same words.

    Args:
        train: the training problems, read once, one by one.
        held_out: the problems measured on, such as HumanEval or the test part of MBPP.
        ngram_words: words in a run. GPT-3 used 13 on long documents; statements are short.
        min_share: pairs below this share are ignored. One common n-gram may be a turn of phrase.

    Returns:
        The overlaps, the largest share first.

    Source:
        Brown et al. 2020, appendix C, https://arxiv.org/abs/2005.14165
    """
    grams = [word_ngrams(statement_text(problem), ngram_words) for problem in held_out]
    holders: dict[tuple[str, ...], list[int]] = {}
    for index, of_one in enumerate(grams):
        for gram in of_one:
            holders.setdefault(gram, []).append(index)
    overlaps = []
    for problem in train:
        own = word_ngrams(statement_text(problem), ngram_words)
        common = Counter(index for gram in own for index in holders.get(gram, ()))
        for index, count in common.items():
            if (share := count / len(grams[index])) >= min_share:
                overlaps.append(ProblemOverlap(problem.task_id, held_out[index].task_id, share))
    return sorted(overlaps, key=lambda overlap: (-overlap.share, overlap.train_id, overlap.held_out_id))
