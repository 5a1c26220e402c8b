"""Results for people: a table, and a page with charts."""

from kilonova.serving.loadtest.report.page import format_page
from kilonova.serving.loadtest.report.text import format_progress, format_result

__all__ = ["format_page", "format_progress", "format_result"]
