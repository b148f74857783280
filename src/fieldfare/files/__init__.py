"""Matching files against files, and files into a store: CSV, JSON lines and Parquet in, the same out.

Reading never stops at a bad row: the row goes to a quarantine file with the reason, and the rest goes on.
Writing is all or nothing: results appear under their name only when they are complete.
"""

from __future__ import annotations

from fieldfare.files.importing import ImportOptions, ImportSummary, import_subscriptions
from fieldfare.files.match import MatchOptions, MatchSummary, match_files

__all__ = ["ImportOptions", "ImportSummary", "MatchOptions", "MatchSummary", "import_subscriptions", "match_files"]
