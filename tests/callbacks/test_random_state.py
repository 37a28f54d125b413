"""All generators of a process are put back, not only torch's."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch

from lit_rl.callbacks.checkpointing import random_states, restore_random_state

DRAWS: dict[str, Callable[[], float]] = {
    "python": random.random,
    "python, in pairs": lambda: random.gauss(0, 1),
    "numpy": np.random.rand,
    "numpy, in pairs": np.random.randn,
    "torch": lambda: float(torch.rand(())),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_restored_generator_draws_the_same_again(draw: Callable[[], float]) -> None:
    draw()  # of a pair of normal numbers the second is kept for the next call
    states = random_states()
    drawn = [draw() for _ in range(5)]
    assert drawn != [draw() for _ in range(5)]
    restore_random_state(states[0])
    assert [draw() for _ in range(5)] == drawn
