"""The page on other libraries says when it was read, and its names can be looked up."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import peers


def test_the_age_of_the_page_is_counted_from_the_date_on_it() -> None:
    page = "Read on 2026-11-24; and more"
    assert peers.weeks_since_read(page, datetime.date(2027, 1, 19)) == 8
    assert peers.weeks_since_read(page, datetime.date(2027, 1, 18)) == 7
    assert peers.weeks_since_read(peers.PAGE.read_text(), datetime.date(2026, 11, 24)) == 0


def test_a_name_that_a_library_does_not_have_is_found(tmp_path: Path) -> None:
    table = "| here | TRL | verl | OpenRLHF |\n|---|---|---|---|\n| `lr` | `learning_rate` | `optim.lr` | - |\n"
    for name, text in (("trl", "learning_rate: float"), ("verl", "optim:\n  rate: 1"), ("openrlhf", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(text)
    assert list(peers.missing(table, tmp_path)) == ["verl has no lr"]
