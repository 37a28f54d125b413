"""The grader's process: runs test code over a program that lives in another process."""
