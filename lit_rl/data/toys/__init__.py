"""Toy tasks without text: worlds, policies and rewards of plain numbers."""
