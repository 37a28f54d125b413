"""Service robots: tasks, worlds, checks and their judge, rewards. The core imports nothing from here."""
