"""Whoever was let in by a token that is revoked, or expires, is parted from."""

from __future__ import annotations

import asyncio

from fieldfare.messages import Identity, LinkIdentity
from fieldfare.runtime.host import Capability, Host
from fieldfare.runtime.tasks import Tasks
from fieldfare.runtime.tokens import Authenticator

_LOOK_SECONDS = 1.0
_REASON = "the token was revoked, or has expired"


class Revoking(Capability):
    """Looks at the tokens every second; performs no effects."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self._tasks = Tasks()

    def install(self, host: Host) -> None:
        """Know whose links to close."""
        self._host = host

    async def start(self) -> None:
        """Begin to look."""
        self._authenticator.has_changed()  # from what there is now
        self._tasks.start(self._look())

    async def stop(self) -> None:
        """Look no more."""
        await self._tasks.cancel()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if self._authenticator.has_changed():
                self._host.part_from(_REASON, self._may_stay)

    def _may_stay(self, identity: LinkIdentity) -> bool:
        return not isinstance(identity, Identity) or self._authenticator.is_valid(identity)
