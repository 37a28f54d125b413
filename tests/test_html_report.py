"""`lit-rl report --html`: one self-contained file, in which a program's output is only ever text."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from support.browser import browser
from support.recorded_runs import row, write_run
from torch.utils.tensorboard import SummaryWriter

from lit_rl.cli.report import report
from lit_rl.reports.html.charts import spread, ticks
from lit_rl.reports.run_files import METRICS_FILE
from lit_rl.reports.run_files.files import append_line
from lit_rl.reports.runs import short_names

HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=1'><!--<script>\u2028\udc80"
FAILED = {
    "exception_type": HOSTILE, "exception_message": HOSTILE, "stderr": HOSTILE, "stdout": HOSTILE, "line": 1,
    "failed_case": {"number": 1, "call": HOSTILE, "expected": HOSTILE, "actual": HOSTILE, "kind": "call"},
}  # fmt: skip


class Tags(HTMLParser):
    """Elements, attributes and texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def page_of(*runs: Path, options: tuple[str, ...] = ()) -> tuple[Path, str]:
    file = runs[0].parent / "report.html"
    report([*map(str, runs), "--html", str(file), *options])
    return file, file.read_text()


@pytest.fixture
def hostile_run(tmp_path: Path) -> Path:
    """Whatever a model or a program can write is hostile, the names of task and run too."""
    rows = [
        row(0, f"x = 1\n{HOSTILE}", 1.0, task_id=HOSTILE, prompt=HOSTILE, terms={HOSTILE: 1.0}),
        row(5, f"{HOSTILE}\ny", 0.0, task_id=HOSTILE, prompt=HOSTILE, outcome=FAILED, failing=[0, 9], reason=HOSTILE),
    ]
    return write_run(tmp_path / "<b>run&", {1: rows, 2: rows}, model=HOSTILE, method=HOSTILE)


def test_nothing_that_a_program_wrote_is_html(hostile_run: Path) -> None:
    """The page has its own two scripts, no handlers, and no address of anything outside of it."""
    _, page = page_of(hostile_run)
    found = Tags(page)
    assert found.tags.count("script") == 2 and "img" not in found.tags
    assert not [name for name in found.attributes if name.startswith("on") or name in ("src", "href", "xlink:href")]
    assert not re.search(r"url\(|@import|http-equiv", page.partition("</style>")[0])
    (data,) = re.findall(r'id="data">(.*?)</script>', page, re.DOTALL)
    shown = json.loads(data)["runs"][0]["rollouts"][0]["groups"][0]
    assert shown["prompt"] == shown["task"] == HOSTILE
    assert "".join(shown["rows"][0]["turns"][0]["pieces"]) == f"x = 1\n{HOSTILE}".replace("\udc80", "\ufffd" * 3)


def test_a_browser_shows_it_without_a_word_and_runs_nothing_of_it(hostile_run: Path) -> None:
    file, _ = page_of(hostile_run)
    with browser() as page:
        page.open(file)
        assert page.said == [] and page.asked == [file.as_uri()]
        assert page.run("window.hacked") is None
        assert page.run("document.querySelectorAll('img').length") == 0
        assert HOSTILE.split("\u2028")[0] in page.run("document.querySelector('.prompt').textContent")


def test_tokens_take_the_colour_that_is_chosen(tmp_path: Path) -> None:
    """Two columns; blue above 0, orange below, full where largest; the failing line is marked with what was said."""
    rows = [row(0, "ab", 1.0), row(1, "c\nd", -0.5, outcome={"stderr": "KeyError: 3", "line": 2}, failing=[2, 3])]
    file, _ = page_of(write_run(tmp_path / "run", {1: [row(0, "z", 1.0)], 2: rows}))

    with browser() as page:
        page.open(file)

        def colours() -> list[str]:
            found = page.run("[...document.querySelectorAll('.token')].map(t => t.style.backgroundColor)")
            return list(found)

        def choose(what: str, text: str) -> None:
            page.run(
                f"(s => {{ s.value = [...s.options].find(o => o.textContent.startsWith({text!r})).value;"
                f" s.dispatchEvent(new Event('change')) }})(document.getElementById('choose-{what}'))"
            )

        blue, orange = "rgba(33, 102, 172, ", "rgba(230, 97, 1, "
        assert [one.startswith(blue) for one in colours()] == [True] * 3 + [False] * 4
        assert all(one.startswith(orange) for one in colours()[3:]) and colours()[0].endswith("0.75)")
        choose("colour", "advantage")
        assert all(one == f"{orange}0.75)" for one in colours())
        choose("colour", "ratio")
        assert [one[:8] for one in colours()[:3]] == ["rgba(230", "rgba(33,", "rgba(33,"]
        assert page.run("document.querySelector('.token').title").splitlines() == [
            "token 0", "credit 0.333", "advantage -0.5", "ratio -0.1", "surprise 0.5",
        ]  # fmt: skip
        assert page.run("[...document.querySelectorAll('.failing')].map(t => t.textContent)") == ["d"]
        assert page.run("[...document.querySelectorAll('.words')].map(t => t.textContent)") == [
            "    1 c\n>   2 d", "KeyError: 3",
        ]  # fmt: skip
        assert page.run("[...document.querySelectorAll('.timeline + .legend li')].map(t => t.textContent)") == [
            "sampling 3 s", "judging 1 s",
        ]  # fmt: skip
        wide, narrow = page.run("[...document.querySelectorAll('.timeline div')].map(t => t.offsetWidth)")
        assert wide == pytest.approx(3 * narrow, rel=0.05)
        choose("rollout", "1")
        assert len(colours()) == 2
        assert page.said == []


def test_every_panel_is_drawn(tmp_path: Path) -> None:
    """No path with a number that is none, and each within its frame."""
    file, page = page_of(write_run(tmp_path / "run", {n: [] for n in (1, 2, 3)}))
    assert "nan" not in page.partition("<script")[0].lower()
    with browser() as shown:
        shown.open(file)
        of_box = "b => [b.x, b.y, b.width, b.height]"
        boxes = shown.run(f"[...document.querySelectorAll('svg')].map(s => s.getBBox()).map({of_box})")
    assert len(boxes) >= 4
    assert all(x >= 0 and y >= 0 and x + wide <= 360 and y + high <= 210 for x, y, wide, high in boxes)


def test_the_table_says_what_validation_measured(tmp_path: Path) -> None:
    _, page = page_of(write_run(tmp_path / "run", {n: [] for n in range(1, 11)}, model="m", seed=3))
    cells = re.findall(r"<td[^>]*>(.*?)</td>", page)[:12]
    measured = "0.750 (0.505 to 0.898)"
    assert cells[1:] == [
        "m", "GRPO", "3", "greedy", "pass@1", "10 rollouts", measured, "0.750 (rollout 10)", measured, "12 of 16",
        "11.5",
    ]  # fmt: skip


def test_tasks_without_programs_are_measured_by_their_reward(tmp_path: Path) -> None:
    """Sorting and its like: no pass@1, no tasks that passed; the terminal lists it too."""
    folder = tmp_path / "run"
    folder.mkdir()
    for number, reward in ((0, -0.5), (2, 0.25)):
        measured = {
            "val/greedy/reward/mean": reward,
            "val/greedy/num_problems": 4.0,
            "val/greedy/completion/length": 3.0,
        }
        append_line(folder / METRICS_FILE, {"rollout": number, "time": 0.0, **measured})
    _, page = page_of(folder)
    cells = re.findall(r"<td[^>]*>(.*?)</td>", page)[4:12]
    assert cells == ["greedy", "reward/mean", "2 rollouts", "-0.5", "0.250 (rollout 2)", "0.25", "", "3.0"]
    assert page.index("val/greedy/reward/mean") < page.index("All other numbers")


def test_diagnoses_come_before_the_tables_and_what_they_show_is_text(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {1: []}, diagnosed=True)
    found = {"rule": HOSTILE, "message": HOSTILE, "details": HOSTILE}
    append_line(folder / METRICS_FILE, {"rollout": 1, "time": 0.0, "diagnosis": found})
    _, page = page_of(folder)
    assert Tags(page).tags.count("script") == 2 and "img" not in Tags(page).tags
    assert page.index("<h2>Did it learn?</h2>") < page.index("<h2>Diagnoses</h2>") < page.index("All that validation")


def test_endings_are_counted_at_the_beginning_and_at_the_end(tmp_path: Path) -> None:
    _, page = page_of(write_run(tmp_path / "run", {n: [] for n in range(1, 11)}))
    assert re.findall(r">([^<]*)</td><td class=\"share\".*?<span>(.*?)</span>", page) == [
        ("exception: KeyError", "75.0%"), ("passed", "25.0%"),
    ]  # fmt: skip


def bands(page: str) -> int:
    return page.partition("reward/mean</figcaption>")[2].partition("</figure>")[0].count('class="band"')


def test_runs_that_differ_by_their_seed_are_one_line_with_a_band(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, {1: [], 2: []}, seed=seed) for name, seed in (("a", 0), ("b", 1))]
    _, page = page_of(*runs)
    assert bands(page) == 1 and "a, b (2 seeds)" in page


@pytest.mark.parametrize("other", [{"seed": 0}, {"seed": 1, "model": "other"}])
def test_other_runs_are_lines_of_their_own(tmp_path: Path, other: dict[str, Any]) -> None:
    """A second run of one seed is no second seed."""
    runs = [write_run(tmp_path / "a", {1: [], 2: []}), write_run(tmp_path / "b", {1: [], 2: []}, **other)]
    _, page = page_of(*runs)
    assert bands(page) == 0 and "seeds)" not in page


def test_a_run_without_plain_files_is_drawn_from_its_event_files(tmp_path: Path) -> None:
    writer = SummaryWriter(str(tmp_path / "old"))
    for step in range(3):
        writer.add_scalar("reward/mean", step / 2, step)
    writer.close()
    _, page = page_of(tmp_path / "old")
    assert "reward/mean</figcaption>" in page and 'id="browser"' not in page


def test_the_table_in_the_terminal_reads_plain_files_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report([str(write_run(tmp_path / "run", {1: [], 2: []}))])
    assert ["reward/mean", "2", "0.1", "0.2", "0.2"] in [
        line.split()[1:] for line in capsys.readouterr().out.splitlines()
    ]


def test_few_rollouts_are_shown_of_a_long_run(tmp_path: Path) -> None:
    """At equal distances, the first and the last among them."""
    _, page = page_of(write_run(tmp_path / "run", {n: [] for n in range(1, 101)}), options=("--rollouts", "4"))
    (data,) = re.findall(r'id="data">(.*?)</script>', page, re.DOTALL)
    (run,) = json.loads(data)["runs"]
    assert [one["number"] for one in run["rollouts"]] == [1, 34, 67, 100] and run["recorded"] == 100


def test_a_spread_is_taken_where_all_seeds_have_a_point() -> None:
    assert spread([[(1, 0.0), (2, 1.0), (3, 9.0)], [(1, 1.0), (2, 2.0)]]) == [(1, 0.0, 0.5, 1.0), (2, 1.0, 1.5, 2.0)]


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3.2, 7.1), (1e-9, 3e-9), (0, 1e6), (0.37, 0.38)])
def test_axes_have_round_numbers(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 2 <= len(found) <= 6 and all(low - 1e-12 <= value <= high + 1e-12 for value in found)


def test_names_leave_out_what_all_runs_share() -> None:
    folders = [Path(f"/runs/basics/{name}/version_0") for name in ("grpo", "ppo")]
    assert short_names(folders) == ["grpo", "ppo"]
    assert short_names(folders[:1]) == ["grpo/version_0"]
    assert short_names([Path("/a/x/version_0"), Path("/a/x/version_1")]) == ["version_0", "version_1"]
