"""A report on runs as one HTML file that needs nothing else."""

from lit_rl.reports.html.page import write_html_report

__all__ = ["write_html_report"]
