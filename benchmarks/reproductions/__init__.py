"""The parts of ``benchmarks/reproduce.py``, one file each."""

from reproductions import code, groups, lengths, mixed, places, pretrained, robots, sorting, worlds

_IN_ORDER = (worlds, code, pretrained, lengths, groups, mixed, robots, places, sorting)
PARTS = {module.PART.name: module.PART for module in _IN_ORDER}
