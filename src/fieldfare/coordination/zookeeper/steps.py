"""Small procedures that others are made of."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from fieldfare.coordination.zookeeper.tree import Tree
from fieldfare.coordination.zookeeper.znodes import (
    ANY_VERSION,
    CreateZnode,
    NoZnodeError,
    Procedure,
    ReadChildren,
    ReadZnode,
    RemoveZnode,
    Transaction,
    WriteZnode,
    Znode,
    ZnodeExistsError,
)
from fieldfare.messages import TopicKey


def read(path: str, *, is_watched: bool = False) -> Procedure[Znode]:
    """Read a znode."""
    znode: Znode = yield ReadZnode(path, is_watched)
    return znode


def read_children(path: str) -> Procedure[tuple[str, ...]]:
    """Read the names of the children of a znode, and watch them."""
    names: tuple[str, ...] = yield ReadChildren(path)
    return names


def create(path: str, data: bytes = b"", *, is_ephemeral: bool = False, is_sequential: bool = False) -> Procedure[str]:
    """Create a znode; returns its path."""
    created: str = yield CreateZnode(path, data, is_ephemeral, is_sequential)
    return created


def remove(path: str) -> Procedure[None]:
    """Remove a znode; it is all right if it is gone already."""
    try:
        yield RemoveZnode(path)
    except NoZnodeError:
        return


def write(path: str, data: bytes, version: int = ANY_VERSION) -> Procedure[None]:
    """Replace the data of a znode, if it has this version."""
    yield WriteZnode(path, data, version)


def make_path(path: str) -> Procedure[None]:
    """Have a persistent znode, and those above it."""
    try:
        yield CreateZnode(path)
    except ZnodeExistsError:
        return
    except NoZnodeError:
        yield from make_path(path.rpartition("/")[0])
        yield from make_path(path)


def children_of(path: str) -> Procedure[tuple[str, ...]]:
    """The names of the children of a znode, which is created if it is not there; they are watched."""
    try:
        return (yield from read_children(path))
    except NoZnodeError:
        yield from make_path(path)
        return (yield from read_children(path))


def in_topic(
    tree: Tree, topic: TopicKey, make: Callable[[], Procedure[None]], in_new_topic: CreateZnode | WriteZnode
) -> Procedure[None]:
    """Make something below a topic; where there is no such topic, in one transaction with the topic."""
    while True:
        with suppress(NoZnodeError):
            yield from make()
            return
        try:
            yield Transaction((*tree.new_topic(topic), in_new_topic))
        except ZnodeExistsError:
            continue
        except NoZnodeError:
            yield from make_path(tree.topics)
        else:
            return
