"""Analysis of the source of assert tests: the calls, the evidence of a pass, and the code that a grader runs."""
