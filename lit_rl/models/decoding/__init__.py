"""Sampling tokens: key-value caches, draws, random streams."""
