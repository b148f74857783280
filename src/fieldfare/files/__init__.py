"""Matching files against files, and files into a store: CSV, JSON lines and Parquet in, the same out.

Reading never stops at a bad row: the row goes to a quarantine file with the reason, and the rest goes on.
Writing is all or nothing: results appear under their name only when they are complete.
"""
