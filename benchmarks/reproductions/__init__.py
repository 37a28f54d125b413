"""The parts of ``benchmarks/reproduce.py``, most of them a file each."""

from reproductions import code, groups, ladder, lengths, mixed, places, robots, sorting, worlds

_OTHERS = (lengths, groups, mixed, robots, places, sorting, ladder)
PARTS = {part.name: part for part in (worlds.PART, code.PART, code.PRETRAINED, *(module.PART for module in _OTHERS))}
