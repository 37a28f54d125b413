"""Fences of the fenced blocks in a completion, without the fences inside thoughts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from lit_rl.execution.languages import LANGUAGES


def _split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TAGS_OF = {name: _split_words(spec.tags) for name, spec in LANGUAGES.items()}
TAGS_OF["c"] = TAGS_OF["cpp"] = TAGS_OF["c"] | TAGS_OF["cpp"]  # people mark C with C++'s tags and the reverse
PROSE_TAGS = _split_words(
    "text txt plain plaintext output out input stdin stdout console terminal shell sh bash zsh fish cmd bat "
    "powershell ps1 shellsession session pycon traceback error log json yaml yml toml ini csv xml html diff patch "
    "sql math latex tex mermaid dot dockerfile makefile make requirements none"
)
OTHER_TAGS = _split_words(
    "r scala kotlin swift csharp c# cs fortran f77 f90 f95 julia matlab octave haskell hs dart pascal ocaml elixir "
    "erlang clojure lisp scheme typescript ts tsx ruby rb php perl pl lua"
)
CONTAINER_TAGS = _split_words("markdown md mdx rst")
KNOWN_TAGS = PROSE_TAGS.union(OTHER_TAGS, CONTAINER_TAGS, *TAGS_OF.values())

MAX_FENCES = 4096  # in a text with more fences, only the last ones are read
_MAX_QUOTED = 8  # closing tags of thoughts that are tried until one lies outside a program
_BLANK = re.compile("[ \t\r\n\ufeff]*+")
_MARK = re.compile("```|~~~")
_FENCE = re.compile(r"(?P<indent>[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?)(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)\Z")
_TAG = re.compile(r"[\w+#-]+")
_THOUGHT = re.compile(r"<(think|thinking|thought)>", re.IGNORECASE)
_LATER_THOUGHT = re.compile(r"^[ \t]*<(think|thinking|thought)>", re.IGNORECASE | re.MULTILINE)
_THOUGHT_ENDS = re.compile(r"^[ \t]*</(?:think|thinking|thought)>", re.IGNORECASE | re.MULTILINE)
_THOUGHT_CLOSES = re.compile(r"</(?:think|thinking|thought)>", re.IGNORECASE)
ENDS_IN_THOUGHT = re.compile(r"<(?:think|thinking|thought)>\s*\Z", re.IGNORECASE)
"""Pattern for the end of a prompt that opens a thought, so that the completion begins inside the thought."""


@dataclass(frozen=True)
class Fence:
    """A line that opens or closes a block: its backticks or tildes, and the first word after them in lower case.

    A block that the fence closes ends at ``start``; a block that it opens begins at ``end``. ``indent`` includes the
    bullet of a list. A mark at the end of a line of code only closes a block.
    """

    mark: str
    indent: int
    tag: str
    start: int
    end: int
    opens: bool = True
    closes: bool = False

    def can_be_ended_by(self, other: Fence) -> bool:
        """Return whether another fence can be the end of the block that this fence opens.

        A fence with a known tag also ends the block: the author forgot to close it.
        """
        if other.closes:
            same = other.mark[0] == self.mark[0] and len(other.mark) >= len(self.mark)
            return same and other.indent < self.indent + 4
        return other.tag in KNOWN_TAGS and len(other.mark) >= len(self.mark)


def end_of_thoughts(text: str, in_thought: bool = False, is_quoted: Callable[[int], bool] = lambda _: False) -> int:
    """Return the index of the first character after a byte order mark and thoughts; ``len(text)`` if all is thought.

    Args:
        text: the completion.
        in_thought: whether the prompt ends inside a thought that it opened, as chat templates of thinking models do.
            Then the answer begins after the thought. If off, a closing tag without an opening tag also ends a thought.
        is_quoted: returns whether the closing tag at a character is part of a program, as in a docstring.
    """
    if in_thought:
        closing = _THOUGHT_CLOSES.search(text)
        return closing.end() if closing else len(text)
    start = _skip_blanks(text, 0)
    opened = False
    while found := _THOUGHT.match(text, start):
        opened = True
        end = text.find(f"</{found[1]}>", found.end())
        if end < 0:
            return len(text)
        start = _skip_blanks(text, end + len(found[1]) + 3)
    for closing in () if opened else islice(_THOUGHT_ENDS.finditer(text), _MAX_QUOTED):
        if _THOUGHT.search(text, 0, closing.start()):
            break
        if not is_quoted(closing.start()):
            return closing.end()
    return start if opened else int(text.startswith("\ufeff"))


def find_fences(text: str, start: int) -> list[Fence]:
    """Find the fences in a text, starting at a given character and skipping those inside thoughts."""
    thoughts, place = [], start  # closed thoughts in the answer, each at the start of a line
    while found := _LATER_THOUGHT.search(text, place):
        place = text.find(f"</{found[1]}>", found.end())
        if place < 0:
            break
        thoughts.append((found.start(), place))
    fences = []
    while found := _MARK.search(text, start):
        # The line that holds the mark, without its line end.
        first = max(start, text.rfind("\n", start, found.start()) + 1)
        last = text.find("\n", found.end())
        last = len(text) if last < 0 else last
        start = last + 1
        while thoughts and thoughts[0][1] <= first:
            thoughts.pop(0)
        if thoughts and thoughts[0][0] <= first:
            continue
        fence = _parse_fence(text, first, last)
        if fence is not None:
            fences.append(fence)
    return fences[-MAX_FENCES:]


def _parse_fence(text: str, first: int, last: int) -> Fence | None:
    line = text[first:last].rstrip("\r")
    behind = min(last + 1, len(text))
    if found := _FENCE.match(line):
        info = found["info"].strip().lstrip("{.").lower()
        word = _TAG.match(info)
        tag = word[0] if word else ""
        return Fence(found["mark"], len(found["indent"]), tag, first, behind, closes=not info)
    # ``Answer: ```python`` opens a block, ``return x``` `` closes one, if the line has no other mark.
    head, mark, info = line.partition("```")
    if not mark or "```" in info.lstrip("`"):
        return None
    ticks = mark + "`" * (len(info) - len(info.lstrip("`")))
    tag = info.lstrip("`").strip().lower()
    if tag in KNOWN_TAGS:
        return Fence(ticks, 0, tag, first + len(head), behind)
    if tag or "#" in head:  # the mark is in a comment
        return None
    return Fence(ticks, 0, "", first + len(head), behind, opens=False, closes=True)


def _skip_blanks(text: str, start: int) -> int:
    found = _BLANK.match(text, start)
    return found.end() if found else start
