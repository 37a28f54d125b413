"""The pages of the documentation, which come with the package: listed, and printed whole or by section."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

_HERE = Path(__file__).resolve().parent
_HEADING = re.compile(r"(#+) (.+)")


class Section(NamedTuple):
    """A heading and what stands below it, with the sections inside.

    Args:
        title: text of the heading, as written.
        anchor: what a link to it ends with, such as ``flat_reward``.
        text: Markdown of the section, the heading included.
    """

    title: str
    anchor: str
    text: str


def folder() -> Path:
    """The folder of the pages: inside an installed package, beside it in a checkout."""
    inside = _HERE / "docs"
    return inside if inside.is_dir() else _HERE.parent / "docs"


def pages() -> dict[str, str]:
    """The Markdown of every page by its name, such as ``monitoring``."""
    return {file.stem: file.read_text(encoding="utf-8") for file in sorted(folder().glob("*.md"))}


def sections(text: str) -> list[Section]:
    """All sections of a page, in their order; the first is the page itself."""
    lines = text.splitlines()
    found = list(_headings(lines))
    cut = []
    for i, (start, level, title) in enumerate(found):
        end = next((line for line, other, _ in found[i + 1 :] if other <= level), len(lines))
        cut.append(Section(title, anchor_of(title), "\n".join(lines[start:end]).strip()))
    return cut


def _headings(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Line number, level and title of each heading; a comment in a block of code is none."""
    in_code = False
    for number, line in enumerate(lines):
        in_code ^= line.lstrip().startswith("```")
        match = None if in_code else _HEADING.fullmatch(line)
        if match:
            yield number, len(match[1]), match[2]


def anchor_of(title: str) -> str:
    """The anchor that the site gives a heading: lower case, without punctuation, hyphens for blanks."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def find(wanted: str) -> str:
    """The Markdown that a name means.

    Args:
        wanted: a page (``monitoring``), a section of one (``monitoring#flat_reward``), a section alone
            (``flat_reward``), or any of them as the documentation links to it (``docs/monitoring.md#flat_reward``).

    Raises:
        ValueError: there is none, or several pages have such a section; the message names the nearest.
    """
    known = pages()
    page, _, anchor = wanted.removeprefix("docs/").replace(".md", "").partition("#")
    if page in known and not anchor:
        return known[page]
    below = {f"{name}#{one.anchor}": one.text for name, text in known.items() for one in sections(text)}
    if f"{page}#{anchor}" in below:
        return below[f"{page}#{anchor}"]
    same = [name for name in below if not anchor and name.endswith(f"#{anchor_of(page)}")]
    if len(same) == 1:
        return below[same[0]]
    raise ValueError(f"lit-rl docs {wanted}: {_advice(anchor or page, same, [*known, *below])}")


def _advice(wanted: str, same: Sequence[str], names: Sequence[str]) -> str:
    if same:
        return f"several pages have such a section: {', '.join(same)}"
    by_end = {name.rpartition("#")[2]: name for name in names}
    near = [by_end[end] for end in get_close_matches(anchor_of(wanted), by_end, n=3)]
    advice = f"did you mean {' or '.join(near)}?" if near else "lit-rl docs lists the pages"
    return f"no page or section is called so: {advice}"


def docs(arguments: Sequence[str]) -> None:
    """Print a page of the documentation, or a section of one; without a name, list the pages."""
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(prog="lit-rl docs", description=docs.__doc__, exit_on_error=False)
    parser.add_argument("name", nargs="?", type=str, help="such as monitoring, monitoring#flat_reward or flat_reward")
    name = parser.parse_args(list(arguments)).name
    if name is not None:
        _print(find(name))
        return
    print("\n".join(f"{page:18} {sections(text)[0].title}" for page, text in pages().items()))


def _print(markdown: str) -> None:
    """Print Markdown: laid out in a terminal, as it is into a pipe."""
    if not sys.stdout.isatty():
        print(markdown)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(markdown, hyperlinks=False))
