"""A report on runs as one HTML file that needs nothing else."""

from lit_rl.reports.html.page import write_page
from lit_rl.reports.html.runs import read_runs

__all__ = ["read_runs", "write_page"]
