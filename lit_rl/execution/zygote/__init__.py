"""The zygote's process, which forks a child per program, watches its limits and cleans up; it sees no content."""
