"""Making random numbers without a seed the same in every run of a program."""

from __future__ import annotations

import random
import sys
from importlib import import_module

_seed_of_random = random.Random.seed
_shared: random.Random = vars(random)["_inst"]  # whose methods are the module's functions
_streams = random.Random()  # gives a seed to all that ask for none
_draw = _streams.getrandbits


def fix_random(seed: int) -> None:
    """Make all that asks for no seed depend on ``seed``: ``random``, ``Random()``, and numpy if it is loaded.

    What asks the kernel by name (``os.urandom``, ``secrets``, ``uuid4``, ``SystemRandom``) still gets true randomness.
    """

    def seed_or_draw(
        self: random.Random, a: int | float | str | bytes | bytearray | None = None, version: int = 2
    ) -> None:
        _seed_of_random(self, _draw(128) if a is None else a, version)

    setattr(random.Random, "seed", seed_or_draw)  # noqa: B010 - mypy knows that methods are not assigned to
    random.seed = _shared.seed
    if "numpy" in sys.modules:
        generators = import_module("numpy.random.bit_generator")
        if hasattr(generators, "randbits"):  # what an unseeded generator takes its first state from
            setattr(generators, "randbits", _draw)  # noqa: B010
    draw_anew(seed)


def draw_anew(seed: int) -> None:
    """Continue from another seed, after :func:`fix_random`.

    An int needs no hashing: this runs in every grader, where code that runs for the first time costs copied memory.
    """
    _seed_of_random(_streams, seed)
    _seed_of_random(_shared, _draw(128))
    if "numpy" in sys.modules:
        import_module("numpy.random").seed(_draw(32))
