"""One page about a model: summary, pictures, how to read them; it needs ``ordinalgp[report]``."""

from ordinalgp.report.page import report_html, write_report

__all__ = ["report_html", "write_report"]
