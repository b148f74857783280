"""The section `[broker]` of the settings: a process as one broker among others.

Here are types and defaults; `broker_startup.py` checks that they fit together, and reads the files that they name.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fieldfare.messages import Name
from fieldfare.routing.tree.publisher_placement import Algorithm
from fieldfare.runtime.socket_addresses import AddressText

BROKER_PATHS = ("secret_file", "tls_ca", "tls_certificate", "tls_key", "zookeeper_acl_file", "topology")


class BrokerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a broker is called and reached, how it knows the others, and how it finds them."""

    name: Name | None = None  # no other broker of the deployment has it
    role: Literal["edge", "routing", "tree"] = "edge"
    network: Name | None = None  # of an edge: the network whose clients it serves; several edges may serve one
    listen: AddressText | None = None  # for other brokers; an edge can do without
    advertise: AddressText | None = None  # where others dial this broker, if that is not where it listens
    secret_file: str | None = None  # of the deployment, the same for all
    tls_ca: str | None = None  # the certificate of the deployment's authority
    tls_certificate: str | None = None  # this broker's own
    tls_key: str | None = None
    zookeeper: tuple[AddressText, ...] = ()  # servers of an ensemble
    zookeeper_chroot: Annotated[str, Meta(pattern=r"^(/[A-Za-z0-9._-]+)+$(?!\n)")] = "/fieldfare"
    zookeeper_acl_file: str | None = None  # USER:PASSWORD; what this broker writes is then for this user alone
    zookeeper_session_seconds: Annotated[float, Meta(ge=1, le=60)] = 10.0  # unheard of for so long, it counts as gone
    gossip_listen: AddressText | None = None  # over UDP; without ZooKeeper
    gossip_seeds: tuple[AddressText, ...] = ()  # where other brokers listen for gossip
    placement: Algorithm | None = None  # of a broker of a tree: how its publishers are placed, if they are
    neighbours: tuple[AddressText, ...] = ()  # of a broker of a tree: those that it dials; others may dial it
    topology: str | None = None  # the same for a whole tree: a file in which this broker has its place by its name
