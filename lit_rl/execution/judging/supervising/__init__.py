"""The process that judges: its loop, its jobs and their files, its own limits."""
