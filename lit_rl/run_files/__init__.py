"""The plain files of a run: numbers and rollouts, appended to, readable after the process was killed."""
