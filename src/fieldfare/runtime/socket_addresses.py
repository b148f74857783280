"""Addresses of sockets as people write them: `host:port`, with an IPv6 address in brackets, `[::1]:7381`."""

from __future__ import annotations

import re
from typing import Annotated, NamedTuple, TypeAlias

from msgspec import Meta

_PORT = "6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[0-9]{1,4}"
ADDRESS_PATTERN = rf"^(?:\[([0-9A-Fa-f:.]+(?:%[0-9A-Za-z._-]+)?)\]|([0-9A-Za-z._-]+)):({_PORT})$(?!\n)"
ADDRESS_RULE = "an address is host:port, such as 10.0.0.7:7381, broker.example.org:7381 or [::1]:7381"
_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - to recognise them
_address = re.compile(ADDRESS_PATTERN)

AddressText: TypeAlias = Annotated[str, Meta(pattern=ADDRESS_PATTERN)]


class SocketAddress(NamedTuple):
    """A host, by name or number, and a port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> SocketAddress:
        """The address that a text names; a ValueError that says what an address looks like."""
        found = _address.search(text)
        if found is None:
            raise ValueError(f"{text!r}: {ADDRESS_RULE}")
        return cls(found[1] or found[2], int(found[3]))

    @property
    def is_wildcard(self) -> bool:
        """Whether it stands for all addresses of a machine: one can listen there, and nobody can dial it."""
        return self.host in _WILDCARDS

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
