"""The plain files of a run, with numbers and rollouts: readable even after the process was killed."""
