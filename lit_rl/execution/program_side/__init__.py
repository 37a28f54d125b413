"""Code that runs in a program's own process, and sees neither tests nor expected values."""
