"""Put tables of benchmarks on pages, by replacing what stands between two marks."""

from __future__ import annotations

from pathlib import Path

END = "<!-- end of what was measured -->\n"


def begin(script: str) -> str:
    """Return the mark after which a script's text stands; a script with several parts names the part."""
    return f"<!-- measured: {script} -->\n"


def put_into(page: Path, text: str, script: str) -> None:
    """Replace what stands between a script's marks on a page."""
    whole = page.read_text(encoding="utf-8")
    before, mark, rest = whole.partition(begin(script))
    _, end, after = rest.partition(END)
    if not (mark and end):
        raise ValueError(f"{page} lacks the lines {begin(script).strip()} and {END.strip()}")
    page.write_text(before + mark + "\n" + text + "\n" + end + after, encoding="utf-8")
