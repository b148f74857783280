"""From the edge to Kafka: the events of a topic that satisfy a condition, each once, in the order of the edge's log.

The events come by a durable subscription, which is acknowledged only when Kafka has them. What is delivered again after
a crash is known by its position: the marker in Kafka says up to which one all was sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import msgspec

from fieldfare.client.inbox import Inbox
from fieldfare.errors import RefusedError
from fieldfare.messages import Delivery, Notice, Subscribe
from fieldfare.qos import Consuming, Requested
from fieldfare.runtime.kafka.client import CarrierClient
from fieldfare.runtime.kafka.options import EdgeView, OutflowOptions
from fieldfare.runtime.kafka.sender import Outgoing, Sender
from fieldfare.runtime.kafka.status import LinkStatus

_TOO_LARGE = "it is larger than the messages of the Kafka topic may be"
_WINDOW = 4_096
_BATCH_MAX, _BATCH_BYTES = 2_000, 4 << 20
_CONSUMING = Consuming(attempts_max=1)  # what Kafka does not take is a dead letter
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Outflow:
    """One topic of the edge on its way to Kafka."""

    def __init__(self, options: OutflowOptions, client: CarrierClient, edge: EdgeView) -> None:
        self.status = LinkStatus(options.tenant, options.topic, "out", str(options.target))
        self._options, self._client = options, client
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fieldfare-kafka-out")
        self._sender = Sender(options.target, options.transactional_id, edge)

    async def run(self) -> None:
        """Carry until it is cancelled, or an error says that it has to begin again."""
        await self._in_thread(self._sender.open)
        inbox = await self._subscribe()
        try:
            self.status.runs()
            while True:
                batch = await _next_batch(inbox)
                refused = await self._send(inbox, batch)
                for each in batch:  # one by one: so its window grows with what it takes
                    if each.position not in refused:
                        inbox.runner.acknowledge(inbox, each.position)
                self.status.runs()
        finally:
            inbox.detach()
            inbox.clear()

    def close(self) -> None:
        """Let go of the thread."""
        self._thread.submit(self._sender.close)
        self._thread.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _subscribe(self) -> Inbox:
        options = self._options
        qos = Requested(durability="transient" if options.begins_with_alive else "volatile")
        try:
            found = await self._client.subscription(options.subscription, topic=options.topic)
        except RefusedError:
            pass  # there is none yet
        else:
            if found["condition"] != options.condition:
                await self._client.change(options.subscription, condition=options.condition, topic=options.topic)
            qos = msgspec.convert(found["qos"], Requested)  # where it began does not matter any more
        request = Subscribe(
            0, options.topic, options.condition, qos, name=options.subscription, window=_WINDOW, consuming=_CONSUMING
        )
        inbox = self._client.receive(request, self._noticed, is_manual=True)
        await inbox.settled.wait()
        if inbox.error is not None:
            raise inbox.error
        return inbox

    def _noticed(self, notice: Notice) -> None:
        if notice.kind == "gap":
            self.status.lost += 1
            _log.warning("Kafka: %s: events were lost before they were sent: %s", self.status, notice.detail)

    async def _send(self, inbox: Inbox, batch: list[Delivery]) -> list[int]:
        """Send what was not sent before. What is too large for Kafka is refused: a dead letter of the subscription."""
        sender = self._sender
        unsent = [each for each in batch if sender.is_unsent(each.position)]
        if not unsent:
            return []
        too_large: list[int] = []
        while True:  # the marker tells of those that are refused, also where nothing else is sent
            messages = [_message(each, self._options.key) for each in unsent if each.position not in too_large]
            found = await self._in_thread(partial(sender.send, messages, batch[-1].position, too_large))
            if not found:
                break
            too_large += found
        self.status.events += len(messages)
        for each in [each for each in batch if each.position in too_large]:
            inbox.refuse(each, _TOO_LARGE, None)
            self.status.quarantined += 1
        return too_large


async def _next_batch(inbox: Inbox) -> list[Delivery]:
    """What has come, and at least one event."""
    while not inbox.events:
        if inbox.is_ended:
            raise inbox.error or RefusedError("unknown", "the subscription has ended")
        inbox.arrived.clear()
        await inbox.arrived.wait()
    batch: list[Delivery] = []
    size_bytes = 0
    while inbox.events and len(batch) < _BATCH_MAX and size_bytes < _BATCH_BYTES:
        batch.append(inbox.take())
        size_bytes += len(bytes(batch[-1].event))
    return batch


def _message(delivery: Delivery, key: str | None) -> Outgoing:
    """An event as a message: its JSON, and beside it, in headers, what else it has."""
    value = bytes(delivery.event)
    headers = [("fieldfare-id", delivery.id.encode())]
    if delivery.publisher is not None:
        headers.append(("fieldfare-publisher", delivery.publisher.encode()))
    if delivery.trace is not None:
        headers.append(("traceparent", delivery.trace.encode()))
    if delivery.payload is not None:
        headers.append(("fieldfare-payload", delivery.payload))
    for name, attribute in (delivery.envelope or {}).items():
        headers.append((f"ce_{name}", attribute.encode() if isinstance(attribute, str) else _encode(attribute)))
    return Outgoing(delivery.position, value, None if key is None else _key(_decode(value), key), headers)


def _key(event: Any, name: str) -> bytes | None:
    """The value of an attribute: a text as it is, of others their JSON; None if there is none."""
    value = event.get(name)
    if value is None and "." in name:
        outer, _, inner = name.partition(".")
        return _key(event[outer], inner) if isinstance(event.get(outer), dict) else None
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else _encode(value)
