"""Tests of a GPU pass on a device in Python; in a process of their own: torch then takes it for the machine's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOME = "weights_of_the_cpu and grpo and not lora or seldom and grpo or looks or mix"


@pytest.mark.parametrize("chosen", [SOME, pytest.param("", marks=pytest.mark.slow)], ids=["some", "all"])
def test_a_device_that_is_not_the_cpu_changes_nothing_and_is_seldom_waited_for(chosen: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", "-W", "ignore"]
    run = subprocess.run(
        [*command, "-k", chosen, str(Path(__file__).with_name("test_gpu.py"))],
        env=os.environ | {"LIT_RL_TEST_DEVICE": "python"},
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0 and " passed" in run.stdout and "skipped" not in run.stdout, run.stdout[-4000:]
