"""Nodes under a virtual clock, on a network and disks that fail as told: a seed replays any run."""
