"""`lit-rl report --html`: one self-contained file, in which a program's output is only ever text."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.browser import Page, browser
from support.recorded_runs import row, write_run

from lit_rl.cli.report import report_on_runs
from lit_rl.reports.html.page import render_html_report
from lit_rl.reports.improvement import MetricChange, learning_verdict, wilson_interval
from lit_rl.reports.runs import read_runs
from lit_rl.run_files.files import METRICS_FILE, append_json_line

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


def choose(page: Page, what: str, text: str) -> None:
    """Choose the first entry of a list of the page that begins with a text."""
    page.run(
        f"(s => {{ s.value = [...s.options].find(o => o.textContent.startsWith({text!r})).value;"
        f" s.dispatchEvent(new Event('change')) }})(document.getElementById('choose-{what}'))"
    )


def data_of(page: str) -> Any:
    (data,) = re.findall(r'id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(data)["runs"]


def page_of(*runs: Path, options: tuple[str, ...] = ()) -> tuple[Path, str]:
    file = runs[0].parent / "report.html"
    report_on_runs([*map(str, runs), "--html", str(file), *options])
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
    shown = data_of(page)[0]["rollouts"][0]["groups"][0]
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
    """Two columns, the failed one first; blue above 0, orange below, full where largest; the failing line is marked."""
    rows = [row(0, "ab", 1.0), row(1, "c\nd", -0.5, outcome={"stderr": "KeyError: 3", "line": 2}, failing=[2, 3])]
    file, _ = page_of(write_run(tmp_path / "run", {1: [row(0, "z", 1.0)], 2: rows}))

    with browser() as page:
        page.open(file)

        def colours() -> list[str]:
            found = page.run("[...document.querySelectorAll('.token')].map(t => t.style.backgroundColor)")
            return list(found)

        blue, orange = "rgba(33, 102, 172, ", "rgba(230, 97, 1, "
        assert [one.startswith(blue) for one in colours()] == [False] * 4 + [True] * 3
        assert all(one.startswith(orange) for one in colours()[:4]) and colours()[-1].endswith("0.75)")
        choose(page, "colour", "advantage")
        assert all(one == f"{orange}0.75)" for one in colours())
        choose(page, "colour", "ratio")
        assert [one[:8] for one in colours()[-3:]] == ["rgba(230", "rgba(33,", "rgba(33,"]
        assert page.run("[...document.querySelectorAll('.token')].at(-3).title").splitlines() == [
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
        choose(page, "rollout", "1")
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
    assert all(x >= 0 and y >= 0 and x + wide <= 360 and y + high <= 224 for x, y, wide, high in boxes)


def test_tasks_without_programs_are_measured_by_their_reward(tmp_path: Path) -> None:
    """Sorting and its like: no pass@1, no tasks that passed; the terminal lists it too."""
    folder = tmp_path / "run"
    folder.mkdir()
    for number, reward in ((0, -0.5), (2, 0.25)):
        measured = {"reward/mean": reward, "num_problems": 4.0, "completion/length": 3.0}
        line = {"rollout": number, "time": 0.0} | {f"val/greedy/{name}": value for name, value in measured.items()}
        append_json_line(folder / METRICS_FILE, line)
    _, page = page_of(folder)
    cells = re.findall(r"<td[^>]*>(.*?)</td>", page)[4:12]
    assert cells == ["greedy", "reward/mean", "2 rollouts", "-0.5", "0.250 (rollout 2)", "0.25", "", "3.0"]
    assert page.index("val/greedy/reward/mean") < page.index("All other numbers")


def test_diagnoses_come_before_the_tables_and_what_they_show_is_text(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {1: []}, diagnosed=True)
    found = {"rule": HOSTILE, "message": HOSTILE, "details": HOSTILE}
    append_json_line(folder / METRICS_FILE, {"rollout": 1, "time": 0.0, "diagnosis": found})
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


def test_few_rollouts_are_shown_of_a_long_run(tmp_path: Path) -> None:
    """At equal distances, the first and the last among them."""
    _, page = page_of(write_run(tmp_path / "run", {n: [] for n in range(1, 101)}), options=("--rollouts", "4"))
    (run,) = data_of(page)
    assert [one["number"] for one in run["rollouts"]] == [1, 34, 67, 100] and run["recorded"] == 100


def test_runs_below_one_folder_are_rows_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their steps are equal: put together they would be a curve of neither."""
    for name, values in (("grpo", {1: 0.25, 2: 0.5}), ("ppo", {1: 0.75, 3: 1.0})):
        folder = tmp_path / name / "version_0"
        folder.mkdir(parents=True)
        for rollout, value in values.items():
            append_json_line(folder / METRICS_FILE, {"rollout": rollout, "time": 0.0, "reward/mean": value})
    report_on_runs([str(tmp_path)])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[-2:]]
    assert [" ".join(row[1:]) for row in rows] == ["reward/mean 2 0.25 0.5 0.5", "reward/mean 2 0.75 1 1"]
    assert rows[0][0].endswith("grpo/version_0")


STARTED = {"rollout": 0, "time": 0.0, "start": {"batch_size": 4, "num_samples": 8, "num_ranks": 1}}


def recorded(folder: Path, *lines: dict[str, float]) -> Path:
    folder.mkdir()
    for line in (STARTED, *lines):
        append_json_line(folder / METRICS_FILE, {"time": 0.0, **line})
    return folder


def passed(rollout: int, share: float) -> dict[str, float]:
    return {"rollout": rollout, "val/greedy/pass@1": share, "val/greedy/num_problems": 100.0}


def told(folder: Path) -> str:
    (run,) = read_runs([str(folder)])
    return learning_verdict(run)


def test_an_interval_of_a_share_is_wilsons() -> None:
    """Of 0 of n it is 0 to z² / (n + z²); of half it is symmetric; it mirrors."""
    z = 1.96**2
    assert wilson_interval(0.0, 240) == pytest.approx((0.0, z / (240 + z)))
    assert wilson_interval(1.0, 240) == pytest.approx((240 / (240 + z), 1.0))
    low, high = wilson_interval(0.5, 100)
    assert low + high == pytest.approx(1.0) and high - 0.5 == pytest.approx(1.96 / 2 / (100 + z) ** 0.5)


def test_a_run_that_learned_says_from_where_to_where_and_at_what_cost(tmp_path: Path) -> None:
    steps = ({"rollout": n, "reward/mean": 0.0, "time/step_seconds": 40.0} for n in (1, 2))
    folder = recorded(tmp_path / "run", passed(0, 0.2), *steps, passed(2, 0.6))
    assert told(folder) == (
        "learned: greedy pass@1 rose from 0.200 (0.133 to 0.289) before training to 0.600 (0.502 to 0.691) of 100 "
        "problems after rollout 2. Cost: 2 rollouts, 64 completions, 1:20 of training"
    )


@pytest.mark.parametrize(("first", "last", "verdict"), [
    (0.50, 0.56, "no sign of learning"), (0.50, 0.44, "no sign of learning"), (0.5, 0.5, "no sign of learning"),
    (0.50, 0.70, "learned"), (0.70, 0.50, "got worse"), (0.0, 0.02, "no sign of learning"), (0.0, 0.1, "learned"),
])  # fmt: skip
def test_what_chance_explains_is_no_learning(tmp_path: Path, first: float, last: float, verdict: str) -> None:
    assert told(recorded(tmp_path / "run", passed(0, first), passed(9, last))).startswith(f"{verdict}: ")


def test_a_run_measured_only_later_is_not_called_flat(tmp_path: Path) -> None:
    """It earned 0.4 in the first rollouts and lost all before it was measured."""
    rewards = ({"rollout": n, "execution/pass_rate": 0.4 if n < 3 else 0.0} for n in range(1, 21))
    text = told(recorded(tmp_path / "run", *rewards, passed(10, 0.0), passed(20, 0.0)))
    assert "learn" not in text and "after rollout 10" in text and "--validate_first" in text
    assert "execution/pass_rate of training fell from 0.4 to 0 (by 0.4 ± 0)" in text


def test_a_run_that_was_never_validated_is_told_by_its_training(tmp_path: Path) -> None:
    losses = ({"update": n, "sft/loss": 2.0 if n == 1 else 1.0} for n in range(1, 11))
    assert "sft/loss of training went from 2 to 1, means" in told(recorded(tmp_path / "run", *losses))
    assert "nothing that shows learning" in told(recorded(tmp_path / "other", {"rollout": 1, "loss": 1.0}))


def test_a_rise_in_training_is_called_one_if_it_exceeds_its_interval(tmp_path: Path) -> None:
    """Tenths of three rollouts with a variance of 0.01 each: four degrees of freedom, for which tables have 2.776."""
    for name, last, says in (("a", 0.6, "rose"), ("b", 0.4, "did not change measurably")):
        values = (0.1, 0.2, 0.3, *[0.2] * 24, last - 0.1, last, last + 0.1)
        rewards = ({"rollout": n, "reward/mean": value} for n, value in enumerate(values, 1))
        by = f"{last - 0.2:.3g} ± {2.776 * (0.02 / 3) ** 0.5:.2g}"
        text = told(recorded(tmp_path / name, *rewards))
        assert f"reward/mean of training {says} from 0.2 to {last:.3g} (by {by})" in text


@pytest.mark.parametrize("tenth", [2, 3, 5])
def test_noise_alone_is_seldom_called_a_rise(tenth: int) -> None:
    """With the normal quantile 21%, 13% and 8% of such runs had risen or fallen."""
    draw = Random(0)
    changes = [
        MetricChange("r", "r", [(n, draw.gauss(0.5, 0.1)) for n in range(10 * tenth)], by_tenths=True)
        for _ in range(2000)
    ]
    assert sum(one.change_verb in ("rose", "fell") for one in changes) <= 0.06 * len(changes)


def test_a_diagnosis_that_came_again_is_one_row(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {n: [] for n in range(1, 11)}, diagnosed=True)
    for rollout in (2, 5, 8):
        said = {"rule": "collapse", "message": f"lost {rollout}", "details": ""}
        append_json_line(folder / METRICS_FILE, {"rollout": rollout, "time": 0.0, "diagnosis": said})
        if rollout < 8:
            ended = {"rule": "collapse", "ended": True}
            append_json_line(folder / METRICS_FILE, {"rollout": rollout + 1, "time": 0.0, "diagnosis": ended})
    text = render_html_report(read_runs([str(folder)]))
    assert re.findall(r'data-title="diagnosis">(.*?)<', text) == ["collapse"]
    assert "3 times: rollouts 2 to 3, rollouts 5 to 6, since rollout 8" in text and "lost 8" in text


def test_the_group_whose_rewards_differ_most_is_shown_first(tmp_path: Path) -> None:
    rows = [
        row(0, "a", 1.0, group=0, task_id="alone"),
        *(row(1 + i, "b", 0.5, group=1, task_id="flat") for i in range(2)),
        *(row(3 + i, "c", float(i), group=2, task_id="mixed") for i in range(2)),
    ]
    file, _ = page_of(write_run(tmp_path / "run", {1: rows, 2: rows[:1]}))
    with browser() as shown:
        shown.open(file)
        for rollout, task in (("1", "mixed"), ("2", "alone")):
            choose(shown, "rollout", rollout)
            chosen = shown.run("document.getElementById('choose-problem').selectedOptions[0].textContent")
            assert chosen.startswith(task)
