"""What runs in a program's own process, beside it: blind to tests and expected values."""
