"""The pages come with the package, and whatever a message names is found."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lit_rl import __main__ as entry
from lit_rl.cli import shipped_docs

ROOT = Path(__file__).parents[1]


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    entry.main(["docs", *arguments])
    return capsys.readouterr().out


def test_the_list_names_every_page_with_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed([], capsys).splitlines()
    assert {line.split()[0] for line in lines} == {file.stem for file in (ROOT / "docs").glob("*.md")}
    assert "monitoring         Looking at a run" in lines


@pytest.mark.parametrize("name", ["sandbox", "Sandbox", "sandbox.md", "docs/sandbox.md", "./docs/sandbox.md"])
def test_a_page_is_printed_as_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed([name], capsys) == (ROOT / "docs" / "sandbox.md").read_text() + "\n"


@pytest.mark.parametrize(
    "name",
    [
        "flat_reward",
        "#flat_reward",
        "flat-reward",
        "flat reward",
        "monitoring#flat_reward",
        "Monitoring#Flat_Reward",
        "docs/monitoring.md#flat_reward",
    ],
)
def test_a_section_ends_where_the_next_one_begins(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed([name], capsys)
    assert text.startswith("### flat_reward\n") and text.endswith("harder problems.\n")


def test_several_words_are_a_heading_or_a_page_and_its_section(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(["It", "does", "not", "start"], capsys).startswith("## It does not start\n")
    assert printed(["monitoring", "flat_reward"], capsys).startswith("### flat_reward\n")


def test_a_word_is_looked_for_where_no_section_is_called_by_it(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(["Objective.KL_coef"], capsys).splitlines()
    assert lines[0] == "Sections with Objective.KL_coef:"
    assert "lit-rl docs monitoring#format_falling" in lines[2:][0] and "format_falling" in lines[2]
    for line in lines[2:]:
        assert "objective.kl_coef" in shipped_docs.find(line.split()[2])


def test_words_are_found_in_any_order(capsys: pytest.CaptureFixture[str]) -> None:
    """No section has them next to each other."""
    one, other = (printed(words, capsys).splitlines()[2:] for words in (["seed", "band"], ["band", "seed"]))
    assert one == other and any("monitoring#one-page" in line for line in one)


def test_a_heading_of_several_pages_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    first, _, *rows = printed(["when-it-does-not-learn"], capsys).splitlines()
    assert first == "Sections called when-it-does-not-learn:"
    assert [row.split()[2].partition("#")[0] for row in rows] == ["metrics", "monitoring"]


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
    found = shipped_docs.sections(TEXT)
    cut = {shipped_docs.anchor_of(one.title): one.text for one in found}
    assert list(cut) == ["page", "one-thing", "inside", "two-things"]
    assert cut["page"] == TEXT.strip()
    assert cut["one-thing"] == "## One thing\n```yaml\n# a comment\n```\n### Inside"
    assert cut["inside"] == "### Inside" and cut["two-things"] == "## Two, things!\nend"
    assert found[0].own == "# Page" and "Inside" not in found[1].own


def test_anchors_are_those_of_the_site() -> None:
    assert shipped_docs.anchor_of("Épreuve – what's `it`?") == "epreuve-whats-it"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("flat_rewards", "did you mean monitoring#flat_reward"),
        ("monitorng", "did you mean monitoring?"),
        ("sandbox#flat_reward", "did you mean monitoring#flat_reward"),
        ("tasks.md#problems-that-teach-mroe", "did you mean tasks#problems-that-teach-more"),  # no word to look for
        ("qqqqqq", "lit-rl docs lists the pages"),
    ],
)
def test_another_name_is_one_line_with_the_nearest(name: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        entry.main(["docs", name])
    error = capsys.readouterr().err
    assert left.value.code == 1 and error.startswith("lit-rl: error: ") and error.count("\n") == 1
    assert said in error


def test_whatever_the_code_names_is_a_page_or_a_section() -> None:
    sources = [*(ROOT / "lit_rl").rglob("*.py"), *(ROOT / "callbacks").glob("*.py")]
    named = {name for file in sources for name in re.findall(r"lit-rl docs ([a-z_]+(?:#[\w-]+)?)", file.read_text())}
    named -= {"lists"}  # "lit-rl docs lists the pages"
    assert {"monitoring", "monitoring#when-it-does-not-learn", "sandbox", "engines"} <= named
    assert [name for name in named if not shipped_docs.find(name).startswith("#")] == []


def in_a_terminal(monkeypatch: pytest.MonkeyPatch, name: str) -> str:
    """What a terminal without colours shows: 80 columns."""
    screen = io.StringIO()
    for variable, value in {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(variable, value)
    with monkeypatch.context() as patch:
        patch.setattr(screen, "isatty", lambda: True)
        patch.setattr(sys, "stdout", screen)
        shipped_docs.docs([name])
    return screen.getvalue()


def test_a_terminal_gets_it_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    text = in_a_terminal(monkeypatch, "flat_groups")
    assert "(tasks.md#problems-that-teach-more)" in text, "the target can be given to lit-rl docs"
    assert "flat_groups" in text and "###" not in text and max(map(len, text.splitlines())) <= 80


def test_names_in_tables_stay_whole_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = in_a_terminal(monkeypatch, "formula-class-argument")
    assert "REINFORCE" in text and "…" not in text


def test_small_letters_stay_apart_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "0.9^(d − 1)" in in_a_terminal(monkeypatch, "the-toy-worlds")
    assert "π_ref the reference" in in_a_terminal(monkeypatch, "formula-class-argument")


def test_the_wheel_alone_has_the_pages(wheel: Path, tmp_path: Path, from_wheel: Callable[[str], list[str]]) -> None:
    (tmp_path / "docs").mkdir()  # of a project of one's own: it is not looked into
    code = "from lit_rl.cli import shipped_docs as s\nprint(s.folder(), *s.pages())\nprint(s.find('flat_reward'))"
    first, second, *_ = from_wheel(code)
    pages = sorted(file.stem for file in (ROOT / "docs").glob("*.md"))
    assert first == f"{wheel}/lit_rl/docs {' '.join(pages)}" and second == "### flat_reward"
