"""Codecs, which turn text into token ids and back."""
