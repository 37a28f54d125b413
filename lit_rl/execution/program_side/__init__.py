"""Code that runs in a program's own process: blind to tests and expected values."""
