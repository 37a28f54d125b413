"""Whether a task can be learned from: references that run, tests and prompts that ask for the same, stop strings."""
