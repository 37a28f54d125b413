"""What a run needs, on paper: memory, traffic, seconds. Pure functions of a few numbers; only the standard library."""
