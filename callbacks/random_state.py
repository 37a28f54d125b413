"""The state of every random generator of every rank, as plain data that a checkpoint can hold."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

from lit_rl.training.ranks import gather_over_ranks


def random_states() -> list[dict[str, Any]]:
    """One state per rank, the same list on every rank; all ranks call."""
    return gather_over_ranks(_state())


def restore(state: dict[str, Any]) -> None:
    """Set the generators of this process."""
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
    name, keys, position, has_gauss, gauss = state["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), position, has_gauss, gauss))
    version, internal, gauss_next = state["python"]
    random.setstate((version, tuple(internal), gauss_next))


def _state() -> dict[str, Any]:
    numpy: Any = np.random.get_state()
    version, internal, gauss_next = random.getstate()
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        # Plain numbers: a checkpoint with numpy arrays is refused by the safe way of loading.
        "numpy": [numpy[0], numpy[1].tolist(), int(numpy[2]), int(numpy[3]), float(numpy[4])],
        "python": [version, list(internal), gauss_next],
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state
