"""Report on a model: summary, plots, how to read them; it needs ``ordinalgp[report]``."""

from ordinalgp.report.page import report_html, write_report

__all__ = ["report_html", "write_report"]
