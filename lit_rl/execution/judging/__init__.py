"""The supervisor's process, which holds tests and expected values, has programs run, and compares results."""
