"""Analysis of the source of assert tests: their calls, their evidence, the code for a grader to run."""
