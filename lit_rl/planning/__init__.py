"""Estimates of memory, traffic and seconds. Pure functions of a few numbers; only the standard library."""
