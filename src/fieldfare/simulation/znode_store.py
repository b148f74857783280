"""The data of a simulated ZooKeeper: znodes by path, changed by one transaction after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from fieldfare.coordination.zookeeper.znodes import (
    ANY_VERSION,
    CheckZnode,
    CreateZnode,
    NoZnodeError,
    RemoveZnode,
    Transaction,
    WriteZnode,
    Znode,
    ZnodeError,
    ZnodeExistsError,
    ZnodeNotEmptyError,
    ZnodeVersionError,
)


@dataclass(frozen=True, slots=True)
class StoredZnode:
    """A znode and the names of its children."""

    znode: Znode
    children: frozenset[str] = frozenset()
    created_children: int = 0  # so far: the next sequential child has this number


Snapshot: TypeAlias = dict[str, StoredZnode]
WriteRequest: TypeAlias = CreateZnode | WriteZnode | RemoveZnode | Transaction


class ZnodeStore:
    """All znodes. `on_change` is told the path of a znode that changed, came or went, and whether it came or went."""

    def __init__(self, on_change: Callable[[str, bool], None]) -> None:
        self.transaction = 0  # the id of the last one
        self.znodes: Snapshot = {"": StoredZnode(Znode(b"", 0, 0))}  # by path; only this class changes it
        self._on_change = on_change

    def perform(self, request: WriteRequest, session: int) -> str | None:
        """Perform a request as one transaction; returns the path of a znode that it created. Raises a ZnodeError."""
        self.transaction += 1
        requests = request.requests if isinstance(request, Transaction) else (request,)
        before: dict[str, StoredZnode | None] = {}
        created = None
        try:
            for each in requests:
                created = self._change(each, session, before)
        except ZnodeError:
            for path, stored in before.items():
                self._put(path, stored)
            raise
        for path, stored in before.items():
            now = self.znodes.get(path)
            if stored is None or now is None or stored.znode != now.znode:
                self._on_change(path, (stored is None) != (now is None))
        return created if isinstance(request, CreateZnode) else None

    def end_session(self, session: int) -> None:
        """Remove the ephemeral znodes of a session."""
        for path in [path for path, stored in self.znodes.items() if stored.znode.session == session]:
            self.perform(RemoveZnode(path), 0)

    def _change(
        self,
        request: CreateZnode | WriteZnode | RemoveZnode | CheckZnode,
        session: int,
        before: dict[str, StoredZnode | None],
    ) -> str | None:
        if isinstance(request, CreateZnode):
            return self._create(request, session, before)
        stored = stored_at(self.znodes, request.path)
        if request.version not in {ANY_VERSION, stored.znode.version}:
            raise ZnodeVersionError(request.path)
        if isinstance(request, WriteZnode):
            before.setdefault(request.path, stored)
            znode = Znode(request.data, stored.znode.version + 1, self.transaction, stored.znode.session)
            self._put(request.path, replace(stored, znode=znode))
        elif isinstance(request, RemoveZnode):
            if stored.children:
                raise ZnodeNotEmptyError(request.path)
            before.setdefault(request.path, stored)
            self._put(request.path, None)
            self._change_children(request.path, before, is_new=False)
        return None

    def _create(self, request: CreateZnode, session: int, before: dict[str, StoredZnode | None]) -> str:
        above = stored_at(self.znodes, request.path.rpartition("/")[0])
        path = f"{request.path}{above.created_children:010}" if request.is_sequential else request.path
        if path in self.znodes:
            raise ZnodeExistsError(path)
        before.setdefault(path, None)
        znode = Znode(request.data, 0, self.transaction, session if request.is_ephemeral else 0)
        self._put(path, StoredZnode(znode))
        self._change_children(path, before, is_new=True)
        return path

    def _change_children(self, path: str, before: dict[str, StoredZnode | None], *, is_new: bool) -> None:
        above, _, name = path.rpartition("/")
        stored = self.znodes[above]
        before.setdefault(above, stored)
        children = stored.children | {name} if is_new else stored.children - {name}
        self._put(above, StoredZnode(stored.znode, children, stored.created_children + is_new))

    def _put(self, path: str, stored: StoredZnode | None) -> None:
        if stored is None:
            self.znodes.pop(path, None)
        else:
            self.znodes[path] = stored


def stored_at(znodes: Snapshot, path: str) -> StoredZnode:
    """What stands at a path; raises a NoZnodeError if nothing does."""
    stored = znodes.get(path)
    if stored is None:
        raise NoZnodeError(path)
    return stored
