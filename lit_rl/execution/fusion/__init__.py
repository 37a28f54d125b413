"""Judging on a Sandbox Fusion server instead of on this node."""
