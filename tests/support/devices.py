"""The device on which tests marked ``gpu`` run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch


@contextmanager
def device_under_test() -> Iterator[torch.device]:
    """The GPU, or what ``LIT_RL_TEST_DEVICE`` names: ``python`` is a device in Python, ``cpu`` tries the tests."""
    name = os.environ.get("LIT_RL_TEST_DEVICE", "cuda")
    if name == "python":
        from support.python_device import python_device

        with python_device() as device:
            yield device
        return
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU is here; LIT_RL_TEST_DEVICE=python tries these tests without one")
    yield torch.device(name)


def trainer_options(device: torch.device) -> dict[str, Any]:
    """Arguments of a Trainer that put a run on the device."""
    if device.type == "python":
        from support.python_device import OnPythonDevice

        return {"strategy": OnPythonDevice(), "accelerator": "auto"}
    return {"accelerator": "gpu" if device.type == "cuda" else "cpu"}


def on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers, in a plain tensor."""
    found = tensor.detach().cpu()
    return getattr(found, "raw", found)
