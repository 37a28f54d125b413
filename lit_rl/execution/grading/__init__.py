"""The grader's process, which runs test code on a program that lives in another process."""
