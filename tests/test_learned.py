"""Did it learn: the sentence that a report begins with, and the page around it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.browser import browser
from support.recorded_runs import row, write_run

from lit_rl.cli.report import report
from lit_rl.reports.html.page import page
from lit_rl.reports.learned import answer, wilson
from lit_rl.reports.run_files import METRICS_FILE
from lit_rl.reports.run_files.files import append_line
from lit_rl.reports.run_files.row_text import number_text
from lit_rl.reports.runs import read_runs

STARTED = {"rollout": 0, "time": 0.0, "start": {"batch_size": 4, "num_samples": 8, "num_ranks": 1}}


def recorded(folder: Path, *lines: dict[str, float]) -> Path:
    folder.mkdir()
    for line in (STARTED, *lines):
        append_line(folder / METRICS_FILE, {"time": 0.0, **line})
    return folder


def passed(rollout: int, share: float) -> dict[str, float]:
    return {"rollout": rollout, "val/greedy/pass@1": share, "val/greedy/num_problems": 100.0}


def told(folder: Path) -> str:
    (run,) = read_runs([str(folder)])
    return answer(run)


def test_an_interval_of_a_share_is_wilsons() -> None:
    """Of 0 of n it is 0 to z² / (n + z²); of half it is symmetric; it mirrors."""
    z = 1.96**2
    assert wilson(0.0, 240) == pytest.approx((0.0, z / (240 + z)))
    assert wilson(1.0, 240) == pytest.approx((240 / (240 + z), 1.0))
    low, high = wilson(0.5, 100)
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
    assert "execution/pass_rate of training fell from 0.4 to 0" in text


def test_one_measurement_alone_is_no_verdict(tmp_path: Path) -> None:
    assert told(recorded(tmp_path / "run", passed(0, 0.5))).startswith("greedy pass@1 was measured once: 0.500 (")


def test_a_run_that_was_never_validated_is_told_by_its_training(tmp_path: Path) -> None:
    losses = ({"update": n, "sft/loss": 2.0 if n == 1 else 1.0} for n in range(1, 11))
    assert "sft/loss of training fell from 2 to 1" in told(recorded(tmp_path / "run", *losses))
    assert "nothing that shows learning" in told(recorded(tmp_path / "other", {"rollout": 1, "loss": 1.0}))


def test_the_first_screen_answers_and_tables_are_folded(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    file = tmp_path / "report.html"
    report(
        [str(write_run(tmp_path / "runs" / "a", {n: [] for n in range(1, 11)}, diagnosed=True)), "--html", str(file)]
    )
    with browser() as shown:
        shown.open(file, width=1400, height=900)
        below = "e => e.getBoundingClientRect().bottom < innerHeight && e.offsetHeight > 0"
        assert shown.run(f"[...document.querySelectorAll('p')].filter({below}).length") == 1
        titles = shown.run(f"[...document.querySelectorAll('figcaption')].filter({below}).map(e => e.textContent)")
        assert titles[:3] == ["val/greedy/pass@1", "reward/mean", "verdicts of runs/a"]
        assert shown.run(f"[...document.querySelectorAll('h2')].filter({below}).map(e => e.textContent)")[:2] == [
            "Did it learn?", "Diagnoses",
        ]  # fmt: skip
        assert shown.run("[...document.querySelectorAll('details table')].every(t => !t.checkVisibility())")


def test_a_diagnosis_that_came_again_is_one_row(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {n: [] for n in range(1, 11)}, diagnosed=True)
    for rollout in (2, 5, 8):
        said = {"rule": "collapse", "message": f"lost {rollout}", "details": ""}
        append_line(folder / METRICS_FILE, {"rollout": rollout, "time": 0.0, "diagnosis": said})
        if rollout < 8:
            ended = {"rule": "collapse", "ended": True}
            append_line(folder / METRICS_FILE, {"rollout": rollout + 1, "time": 0.0, "diagnosis": ended})
    text = page(read_runs([str(folder)]))
    assert re.findall(r'data-title="diagnosis">(.*?)<', text) == ["collapse"]
    assert "3 times: rollouts 2 to 3, rollouts 5 to 6, since rollout 8" in text and "lost 8" in text


def test_a_task_that_runs_nothing_has_no_table_of_verdicts(tmp_path: Path) -> None:
    """Its rows carry a verdict that means nothing; training logs none."""
    folder = write_run(tmp_path / "run", {1: [row(0, "a", 1.0)]})
    lines = [json.loads(line) for line in (folder / METRICS_FILE).read_text().splitlines()]
    (folder / METRICS_FILE).write_text(
        "".join(
            json.dumps({name: value for name, value in line.items() if not name.startswith("verdict/")}) + "\n"
            for line in lines
        )
    )
    report([str(folder), "--html", str(tmp_path / "report.html")])
    assert "How programs ended" not in (tmp_path / "report.html").read_text()
    with browser() as shown:
        shown.open(tmp_path / "report.html")
        assert shown.run("document.querySelector('h4').textContent") == "row 0: reward 1"


def test_the_group_whose_rewards_differ_most_is_shown_first(tmp_path: Path) -> None:
    rows = [
        row(0, "a", 1.0, group=0, task_id="alone"),
        *(row(1 + i, "b", 0.5, group=1, task_id="flat") for i in range(2)),
        *(row(3 + i, "c", float(i), group=2, task_id="mixed") for i in range(2)),
    ]
    file = tmp_path / "report.html"
    report([str(write_run(tmp_path / "run", {1: rows, 2: rows[:1]})), "--html", str(file)])
    with browser() as shown:
        shown.open(file)
        choice = "document.getElementById('choose-{}')"
        for rollout, task in ((0, "mixed"), (1, "alone")):
            shown.run(
                f"(s => {{ s.value = {rollout}; s.dispatchEvent(new Event('change')) }})({choice.format('rollout')})"
            )
            assert shown.run(f"{choice.format('problem')}.selectedOptions[0].textContent").startswith(task)


def test_a_narrow_page_shows_tables_as_cards_and_a_dark_one_dark_choices(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    report(
        [str(write_run(tmp_path / "run", {n: [row(0, "a", 1.0)] for n in (1, 2)}, model="m" * 90)), "--html", str(file)]
    )
    with browser() as shown:
        shown.open(file, width=420, dark=True)
        shown.run("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert shown.run("document.documentElement.scrollWidth") <= 420
        assert shown.run("[...document.querySelectorAll('td')].every(t => t.getBoundingClientRect().right <= 420)")
        assert shown.run("getComputedStyle(document.querySelector('td'), '::before').content") == '"run"'
        red, green, blue = map(
            int, re.findall(r"\d+", shown.run("getComputedStyle(document.querySelector('select')).backgroundColor"))[:3]
        )
        assert red + green + blue < 3 * 128


def test_what_a_verb_measured_next_to_a_run_is_no_run(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run" / "version_0", {1: []})
    write_run(tmp_path / "run" / "validate", {1: []})
    assert [run.folder for run in read_runs([str(tmp_path / "run")])] == [folder]
    assert len(read_runs([str(tmp_path / "run" / "validate")])) == 1


@pytest.mark.parametrize(("number", "text"), [
    (1000.0, "1,000"), (12345.6, "12,300"), (0.0, "0"), (-2.5, "-2.5"), (0.000612345, "0.000612"), (1e-7, "1e-07"),
])  # fmt: skip
def test_numbers_have_no_powers_of_ten_where_digits_are_shorter(number: float, text: str) -> None:
    assert number_text(number, 3) == text
