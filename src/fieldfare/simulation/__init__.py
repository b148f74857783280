"""Nodes under a virtual clock, on a network and disks that fail as told: a seed replays any run.

Begin with `World`: edges, clients and webhooks, to test an application against. `clock`, `network`, `streams`, `disk`,
`links`, `service` and `host` run any node; `faults` plans what goes wrong, and `checkers` find out whether the clients
got what they were promised.
"""

from fieldfare.simulation.network import LinkQuality
from fieldfare.simulation.webhooks import Failure, Hang
from fieldfare.simulation.world import World

__all__ = ["Failure", "Hang", "LinkQuality", "World"]
