"""The command line: every verb of ``lit-rl``."""
