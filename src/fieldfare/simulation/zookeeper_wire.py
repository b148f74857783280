"""What a simulated host and the simulated ZooKeeper send to each other."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from fieldfare.coordination.zookeeper import znodes
from fieldfare.coordination.zookeeper.znodes import Answer, AnyRequest, Znode, ZnodeError


class _Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class OpenSession(_Message, frozen=True):
    """Begin a session, or go on with an earlier one."""

    session: int  # 0: a new one


class Asked(_Message, frozen=True):
    """A request."""

    number: int
    request: AnyRequest


class KeepAlive(_Message, frozen=True):
    """The session is in use. The answer is the same."""


class SessionOpened(_Message, frozen=True):
    """A session has begun, or goes on; 0: it has expired."""

    session: int


class Answered(_Message, frozen=True):
    """The answer to a request: one of these, or none."""

    number: int
    znode: Znode | None = None
    children: tuple[str, ...] | None = None
    path: str | None = None
    error: str | None = None  # the name of a ZnodeError

    @property
    def answer(self) -> Answer:
        """What the request is answered by."""
        if self.error is not None:
            error: ZnodeError = getattr(znodes, self.error)(self.path or "")
            return error
        return self.znode if self.znode is not None else self.children if self.children is not None else self.path


class Changed(_Message, frozen=True):
    """A watch was triggered."""

    path: str


ToService: TypeAlias = OpenSession | Asked | KeepAlive
ToHost: TypeAlias = SessionOpened | Answered | Changed | KeepAlive
encode = msgspec.msgpack.encode
decode_to_service = msgspec.msgpack.Decoder(ToService).decode
decode_to_host = msgspec.msgpack.Decoder(ToHost).decode
