"""Requests to ZooKeeper, its answers and its errors, as data.

kazoo performs them in the live service, and a simulated ZooKeeper in the simulator. Work that takes several requests
is a generator, a *procedure*: it yields requests, and is sent their answers, or has their errors thrown into it.

A znode has a path, data, a version that grows by one with every change, and the id of the transaction that changed it
last. An ephemeral znode lives as long as the session that created it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

import msgspec

ANY_VERSION = -1


class ZnodeRequest(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=True):
    """Something that is asked of ZooKeeper."""

    path: str


class ReadZnode(ZnodeRequest, frozen=True):
    """The data of a znode, answered by a Znode. A watch tells once that it has changed or gone."""

    is_watched: bool = False


class ReadChildren(ZnodeRequest, frozen=True):
    """The names of the children of a znode, answered by a tuple. They are watched."""


class CreateZnode(ZnodeRequest, frozen=True):
    """A new znode; answered by its path, to which ZooKeeper appends ten digits if it is sequential."""

    data: bytes = b""
    is_ephemeral: bool = False
    is_sequential: bool = False


class WriteZnode(ZnodeRequest, frozen=True):
    """Replace the data of a znode, if it has this version."""

    data: bytes
    version: int = ANY_VERSION


class RemoveZnode(ZnodeRequest, frozen=True):
    """Remove a znode without children, if it has this version."""

    version: int = ANY_VERSION


class CheckZnode(ZnodeRequest, frozen=True):
    """In a transaction: a znode has to be there, in this version."""

    version: int = ANY_VERSION


class Transaction(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """All of these requests take place, or none does; then the error of the first one that cannot is the answer."""

    requests: tuple[CreateZnode | WriteZnode | RemoveZnode | CheckZnode, ...]


AnyRequest: TypeAlias = ReadZnode | ReadChildren | CreateZnode | WriteZnode | RemoveZnode | Transaction


class Znode(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A znode as it was read."""

    data: bytes
    version: int
    transaction: int  # the id of the one that changed it last: such ids grow
    session: int = 0  # that keeps an ephemeral znode alive; 0 if it is persistent


class ZnodeError(Exception):
    """A request did not take place."""


class NoZnodeError(ZnodeError):
    """The znode, or the one above it, is not there."""


class ZnodeExistsError(ZnodeError):
    """The znode is there already."""


class ZnodeVersionError(ZnodeError):
    """The znode has another version than was named."""


class ZnodeNotEmptyError(ZnodeError):
    """The znode has children."""


class InterruptedRequestError(ZnodeError):
    """The connection or the session ended first: nobody knows whether the request took place."""


class RefusedRequestError(ZnodeError):
    """ZooKeeper refuses the request: most likely the credentials are missing or wrong. The message says why."""


T = TypeVar("T")
Procedure: TypeAlias = Generator[AnyRequest, Any, T]
Answer: TypeAlias = object  # what the request is answered by, or a ZnodeError
