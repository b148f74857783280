"""The edge as carriers use it: a client that also publishes what a publisher has read in another log."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

from fieldfare.client.aio import Client
from fieldfare.messages import Publish


class CarrierClient(Client):
    """A client of the edge in the same process. Nothing that it sends is sent twice by itself."""

    async def publish_range(
        self, topic: str, events: Sequence[bytes], ids: Sequence[str], publisher: str, sequence: int, upto: int
    ) -> None:
        """Publish what a publisher has read in another log, from one number up to another."""
        raw = [Raw(event) for event in events]
        await self._runner.request(Publish(0, topic, raw, publisher, sequence, list(ids) or None, upto=upto))

    async def publish_once(self, topic: str, event: bytes, event_id: str, publisher: str, payload: bytes) -> None:
        """Publish one event that may have been published before, with the same id."""
        await self._runner.request(Publish(0, topic, [Raw(event)], publisher, ids=[event_id], payloads=[payload]))
