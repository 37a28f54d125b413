"""Check that a task can be learned from: references that run, tests and prompts that agree, stop strings."""
