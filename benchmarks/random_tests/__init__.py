"""Random tests with a right program and wrong ones for each, made from a seed alone."""
