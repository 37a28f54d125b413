import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.completions import batch, judged, reward_of

from lit_rl.rewards import Composite, LintReward

# Twenty completions and the Qwen2.5 tokens that overlap ruff's findings under the default rules.
CASES = [
    ("import os\nx = 1\n", [" os"]),  # F401
    ("```python\nimport os, sys\n```\nI used os.", ["import", " os", ",", " sys"]),  # E401 over the statement
    ("try:\n    x = 1\nexcept:\n    pass\n", ["except", ":\n", "   ", " pass"]),  # E722, S110 over both lines
    ("import os  # noqa: F401\nx = y  # noqa\n", [" os", " y"]),  # silence is ignored
    (
        "Text only.\n```\nx = '文%s' % (1, 2)\n```",
        [" '", "文", "%s", "'", " %", " (", "1", ",", " ", "2", ")\n"],
    ),  # F507
    ("def f(x):\n    return (x\n", ["x"]),  # ends too early: its last token
    ("def f(x:\n    return x\n", [" return"]),  # a syntax error, alone
]


@pytest.mark.parametrize(("text", "tokens"), CASES)
def test_tokens_of_findings_are_flagged(flagged: Callable[..., list[str]], text: str, tokens: list[str]) -> None:
    assert flagged(LintReward(), text) == tokens


def value(term: LintReward, text: str, **task: Any) -> float:
    return reward_of(term, text, **task).rewards.item()


def test_severities_add_up_by_the_longest_prefix() -> None:
    text = "import os\nx = y\n"  # F401 and F821
    assert value(LintReward(), text) == pytest.approx(-0.4)
    assert value(LintReward(severities={"F8": 0.5}), text) == pytest.approx(-0.7)
    assert value(LintReward(severities={"F401": 0.0}), text) == pytest.approx(-0.2)


def test_more_than_one_is_scaled_down_in_proportion() -> None:
    text = "a\nb\nc"  # three names that are not defined
    term = LintReward(select=["F821"], severities={"F": 0.5})
    output = reward_of(term, text)
    third = pytest.approx(-1 / 3)
    assert output.credit[0].tolist() == [third, 0.0, third, 0.0, third, 0.0]


@pytest.mark.parametrize("text", ["", "# nothing", "```python\n```", "x = (", "import os\nx = )\ny = )\n"])
def test_no_program_and_a_broken_one_cost_one(text: str) -> None:
    assert value(LintReward(), text) == -1.0


def test_findings_in_the_given_prefix_are_not_the_policys() -> None:
    prefix = "import os\n\ndef f(x):\n"
    assert value(LintReward(), "    return x\n", program_prefix=prefix) == 0.0
    assert value(LintReward(), "    return y\n", program_prefix=prefix) == pytest.approx(-0.2)


def test_a_batch_starts_ruff_once(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    real = subprocess.Popen.__init__

    def counting(self: Any, command: Any, *args: Any, **more: Any) -> None:
        started.append(command)
        real(self, command, *args, **more)

    monkeypatch.setattr(subprocess.Popen, "__init__", counting)
    texts = [f"import os\nx = {n % 7}\n" for n in range(40)] + [""]
    output = Composite([LintReward()])(batch(texts), [judged(text) for text in texts])
    assert len(started) == 1
    assert output.rewards.tolist() == pytest.approx([-0.2] * 40 + [-1.0])


def test_ruff_failing_is_ours_not_the_programs() -> None:
    term = LintReward(timeout_seconds=1e-9)
    output = reward_of(term, "x = 1")
    assert output.valid.tolist() == [False]
    assert output.reasons[0].startswith("lint: ruff failed: ")


def test_a_program_that_ruff_falls_over_takes_only_its_own_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer for a folder with one bad file is made up: ruff ends badly wherever that file is."""
    real = LintReward._run_ruff

    def falls_over(self: LintReward, folder: str) -> subprocess.CompletedProcess[str]:
        if any("crash" in file.read_text() for file in Path(folder).iterdir()):
            return subprocess.CompletedProcess([], 2, "", "thread 'main' panicked")
        return real(self, folder)

    monkeypatch.setattr(LintReward, "_run_ruff", falls_over)
    texts = ["import os\n", "x = 1\n", "crash = 1\n", "y = undefined\n", "z = 1\n"]
    output = Composite([LintReward()])(batch(texts), [judged(text) for text in texts])
    assert output.valid.tolist() == [True, True, False, True, True]
    assert output.rewards.tolist() == pytest.approx([-0.2, 0.0, 0.0, -0.2, 0.0])
    assert output.reasons == {2: "lint: ruff failed: thread 'main' panicked"}
