"""What crosses the layers: small facts about problems."""

from __future__ import annotations

import pytest

from lit_rl.execution import AssertTests
from lit_rl.types import Problem

CHAT = [{"role": "system", "content": "Write Python."}, {"role": "user", "content": "Add two numbers."}]


@pytest.mark.parametrize(("prompt", "text"), [("def f():", "def f():"), (CHAT, "Write Python.\n\nAdd two numbers.")])
def test_a_prompt_reads_as_text_whether_or_not_it_is_a_chat(prompt: str | list[dict[str, str]], text: str) -> None:
    assert Problem(task_id="a", prompt=prompt, check=AssertTests("assert f()")).prompt_text == text
