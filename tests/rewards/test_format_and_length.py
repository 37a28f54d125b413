import pytest
from support.completions import batch, judged, reward_of
from support.two_turns import rows_of

from lit_rl.execution import AssertTests
from lit_rl.rewards import Composite, FormatReward, LengthPenalty, OverlongPenalty, RewardTerm
from lit_rl.types import Problem


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("```python\nx = 1\n```", 0.0),
        ("Here:\r\n```\r\nx = 1\r\n```", 0.0),
        ("x = 1", -0.1),
        ("día", -0.1),
        ("", -0.1),
    ],
)
def test_format_costs_a_tenth_without_a_fenced_program(text: str, value: float) -> None:
    assert reward_of(FormatReward(), text).rewards.item() == pytest.approx(value)
    any_program = reward_of(FormatReward(fence=False), text).rewards.item()
    assert any_program == pytest.approx(0.0 if text else -0.1)


def test_format_refuses_to_want_a_fence_inside_a_program() -> None:
    begun = Problem("t", "Examples.\n\ndef f():\n", AssertTests("assert f()"), program_prefix="def f():\n")
    with pytest.raises(ValueError, match="FormatReward wants a fenced block, but the completion continues"):
        FormatReward().check_problem(begun)
    FormatReward(fence=False).check_problem(begun)
    for prompt in ("Write f.", ({"role": "user", "content": "import math\n"},)):  # a prefix of imports alone
        FormatReward().check_problem(Problem("t", prompt, AssertTests("assert f()"), program_prefix="import math\n"))


@pytest.mark.parametrize("term", [FormatReward(weight=1.0), LengthPenalty(alpha=20.0)])
def test_without_a_program_the_penalty_is_spread_over_all_tokens_and_eos(term: RewardTerm) -> None:
    judgement = judged("hi é")
    none = type(judgement)(judgement.problem, None, judgement.outcome)
    output = Composite([term])(batch(["hi é"]), [none])
    # format: -1 over four letters and EOS; length: 5 tokens cost 20 * 5 / 100 = 1
    assert output.credit[0].tolist() == pytest.approx([-0.2] * 5)


@pytest.mark.parametrize(
    ("letters", "value"),
    # limit 10, buffer 4, EOS is one more token: free up to 6 tokens, then a quarter a token
    [(5, 0.0), (6, -0.25), (8, -0.75), (9, -1.0), (15, -1.0)],
)
def test_overlong_grows_through_the_buffer(letters: int, value: float) -> None:
    assert reward_of(OverlongPenalty(max_tokens=10, buffer_tokens=4), "x" * letters).rewards.item() == value


def test_length_costs_alpha_a_hundred_tokens_and_limits_out_of_range_are_named() -> None:
    # 249 letters and EOS
    assert reward_of(LengthPenalty(alpha=0.03), "x" * 249).rewards.item() == pytest.approx(-0.03 * 2.5)
    with pytest.raises(ValueError, match=r"LengthPenalty\.alpha: expected a number in \[0.0, inf\], got -1"):
        LengthPenalty(alpha=-1)
    with pytest.raises(ValueError, match=r"OverlongPenalty\.buffer_tokens: expected a number in \[1, 10\], got 11"):
        OverlongPenalty(max_tokens=10, buffer_tokens=11)


def test_a_rows_length_is_what_its_policy_wrote_in_all_turns() -> None:
    """Two and three tokens of the policy around a message of ninety."""
    rows = rows_of([[119]], [[[2, 4], [65] * 90, [6, 8, 10]]])
    judgements = [judged("xxx")]
    assert LengthPenalty(alpha=20.0).score(rows, judgements)[0].value == pytest.approx(-1.0)
    assert OverlongPenalty(6, 4).score(rows, judgements)[0].value == pytest.approx(-0.75)
