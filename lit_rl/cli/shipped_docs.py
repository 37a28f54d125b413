"""The pages of the documentation, which come with the package."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from lit_rl.cli.shipped_configs import shipped_folder
from lit_rl.errors import UsageError


def docs_pages_by_name() -> dict[str, str]:
    """Return the Markdown of every page by name, such as ``monitoring``; from the checkout if nothing is installed."""
    return {file.stem: file.read_text(encoding="utf-8") for file in sorted(shipped_folder("docs").glob("*.md"))}


def sections_by_anchor(text: str) -> dict[str, str]:
    """Return a page's sections by anchor, each with its heading and inner sections; the first is the whole page."""
    headings, in_code, lines = [], False, text.splitlines()
    for number, line in enumerate(lines):
        in_code ^= line.lstrip().startswith("```")
        if not in_code and (found := re.fullmatch(r"(#+) (.+)", line)):
            headings.append((number, len(found[1]), found[2]))
    cut = {}
    for i, (start, level, title) in enumerate(headings):
        end = next((line for line, other, _ in headings[i + 1 :] if other <= level), len(lines))
        cut[anchor_of(title)] = "\n".join(lines[start:end]).strip()
    return cut


def anchor_of(title: str) -> str:
    """Return the anchor that the site gives a heading: lower case, without punctuation, hyphens for blanks."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def find_page_or_section(name: str) -> str:
    """Return the Markdown of a page, such as ``monitoring``, or of a section, such as ``monitoring#flat_reward``."""
    page, _, anchor = name.partition("#")
    text = docs_pages_by_name().get(Path(page).name.removesuffix(".md"))
    found = text if not anchor or text is None else sections_by_anchor(text).get(anchor)
    if found is None:
        raise UsageError(f"no page or section is called {name}: lit-rl docs lists the pages")
    return found


def print_docs_page(arguments: Sequence[str]) -> None:
    """Print a page of the documentation, or a section of one; without a name, list the pages."""
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(prog="lit-rl docs", description=print_docs_page.__doc__, exit_on_error=False)
    parser.add_argument("name", nargs="?", type=str, help="such as monitoring, or monitoring#flat_reward")
    name = parser.parse_args(list(arguments)).name
    if name is None:
        for page, text in docs_pages_by_name().items():
            print(f"{page:18} {text.splitlines()[0].lstrip('# ')}")
    else:
        print(find_page_or_section(name))
