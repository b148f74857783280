"""All carriers of a service. One that fails begins again if the cause may pass, or else stops and says why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from fieldfare.client.transport import Transport
from fieldfare.errors import FencedError, InputError, KafkaTopicError, NotConnectedError, RefusedError
from fieldfare.runtime.kafka.client import CarrierClient
from fieldfare.runtime.kafka.inflow import Inflow
from fieldfare.runtime.kafka.options import EdgeView, InflowOptions, OutflowOptions
from fieldfare.runtime.kafka.outflow import Outflow
from fieldfare.runtime.kafka.status import CarrierState, LinkStatus

_RETRY_SECONDS = 1.0


class KafkaBridge:
    """Between an edge in this process and topics of Kafka."""

    def __init__(
        self,
        links: Sequence[InflowOptions | OutflowOptions],
        transport_of: Callable[[str], Transport],
        edge: EdgeView,
    ) -> None:
        """`transport_of` reaches the edge on behalf of a tenant."""
        self._clients = {tenant: CarrierClient(transport_of(tenant)) for tenant in {link.tenant for link in links}}
        self._carriers: list[Inflow | Outflow] = [
            Inflow(link, self._clients[link.tenant], edge)
            if isinstance(link, InflowOptions)
            else Outflow(link, self._clients[link.tenant], edge)
            for link in links
        ]
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Connect with the edge, and begin. Kafka may be away."""
        for client in self._clients.values():
            await client.__aenter__()
        for carrier in self._carriers:
            task = asyncio.create_task(_carry(carrier))
            task.add_done_callback(partial(_ended, carrier))
            self._tasks.append(task)

    async def close(self) -> None:
        """End. What was on its way goes on at the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for carrier in self._carriers:
            carrier.close()
        for client in self._clients.values():
            await client.__aexit__(None, None, None)

    @property
    def failure(self) -> str | None:
        """Why a carrier has stopped; None if all run or will begin again."""
        stopped = [status for status in self.statuses() if status.state is CarrierState.STOPPED]
        return f"Kafka: {stopped[0]} has stopped: {stopped[0].reason}" if stopped else None

    def statuses(self, tenant: str | None = None) -> list[LinkStatus]:
        """How all carriers are, or those of a tenant."""
        return [each.status for each in self._carriers if tenant in (None, each.status.tenant)]


def _ended(carrier: Inflow | Outflow, task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        carrier.status.stops(f"it failed: {error!r}")


async def _carry(carrier: Inflow | Outflow) -> None:
    while True:
        try:
            await carrier.run()
        except (FencedError, InputError) as error:  # somebody has to do something
            carrier.status.stops(str(error))
            return
        except (KafkaTopicError, RefusedError) as error:
            carrier.status.waits(str(error))
        except NotConnectedError:
            return  # the service ends
        await asyncio.sleep(_RETRY_SECONDS)
