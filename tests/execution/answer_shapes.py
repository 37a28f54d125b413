"""Shapes of answers as models write them: name, completion, the program that is meant, what the problem asks for.

``ANSWER`` is the program that is meant wherever nothing else is said; its entry point is ``add``.
"""

from dataclasses import dataclass, field
from textwrap import indent

from lit_rl.execution.program import WantedProgram

ANSWER = "def add(a, b):\n    return a + b\n"
OLD = "def add(a, b):\n    return a - b\n"
UNDER_IF = "if True:\n" + indent(ANSWER, "    ")
SHOW = "def show(x):\n    print(x)\n"
SESSION = ">>> add(1, 2)\n3\n"
USAGE = "print(add(1, 2))\n"
DOCUMENTED = '''def add(a, b):
    """Add.

    ```python
    add(1, 2)
    ```
    """
    return a + b
'''
BARE_IN_DOCSTRING = 'def add(a, b):\n    """\n```\nadd(1, 2)\n```\n    """\n    return a + b\n'
C_ANSWER = '#include <stdio.h>\nint main(void) {\n    printf("3");\n    return 0;\n}\n'
CLASS = "class Solution:\n    def add(self, a, b):\n        return a + b\n"
THINKS = 'def add(a, b):\n    """\n    </think>\n    """\n    return a + b\n'
PROMPT = 'def add(a, b):\n    """Add."""\n'
BODY = "    return a + b\n"


@dataclass(frozen=True)
class Shape:
    name: str
    text: str
    expected: str | None = ANSWER
    wanted: WantedProgram = field(default=WantedProgram(entry_point="add"))


def py(source: str, tag: str = "python", mark: str = "```") -> str:
    """A fenced block of this source, which gets a line end where it has none."""
    source += "" if source.endswith("\n") else "\n"
    return f"{mark}{tag}\n{source}{mark}\n"


COMPLETION = WantedProgram(entry_point="add", prefix=PROMPT)
PROGRAM = WantedProgram()
C = WantedProgram("c", "main")

SHAPES = (
    # Where the answer stands among other blocks.
    Shape("one block", f"Here is the function:\n\n{py(ANSWER)}\nIt adds."),
    Shape("usage follows", f"{py(ANSWER)}\nYou can use it like this:\n\n{py(USAGE)}"),
    Shape("shell follows", f"{py(ANSWER)}\nRun it:\n{py('python add.py', 'bash')}"),
    Shape("output follows", f"{py(ANSWER)}\nOutput:\n{py('3', '')}"),
    Shape("a better answer follows", f"{py(OLD)}\nWait, that subtracts.\n\n{py(ANSWER)}"),
    Shape("a walk through the lines comes first", f"First the head:\n{py('def add(a, b):')}\nAll of it:\n{py(ANSWER)}"),
    Shape("a session follows", f"{py(ANSWER)}\n{py(SESSION, '')}"),
    Shape("a helper follows in its own block", f"{py(ANSWER)}\n{py(SHOW)}"),
    Shape("the input comes first, without a tag", f"Input:\n{py('1 2', '')}\nProgram:\n{py(ANSWER, '')}"),
    Shape("all without tags", f"{py(ANSWER, '')}\nFor example\n{py(USAGE, '')}\nprints\n{py('3', '')}"),
    Shape(
        "no block defines it: the last of the language", f"{py('x = 1')}\n{py('y = 2')}\n{py('ls', 'sh')}", "y = 2\n"
    ),
    Shape("only a block of another tag", f"{py(ANSWER, 'text')}"),
    Shape(
        "only broken blocks: the one that seems to define it", f"{py('def add(a, b:')}\n{py(USAGE)}", "def add(a, b:\n"
    ),
    Shape("a lambda", f"{py('add = lambda a, b: a + b')}\n{py(USAGE)}", "add = lambda a, b: a + b\n"),
    Shape("defined under if", f"{py(UNDER_IF)}\n{py(USAGE)}", UNDER_IF),
    Shape(
        "a class", f"{py(CLASS)}\n{py('print(Solution().add(1, 2))')}", CLASS, WantedProgram(entry_point="Solution.add")
    ),
    Shape(
        "a whole program: the last of the language",
        f"{py('print(1)')}\n{py('print(2)')}\n{py('2', '')}",
        "print(2)\n",
        PROGRAM,
    ),
    # Fences that are left over, missing or odd.
    Shape("a fence left over at the end", f"{py(ANSWER)}```\n"),
    Shape("a fence left over, then usage", f"{py(ANSWER)}```\nUsage:\n{py(USAGE)}"),
    Shape("the prompt opened the block", f"{ANSWER}```\nThis adds."),
    Shape("the prompt opened the block, usage follows", f"{ANSWER}```\nUsage:\n{py(USAGE)}"),
    Shape("never closed", f"```python\n{ANSWER}"),
    Shape("cut off inside a second version", f"{py(ANSWER)}\nOr:\n```python\ndef add(a, b):\n    return sum([a,"),
    Shape("not closed before the next opens", f"```python\n{ANSWER}```python\n{USAGE}```\n"),
    Shape("closed behind the code", "```python\ndef add(a, b):\n    return a + b```\nDone.", ANSWER.rstrip("\n")),
    Shape("tildes around backticks", f"~~~python\n{ANSWER}~~~\n{py(USAGE)}"),
    Shape("a longer mark", py(ANSWER, mark="````")),
    Shape("markdown around it", f"````markdown\n# Solution\n{py(ANSWER)}````\n"),
    Shape("fences in a docstring", py(DOCUMENTED), DOCUMENTED),
    Shape("bare fences in a docstring", py(BARE_IN_DOCSTRING), BARE_IN_DOCSTRING),
    Shape("fences in a docstring, usage follows", f"{py(DOCUMENTED)}\n{py(USAGE)}", DOCUMENTED),
    # Tags.
    Shape("tag python3", f"{py(ANSWER, 'python3')}\n{py('3', '')}"),
    Shape("tag in braces", f"{py(ANSWER, '{.python .numberLines}')}\n{py(USAGE, '{.python}')}"),
    Shape("tag with a title", py(ANSWER, 'python title="add.py"')),
    Shape("a file's name as tag", f"{py(ANSWER, 'add.py')}\n{py('python add.py', 'console')}"),
    # Lists and indentation.
    Shape(
        "in a list item", f"1. The function:\n\n{indent(py(ANSWER), '   ')}\n2. Usage:\n\n{indent(py(USAGE), '   ')}"
    ),
    Shape("on the bullet's line", f"- ```python\n{indent(ANSWER, '  ')}  ```\n"),
    Shape("indented inside the fence only", py(indent(ANSWER, "    "))),
    Shape(
        "in a list, with text at column 0",
        '1. So:\n   ```python\n   def add(a, b):\n       """\nAdd.\n       """\n       return a + b\n   ```\n',
        'def add(a, b):\n    """\nAdd.\n    """\n    return a + b\n',
    ),
    # Line ends, marks, thoughts.
    Shape("CRLF", f"{py(ANSWER)}\n{py(USAGE)}".replace("\n", "\r\n"), ANSWER.replace("\n", "\r\n")),
    Shape("a byte order mark before all", f"\ufeff{py(ANSWER)}"),
    Shape("a thought with a draft", f"<think>\nMaybe\n{py(OLD)}</think>\n\n{py(ANSWER)}"),
    Shape("a thought with an open block", f"<think>\n```python\n{OLD}</think>\n\n{py(ANSWER)}"),
    Shape("a thought that the template opened", f"Maybe\n{py(OLD)}\n</think>\n\n{py(ANSWER)}"),
    Shape("a thought after the answer", f"{py(ANSWER)}\n<think>\nor\n{py(OLD)}</think>\nYes."),
    Shape("a thought that never ends", f"<think>\n{py(ANSWER)}", None),
    Shape("the end of a thought in a docstring", f"So:\n{py(THINKS)}", THINKS),
    Shape("the end of a thought in a docstring, a block that the prompt opened", f"{THINKS}```\nSo.\n", THINKS),
    Shape("the end of a thought in an open draft", f"```python\n{OLD}</think>\n\n{py(ANSWER)}"),
    # The prompt opened the block with a bare fence.
    Shape("the tag of the block that the prompt opened", f"python\n{ANSWER}```\nIt adds.\n"),
    Shape("the tag of the block that the prompt opened, cut off at its fence", f"Python3 \r\n{ANSWER}"),
    Shape("the tag of another language", f"cpp\n{C_ANSWER}```\n", C_ANSWER, C),
    # Completion form: the prompt is the beginning of the program.
    Shape("body", BODY, BODY, COMPLETION),
    Shape("body, a fence left over, usage", f"{BODY}```\n\nUsage:\n{py(USAGE)}", BODY, COMPLETION),
    Shape("body in a block", py(BODY), BODY, COMPLETION),
    Shape("whole function in a block", f"\n{py(ANSWER)}\n{py(USAGE)}", ANSWER, COMPLETION),
    # C and C++.
    Shape("C without tags", f"{py('3', '')}\n{py(C_ANSWER, '')}\n{py('gcc a.c', 'bash')}", C_ANSWER, C),
    Shape("C, a part follows", f"{py(C_ANSWER, 'cpp')}\n{py('return 0;', 'cpp')}", C_ANSWER, C),
    # No program, no fence, and places in bytes.
    *(Shape(f"nothing but blanks {i}", text, None) for i, text in enumerate(("", "  \n", "```python\n```"))),
    Shape("a blank block before words", "```\n\n```\nonly words", None),
    Shape("backticks within a line", "add = 1  # see ```this``` here\n", "add = 1  # see ```this``` here\n"),
    Shape("letters of several bytes before it", f"é中\n{py(ANSWER)}"),
    Shape("a longer fence around a shorter one", '````\nadd = """\n```\n"""\n````\n', 'add = """\n```\n"""\n'),
    Shape("C and Python", f"{py(C_ANSWER, 'c')}\n{py(ANSWER)}", C_ANSWER, C),
)
