"""The zygote's process: forks a child per program, watches its limits, cleans up; sees no content."""
