"""Benchmarks: ours and its peers, side by side in one run, every answer verified before a number is printed."""
