"""Random numbers that nobody seeded, made the same in every run of a program."""

from __future__ import annotations

import random
import sys
from importlib import import_module

_seed_of_random = random.Random.seed


def fix_random(seed: str) -> None:
    """Let all that asks for no seed be determined by ``seed``: ``random``, ``Random()``, and numpy if it is loaded.

    What asks the kernel by name (``os.urandom``, ``secrets``, ``uuid4``, ``SystemRandom``) still gets what that says.
    """
    stream = random.Random(f"{seed}/streams")
    draw = stream.getrandbits

    def seed_or_draw(
        self: random.Random, a: int | float | str | bytes | bytearray | None = None, version: int = 2
    ) -> None:
        _seed_of_random(self, draw(128) if a is None else a, version)

    setattr(random.Random, "seed", seed_or_draw)  # noqa: B010 - mypy knows that methods are not assigned to
    instance: random.Random = vars(random)["_inst"]
    random.seed = instance.seed
    random.seed(seed)
    if "numpy" in sys.modules:
        import_module("numpy.random").seed(draw(32))
        generators = import_module("numpy.random.bit_generator")
        if hasattr(generators, "randbits"):  # what an unseeded generator takes its first state from
            setattr(generators, "randbits", draw)  # noqa: B010
