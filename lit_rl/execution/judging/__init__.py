"""The supervisor's process: holds tests and expected values, has programs run, compares results."""
