"""Helpers that tests share: small models, tasks and runs, hand-made completions. Fixtures stay in conftest.py."""
