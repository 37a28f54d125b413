import math

import pytest
from hypothesis import strategies as st
from support.completions import PASSED, batch, reward_of
from support.few_examples import given

from lit_rl.data.numerical.build_judge import text_bleu
from lit_rl.execution.checks import AssertTests
from lit_rl.rewards import BleuReward
from lit_rl.rollout import find_program
from lit_rl.types import Judgement, Problem

REFERENCE = "int x = 1 ;\nint y = x + 2 ;"


def value(text: str, reference: str = REFERENCE) -> float:
    return reward_of(BleuReward(), text, reference=reference).rewards.item()


def test_the_value_follows_the_formula() -> None:
    assert value(REFERENCE) == value(f"```cpp\n{REFERENCE}\n```") == 1.0
    assert value("") == 0.0
    # All n-grams of "a b c d e" occur in the reference of 6 words: precision 1, brevity exp(1 - 6 / 5).
    assert value("a b c d e", "a b c d e f") == pytest.approx(math.exp(1 - 6 / 5))
    # "a b c d x": precisions 4/5, 3/4, 2/3, 1/2; same length.
    expected = (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4)
    assert value("a b c d x", "a b c d e") == pytest.approx(expected)
    # Likeness has no place.
    output = reward_of(BleuReward(), "a\nb", reference="a\nb")
    assert output.credit[0].tolist() == pytest.approx([1 / 3] * 3 + [0.0])


IMPORTS = "import math\n\n\n"
HEAD = 'def area(r):\n    """The area of a circle of this radius, as a float."""\n'
BODY = "    return math.pi * r * r\n"
# Prompt, what was given of the program, answer, and its value.
GIVEN = [
    (IMPORTS + HEAD, IMPORTS + HEAD, BODY, 1.0),
    (IMPORTS + HEAD, IMPORTS + HEAD, "    pass\n", pytest.approx(0.0, abs=0.02)),
    ("Finish it.", IMPORTS, f"```python\n{IMPORTS}{HEAD}{BODY}```", 1.0),
    ("Finish it.", IMPORTS, f"```python\n{HEAD}{BODY}```", 1.0),
]


@pytest.mark.parametrize(("prompt", "prefix", "text", "value"), GIVEN)
def test_what_was_given_does_not_count_and_may_be_repeated(prompt: str, prefix: str, text: str, value: float) -> None:
    check, reference = AssertTests("area(1)", "area"), IMPORTS + HEAD + BODY
    task = Problem("t", prompt, check, program_prefix=prefix, reference=reference)
    (score,) = BleuReward().score(batch([text]), [Judgement(task, find_program(task, text), PASSED)])
    assert score.value == value


TEXTS = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=14).map(" ".join)


@given(TEXTS, TEXTS)
def test_it_is_sacrebleus_sentence_bleu(text, reference):
    sacrebleu = pytest.importorskip("sacrebleu")
    expected = sacrebleu.sentence_bleu(text, [reference], tokenize="none").score / 100
    assert text_bleu(text, reference) == pytest.approx(expected, abs=1e-9)
