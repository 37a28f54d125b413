"""Reading the source of assert tests: what they call, what they prove, what a grader has to run."""
