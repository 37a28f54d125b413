"""The pages of the documentation, which come with the package: listed, searched, and printed whole or by section."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from lit_rl.arguments import UsageError

_PACKAGE = Path(__file__).resolve().parents[1]
_HEADING = re.compile(r"(#+) (.+)")
_MOST_FOUND = 15


class Section(NamedTuple):
    """A heading and the text below it.

    Args:
        title: text of the heading, as written.
        text: Markdown with the heading and the sections inside.
        own: the same without the sections inside.
    """

    title: str
    text: str
    own: str


def folder() -> Path:
    """The folder of the pages: inside an installed package, next to it in a checkout."""
    inside = _PACKAGE / "docs"
    return inside if inside.is_dir() else _PACKAGE.parent / "docs"


def pages() -> dict[str, str]:
    """The Markdown of every page by its name, such as ``monitoring``."""
    return {file.stem: file.read_text(encoding="utf-8") for file in sorted(folder().glob("*.md"))}


def sections(text: str) -> list[Section]:
    """All sections of a page in order; the first is the page itself."""
    lines = text.splitlines()
    headings = [*_headings(lines), (len(lines), 0, "")]
    cut = []
    for i, (start, level, title) in enumerate(headings[:-1]):
        end = next(line for line, other, _ in headings[i + 1 :] if other <= level)
        whole, own = ("\n".join(lines[start:stop]).strip() for stop in (end, headings[i + 1][0]))
        cut.append(Section(title, whole, own))
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
    """The Markdown that a name means; for a word that no section is called by, a list of those that have it.

    Args:
        wanted: a page (``monitoring``), a section of one (``monitoring#flat_reward``), a section alone
            (``flat_reward``), any of them as the documentation links to it (``docs/monitoring.md#flat_reward``), or
            words to look for, in any order. Upper and lower case, hyphens, underscores and blanks are alike.

    Raises:
        ValueError: there is none; the message names the nearest.
    """
    known = pages()
    below = {f"{page}#{anchor_of(one.title)}": one for page, text in known.items() for one in sections(text)}
    texts = {_folded(name): text for name, text in known.items()}
    texts |= {_folded(name): one.text for name, one in below.items()}
    page, mark, anchor = wanted.partition("#")
    if mark or page.endswith(".md"):  # of a path, the file's name is the page's
        page = Path(page).name.removesuffix(".md")
    name = _folded(page + mark + anchor)
    for one in (name, f"{name}s", name.removesuffix("s")):
        if one in texts:
            return texts[one]
    end = f"#{name.removeprefix('#')}"
    called = [other for other in below if _folded(other).endswith(end)]
    if len(called) == 1:
        return below[called[0]].text
    if called:
        return _listed(f"Sections called {wanted}:", called, below)
    is_word = "#" not in wanted
    words = wanted.lower().split()
    having = [other for other, one in below.items() if is_word and all(word in one.own.lower() for word in words)]
    if not having:
        nor = ", and none has all of these words" if is_word else ""
        raise UsageError(f"no page or section is called {wanted}{nor}: {_advice(name, known, below)}")
    return _listed(f"Sections with {wanted}:", having, below)


def _folded(name: str) -> str:
    return "#".join(anchor_of(part).replace("_", "-") for part in name.split("#"))


def _listed(heading: str, names: Sequence[str], below: Mapping[str, Section]) -> str:
    """Sections to choose from."""
    rows = [f"    lit-rl docs {name:44} {below[name].title}" for name in names[:_MOST_FOUND]]
    more = [f"    and {len(names) - _MOST_FOUND} more"] if len(names) > _MOST_FOUND else []
    return "\n".join([heading, "", *rows, *more])


def _advice(name: str, known: Mapping[str, str], below: Mapping[str, Section]) -> str:
    """Pages and sections with similar names."""
    by_end = {_folded(other).rpartition("#")[2]: other for other in (*below, *known)}
    near = [by_end[end] for end in get_close_matches(name.rpartition("#")[2], by_end, n=3)]
    return f"did you mean {' or '.join(near)}?" if near else "lit-rl docs lists the pages"


def docs(arguments: Sequence[str]) -> None:
    """Print a page of the documentation, a section of one, or sections that have all words; alone, list the pages."""
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(prog="lit-rl docs", description=docs.__doc__, exit_on_error=False)
    help = "such as monitoring, monitoring#flat_reward, flat_reward, or words to look for"
    parser.add_argument("name", nargs="*", type=str, help=help)
    words = parser.parse_args(list(arguments)).name
    if not words:
        print("\n".join(f"{page:18} {sections(text)[0].title}" for page, text in pages().items()))
        return
    is_section = len(words) > 1 and words[0] in pages()
    _print(find(f"{words[0]}#{' '.join(words[1:])}" if is_section else " ".join(words)))


def _print(markdown: str) -> None:
    """Print Markdown: laid out in a terminal, as it is into a pipe."""
    if not sys.stdout.isatty():
        print(markdown)
        return
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import Markdown, TableElement

    class WholeNames(TableElement):
        """A table that breaks a long name instead of cutting it off."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for table in super().__rich_console__(console, options):
                for column in table.columns:  # type: ignore[union-attr]
                    column.overflow = "fold"
                yield table

    # A terminal has no smaller letters, and rich leaves HTML out: subscripts as ``x_t``, powers as ``x^(t)``.
    plain = re.sub(r"<sup>(.*?)</sup>", r"^(\1)", re.sub(r"<sub>(.*?)</sub>", r"_\1", markdown))
    page = Markdown(plain, hyperlinks=False)
    page.elements = {**page.elements, "table_open": WholeNames}  # type: ignore[misc]
    Console().print(page)
