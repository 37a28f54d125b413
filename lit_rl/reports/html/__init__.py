"""A report on runs as one HTML file that needs nothing else."""

from lit_rl.reports.html.page import write_page

__all__ = ["write_page"]
