"""The pages come with the package, and whatever a message names is found."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lit_rl import __main__ as entry
from lit_rl import shipped_docs

ROOT = Path(__file__).parents[1]


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    entry.main(["docs", *arguments])
    return capsys.readouterr().out


def test_the_list_names_every_page_with_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed([], capsys).splitlines()
    assert {line.split()[0] for line in lines} == {file.stem for file in (ROOT / "docs").glob("*.md")}
    assert "monitoring         Looking at a run" in lines


@pytest.mark.parametrize("name", ["sandbox", "sandbox.md", "docs/sandbox.md"])
def test_a_page_is_printed_as_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed([name], capsys) == (ROOT / "docs" / "sandbox.md").read_text() + "\n"


@pytest.mark.parametrize("name", ["flat_reward", "monitoring#flat_reward", "docs/monitoring.md#flat_reward"])
def test_a_section_ends_where_the_next_one_begins(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed([name], capsys)
    assert text.startswith("### flat_reward\n") and text.endswith("harder problems.\n")


TEXT = """# Page
## One thing
```yaml
# a comment
```
### Inside
## Two, things!
end
"""


def test_a_section_has_those_inside_and_comments_in_code_are_no_headings() -> None:
    cut = {one.anchor: one.text for one in shipped_docs.sections(TEXT)}
    assert list(cut) == ["page", "one-thing", "inside", "two-things"]
    assert cut["page"] == TEXT.strip()
    assert cut["one-thing"] == "## One thing\n```yaml\n# a comment\n```\n### Inside"
    assert cut["inside"] == "### Inside" and cut["two-things"] == "## Two, things!\nend"


@pytest.mark.parametrize(
    "name, said",
    [
        ("flat_rewards", "did you mean monitoring#flat_reward"),
        ("monitorng", "did you mean monitoring"),
        ("sandbox#flat_reward", "did you mean monitoring#flat_reward"),
        ("qqqqqq", "lit-rl docs lists the pages"),
        ("when-it-does-not-learn", "several pages have such a section: "),
    ],
)
def test_another_name_is_one_line_with_the_nearest(name: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        entry.main(["docs", name])
    error = capsys.readouterr().err
    assert left.value.code == 1 and error.startswith("lit-rl: error: ") and error.count("\n") == 1
    assert said in error


def test_whatever_the_code_names_is_found() -> None:
    sources = [*(ROOT / "lit_rl").rglob("*.py"), *(ROOT / "callbacks").glob("*.py")]
    named = {name for file in sources for name in re.findall(r"lit-rl docs ([a-z_]+(?:#[\w-]+)?)", file.read_text())}
    assert {"monitoring", "monitoring#when-it-does-not-learn", "sandbox", "engines"} <= named
    for name in named - {"lists"}:
        assert shipped_docs.find(name), name


def test_every_link_between_pages_leads_to_a_section() -> None:
    for page, text in shipped_docs.pages().items():
        for other, anchor in re.findall(r"\]\((\w+\.md)?#([\w-]+)\)", text):
            shipped_docs.find(f"{other or page}#{anchor}")


def test_a_terminal_gets_it_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    shipped_docs.docs(["flat_groups"])
    text = terminal.getvalue()
    assert "flat_groups" in text and "###" not in text and max(map(len, text.splitlines())) <= 80


def test_the_wheel_alone_has_the_pages(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", tmp_path, ROOT]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-2000:]
    (wheel,) = tmp_path.glob("lit_rl-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"lit_rl/docs/{file.name}" for file in (ROOT / "docs").glob("*.md")} <= names
