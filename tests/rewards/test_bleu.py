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


PROMPT = 'import math\n\n\ndef area(r):\n    """The area of a circle of this radius, as a float."""\n'
BODY = "    return math.pi * r * r\n"


@pytest.mark.parametrize(("body", "expected"), [(BODY, 1.0), ("    pass\n", 0.0)])
def test_the_beginning_that_was_given_does_not_count(body: str, expected: float) -> None:
    task = Problem("t", PROMPT, AssertTests("area(1)", "area"), program_prefix=PROMPT, reference=PROMPT + BODY)
    judgement = Judgement(task, find_program(task, body), PASSED)
    (score,) = BleuReward().score(batch([body]), [judgement])
    assert score.value == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("answer", [PROMPT + BODY, PROMPT.removeprefix("import math\n\n\n") + BODY])
def test_an_answer_may_repeat_the_imports_or_not(answer: str) -> None:
    check = AssertTests("area(1)", "area")
    task = Problem("t", "Finish it.", check, program_prefix="import math\n\n\n", reference=PROMPT + BODY)
    text = f"```python\n{answer}```"
    (score,) = BleuReward().score(batch([text]), [Judgement(task, find_program(task, text), PASSED)])
    assert score.value == 1.0


TEXTS = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=14).map(" ".join)


@given(TEXTS, TEXTS)
def test_it_is_sacrebleus_sentence_bleu(text, reference):
    sacrebleu = pytest.importorskip("sacrebleu")
    expected = sacrebleu.sentence_bleu(text, [reference], tokenize="none").score / 100
    assert text_bleu(text, reference) == pytest.approx(expected, abs=1e-9)
