"""The parts of ``benchmarks/reproduce.py``, one file each."""

from reproductions import code, groups, lengths, robots, sorting, worlds

PARTS = {part.name: part for part in (worlds.PART, code.PART, lengths.PART, groups.PART, robots.PART, sorting.PART)}
