"""Report on a model: summary, plots, how to read them; it needs ``ordinalgp[report]``."""

from ordinalgp.report.page import report_html, write_report
from ordinalgp.report.ratings import rating_report_html, write_rating_report

__all__ = ["rating_report_html", "report_html", "write_rating_report", "write_report"]
