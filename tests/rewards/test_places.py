"""Spans of a program as bytes of the completion, even if indentation was removed on the way."""

import pytest
from support.completions import problem

from lit_rl.rewards.places import Places
from lit_rl.rollout import find_program

TEXTS = {
    "as it is": "Voilà:\n```python\ndef f(x):\n    return '文' + ⟪wrong⟫\n```\n",
    "in a list": "1. Voilà:\n\n   ```python\n   def f(x):\n\n       return '文' + ⟪wrong⟫\n   ```\n",
    "tabs": "\t```python\n\tdef f(x):\n\t\treturn ⟪wrong⟫\n\t```\n",
    "carriage returns": "- ```py\r\n  def f(x):\r\n    return ⟪wrong⟫\r\n  ```\r\n",
    "a last line without end": "   ```python\n   def f(x):\n       return ⟪wrong⟫",
    "another block is behind": "   ```python\n   def f(x):\n       return ⟪wrong⟫\n   ```\n```python\nf(1)\n```\n",
}


@pytest.mark.parametrize("marked", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("prefix", ["", "import math\n# é\n"])
def test_a_place_in_the_program_is_found_in_the_completion(marked: str, prefix: str) -> None:
    text = marked.replace("⟪", "").replace("⟫", "")
    program = find_program(problem(fields={"entry_point": "f"}, program_prefix=prefix), text)
    assert program is not None
    compile(program.source, "<program>", "exec")
    places = Places(text, program)
    assert places.known
    begin = len(program.source.partition("wrong")[0].encode())
    span = places.span(begin, begin + len("wrong"), -1.0)
    assert span is not None
    first = len(marked.partition("⟪")[0].encode())
    assert (span.start, span.end) == (first, first + len("wrong"))
    line = program.source[: program.source.index("wrong")].count("\n") + 1
    of_line = places.line_span(line, -1.0)
    assert of_line is not None
    assert text.encode()[of_line.start : of_line.end].decode().strip().startswith("return")
    assert text.encode()[of_line.start : of_line.end].decode().endswith("wrong")


def test_nothing_of_the_prefix_has_a_place() -> None:
    text = "   ```python\n   x = 1\n   ```\n"
    program = find_program(problem(program_prefix="import math\n"), text)
    assert program is not None
    assert Places(text, program).line_span(1, -1.0) is None
    assert Places(text, program).span(0, len("import math\n"), -1.0) is None
