"""One HTML file that tells what a fitted model learned, whether it is worth it, and what to beware of.

`write_report(model, "report.html")` writes it; `render_report(model)` gives it as text. The page opens
offline, fetches nothing, and shows its sentences and tables without JavaScript too.
"""

from groupshift._diagnosis.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
