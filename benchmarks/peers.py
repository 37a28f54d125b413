"""Look for the names of docs/peers.md in the sources of the other libraries, and say when the page is old.

    pip install --no-deps --target sources trl verl openrlhf && python benchmarks/peers.py sources
    python benchmarks/peers.py          # its age only, as `make docs` does

Prints a line for each name that is not found; the exit status is 1 if there is one.
"""

from __future__ import annotations

import argparse
import datetime
import re
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "peers.md"
LIBRARIES = ("trl", "verl", "openrlhf")
MOST_WEEKS = 8


def weeks_since_read(page: str, today: datetime.date) -> int:
    """Whole weeks since the date that the page was read."""
    read = re.search(r"Read on (\d{4}-\d\d-\d\d)", page)
    assert read is not None, f"{PAGE} does not say when it was read"
    return (today - datetime.date.fromisoformat(read[1])).days // 7


def names(page: str) -> Iterator[tuple[str, str]]:
    """(library, name) of the cells of the page's tables."""
    for line in page.splitlines():
        cells = line.strip("|").split(" | ")
        if len(cells) == 1 + len(LIBRARIES) and line.startswith("|") and "`" in cells[0]:
            for library, cell in zip(LIBRARIES, cells[1:], strict=True):
                quoted = " ".join(re.findall(r"`([^`]+)`", cell))
                yield from ((library, word) for word in re.findall(r"[A-Za-z_](?:[\w-]*\w)?", quoted))


def missing(page: str, sources: Path) -> Iterator[str]:
    """Names that a library's sources do not have."""
    files = {name: [f for f in (sources / name).rglob("*") if f.suffix in (".py", ".yaml")] for name in LIBRARIES}
    texts = {name: "\n".join(f.read_text("utf-8", "replace") for f in found) for name, found in files.items()}
    yield from (f"{library} has no {word}" for library, word in names(page) if word not in texts[library])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path, nargs="?")
    parsed = parser.parse_args()
    page = PAGE.read_text("utf-8")
    weeks = weeks_since_read(page, datetime.date.today())
    if weeks > MOST_WEEKS:
        print(f"docs/peers.md was read {weeks} weeks ago: read it again, with the newest versions")
    found = list(missing(page, parsed.sources)) if parsed.sources else []
    print("".join(f"{line}\n" for line in found), end="")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
