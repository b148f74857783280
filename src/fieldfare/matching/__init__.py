"""The index: which of a million conditions does an event satisfy? Start at index.py, then tree.py and kernel.py."""
