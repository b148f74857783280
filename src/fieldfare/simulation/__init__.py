"""Nodes under a virtual clock, on a network and disks that fail as told: a seed replays any run.

`World` is the door: edges, clients and webhooks, to test an application against. `clock`, `network`, `disk` and `host`
run any node; `faults` plans what goes wrong, `checkers` judge what came of it.
"""

from fieldfare.simulation.network import LinkQuality
from fieldfare.simulation.webhooks import Failure, Hang
from fieldfare.simulation.world import World

__all__ = ["Failure", "Hang", "LinkQuality", "World"]
