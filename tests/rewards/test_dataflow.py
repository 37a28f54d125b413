"""Edges are counted by hand: (kind, target, source), variables numbered by first appearance."""

from collections import Counter

import pytest
from support.completions import reward_of

from lit_rl.rewards import DataflowReward
from lit_rl.rewards.flow_graph import count_dataflow_edges


def comes(variable: int, times: int = 1) -> Counter[tuple[str, int, int]]:
    return Counter({("comes", variable, variable): times})


def computed(target: int, *sources: int) -> Counter[tuple[str, int, int]]:
    return Counter(("computed", target, source) for source in sources)


SUM = comes(0) + comes(1) + computed(2, 0, 1) + comes(2)

PYTHON = [
    ("def f(a, b):\n    c = a + b\n    return c\n", SUM),
    ("def día(é, b):\r\n    c = é + b  # 文\r\n    return c\r\n", SUM),
    # y has one definition a branch, both reach the print; x is read twice
    (
        "x = 1\nif x:\n    y = x\nelse:\n    y = 2\nprint(y)\n",
        comes(0, 2) + computed(1, 0) + comes(1, 2),
    ),
    # without else, the first y reaches the print too
    ("x = 1\ny = 2\nif x:\n    y = x\nprint(y)\n", comes(0, 2) + computed(1, 0) + comes(1, 2)),
    # an elif is one more way
    ("x = 1\nif x:\n    y = 1\nelif x:\n    y = 2\nprint(y)\n", comes(0, 2) + comes(1, 2)),
    # swap: each from the other, part by part
    ("a, b = 1, 2\na, b = b, a\n", comes(0) + comes(1) + computed(0, 1) + computed(1, 0)),
    # s is read in the loop and behind it, each from before the loop and from the loop
    ("s = 0\nfor i in r:\n    s += i\nprint(s)\n", comes(0, 4) + comes(1) + computed(0, 0, 1)),
    # n: read in the test and in the body, each from before and from the body
    ("n = 9\nwhile n > 1:\n    n = n - 1\n", comes(0, 4) + computed(0, 0)),
    # append stores x in out and keeps the empty list: out is read by append and by return, two definitions each
    (
        "def f(xs):\n    out = []\n    for x in xs:\n        out.append(x * 2)\n    return out\n",
        comes(0) + computed(2, 0) + comes(2) + computed(1, 2) + comes(1, 4),
    ),
    # an element: its index goes in as well; d is read by the store and by the print, then from both
    ("d = {}\nk = 1\nd[k] = 2\nprint(d)\n", comes(0) + comes(1) + computed(0, 1) + comes(0, 2)),
    # an attribute's or argument's name is no variable
    ("x = 1\nf(x=x).x\n", comes(0)),
    # a comprehension's variable lives inside; ys is first, then y
    ("z = 1\nys = [y for y in z if y]\n", comes(0) + computed(2, 0) + comes(2, 2) + computed(1, 0, 2)),
    ("with open('f') as f, f as g:\n    g\n", comes(0) + computed(1, 0) + comes(1)),
    # the handler sees x from before and from inside; what follows sees both, and the handler's
    ("x = 1\ntry:\n    x = 2\nexcept E as e:\n    x = x + 1\nx\n", comes(0, 2) + computed(0, 0) + comes(0, 2)),
    ("if (n := 3) > 2:\n    n\n", comes(0)),
    # a is captured twice and read in each case; b is captured
    (
        "x = 1\nmatch x:\n    case [a, *b]:\n        a\n    case P({'k': a}):\n        a\n",
        comes(0) + computed(1, 0, 0) + comes(1, 2) + computed(2, 0),
    ),
    # a function keeps its own definitions and sees earlier ones
    ("a = 1\ndef f():\n    b = a\n    return b\na = 2\nb\n", comes(0) + computed(1, 0) + comes(1)),
    ("f = lambda x: x\n", comes(1) + computed(0, 1)),
    ("import a\nprint(a, b)\n", Counter()),
    ("", Counter()),
]


@pytest.mark.parametrize(("source", "edges"), PYTHON)
def test_python_edges(source: str, edges: Counter[tuple[str, int, int]]) -> None:
    assert count_dataflow_edges(source) == edges


REFERENCE = "def f(a, b):\n    c = a + b\n    return c\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (REFERENCE, 1.0),
        ("```python\ndef g(x, día):\n    s = x + día\n    return s\n```", 1.0),
        ("def f(a, b):\n    return a + b\n", 2 / 5),  # both reads, no c
        ("def f(a, b):\n    c = a + b\n    print(c)\n    return c\n", 1.0),  # more is not charged
        ("def f(a):\n    return a\n", 1 / 5),
        ("I do not know.", 0.0),
        ("", 0.0),
    ],
)
def test_the_value_is_the_share_of_the_references_edges(text: str, value: float) -> None:
    assert reward_of(DataflowReward(), text, reference=REFERENCE).rewards.item() == pytest.approx(value)


def test_of_a_program_that_breaks_off_the_lines_before_are_read() -> None:
    assert (
        count_dataflow_edges("x = 1\ny = x\nprint(y\nz = y")
        == count_dataflow_edges("x = 1\ny = x\n")
        == comes(0) + computed(1, 0)
    )
    assert count_dataflow_edges("if x:\nprint(x)\n") is None and count_dataflow_edges("x = '\ud83d'\n") is None


def test_deep_nesting_has_no_flow_and_many_loops_end() -> None:
    assert not count_dataflow_edges("x = " + "(" * 3000 + "x" + ")" * 3000)
    nest = "".join("    " * depth + f"for i{depth} in range(i):\n" for depth in range(60))
    assert count_dataflow_edges("i = 1\n" + nest + "    " * 60 + "i += 1\n")


def test_a_walk_that_draws_too_many_edges_ends() -> None:
    """Each of 2,000 reads is reached by 2,000 definitions; the value is that of no program."""
    source = "x = 1\n" + "if x:\n    x = 2\n" * 2000
    assert count_dataflow_edges(source) is None
    assert reward_of(DataflowReward(), source, reference=REFERENCE).rewards.item() == 0
