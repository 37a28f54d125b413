import keyword
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.completions import batch, judged, reward_of, with_stop_reasons

import lit_rl
from lit_rl.rewards import Composite, SyntaxReward
from lit_rl.rewards.python_prefix import _is_viable_prefix, find_rejected_token, split_lexemes
from lit_rl.types import StopReason

FACE = "\N{GRINNING FACE}"

# Twenty completions and the Qwen2.5 tokens that overlap the first lexical token the grammar rejects.
CASES = [
    ("```python\ndef f(x:\n    return x\n```", [" return"]),  # a parameter's annotation misses, at `return`
    ("día = 'é\nx = 1\n", [" '", "é"]),
    ("def f():\r\n\tx = 1\r\n\t\ty = 2\r\n", ["\t", "\ty"]),  # the indentation
    ("```python\nfor i in range(3)\n    print(i)\n```\n", [")\n"]),  # the line end
    ("x = [1, 2\ny = '文'\n", ["y"]),
    (f'print "{FACE}"\n', [' "', FACE, '"\n']),
    ("x = (1 +\n", [" +\n"]),  # ends too early: its last token
    ("match x:\n    case 1 | 2:\n        pass\nmatch y z:\n", [" z"]),
    ("Sure! I write x = (.\n```python\ndef f(x: int) -> str:\n    return f'{x!r} día'\n```", []),
]


@pytest.mark.parametrize(("text", "tokens"), CASES)
def test_tokens_of_the_first_rejected_lexical_token_are_flagged(
    flagged: Callable[..., list[str]], text: str, tokens: list[str]
) -> None:
    assert flagged(SyntaxReward(), text) == tokens


@pytest.mark.parametrize("text", ["", "```\n```", "# nothing\n\n"])
def test_saying_nothing_is_no_way_around_the_grammar(text: str) -> None:
    assert reward_of(SyntaxReward(), text).rewards.tolist() == [-1.0]


def truncated_reward(text: str) -> float:
    completions = with_stop_reasons(batch([text]), StopReason.LENGTH)
    return Composite([SyntaxReward()])(completions, [judged(text)]).rewards.item()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x = (1 +", 0.0),
        ("x = 'open", 0.0),
        ("x = 1 i", 0.0),  # may become `if`
        ("x = ''", 0.0),
        ("x = 1 )", -1.0),  # nothing makes another token of a bracket
        ("x = y z = 1", -1.0),
        ("```python\nx = (1 +", 0.0),
        ("```python\nx = (1 +\n```\nand then I", -1.0),  # the program ended, the talk did not
        ("# only a comment so far", 0.0),
    ],
)
def test_what_the_token_limit_cut_is_judged_as_a_prefix(text: str, value: float) -> None:
    assert truncated_reward(text) == value


def test_offsets_count_from_the_end_of_the_prefix(flagged: Callable[..., list[str]]) -> None:
    prefix = "def día():\n"
    assert flagged(SyntaxReward(), "    return x y\n", program_prefix=prefix) == [" y"]


SOURCES = sorted(Path(lit_rl.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize(("text", "viable"), [("f[..", True), ("x = .", True), ("f[...)..", False), ("f(]..", False)])
def test_an_ellipsis_may_be_cut_in_the_middle(text: str, viable: bool) -> None:
    assert (find_rejected_token(text, prefix=True) is None) == viable


@settings(max_examples=60, deadline=None)
@given(path=st.sampled_from(SOURCES), cut=st.floats(0, 1))
def test_every_prefix_of_a_right_program_is_viable(path: Path, cut: float) -> None:
    source = path.read_text()
    assert find_rejected_token(source[: int(cut * len(source))], prefix=True) is None


@settings(max_examples=60, deadline=None)
@given(
    words=st.lists(
        st.sampled_from([*keyword.kwlist, "x", "1", "'s'", "(", ")", "[", "]", ":", "=", ",", "*", "\n", "\n  "]),
        max_size=12,
    )
)
def test_bisection_finds_what_a_scan_finds(words: list[str]) -> None:
    source = " ".join(words)
    found = split_lexemes(source)
    scanned = next((lexeme for lexeme in found if not _is_viable_prefix(source, lexeme)), None)
    place = find_rejected_token(source)
    if scanned is not None:
        assert place is not None
        assert place[1] in (scanned.start, scanned.end)  # its end, or that of the indentation before it
    elif place is not None:
        assert place[1] == found[-1].end


def test_deep_nesting_is_answered() -> None:
    for opening in ("(", "[", "{", "{1:", "f(", "-", "not ", "lambda:", "lambda x=(", "1 if 1 else "):
        assert find_rejected_token(opening * 3000 + " 1 2") is not None, opening
