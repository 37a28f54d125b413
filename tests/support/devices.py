"""The device on which tests marked ``gpu`` run."""

from __future__ import annotations

import os

import pytest
import torch


def device_under_test() -> torch.device:
    """The GPU, or the device that ``LIT_RL_TEST_DEVICE`` names, such as ``cpu`` to try the tests themselves."""
    name = os.environ.get("LIT_RL_TEST_DEVICE", "cuda")
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU is here; LIT_RL_TEST_DEVICE=cpu tries these tests without one")
    return torch.device(name)
