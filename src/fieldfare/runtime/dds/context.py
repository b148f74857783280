"""What all topics of a bridge share: its connection to the edge, its participant, its duty, and what it has counted."""

from __future__ import annotations

import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec import Raw

from fieldfare.client.aio import Client
from fieldfare.messages import Accepted, Publish
from fieldfare.qos import Published
from fieldfare.runtime.dds.carrying import Duty
from fieldfare.runtime.dds.options import DdsOptions
from fieldfare.runtime.dds.participant import Participant

_WRITING_THREADS = 8  # topics whose DDS readers are slow may keep as many waiting without holding up the others
_LOCAL_WRITERS_MAX = 100_000
_LOGGED_MAX = 1000
_PUBLISHER = "dds"  # of all bridges: an edge knows a repeated event by its publisher and its id
_log = logging.getLogger(__name__)


class BridgeClient(Client):
    """A client that also publishes without numbers: by its ids alone an event is known, whichever bridge sends it."""

    async def publish_once(self, topic: str, events: Sequence[bytes], ids: Sequence[str], qos: Published) -> Accepted:
        """Publish events that another bridge, or an earlier life of this one, may have published already."""
        frame = Publish(0, topic, [Raw(event) for event in events], _PUBLISHER, ids=list(ids), qos=qos)
        answer: Accepted = await self._runner.request(frame)
        return answer


class BridgeContext:
    """The parts of a bridge that its topics use."""

    def __init__(self, options: DdsOptions, client: BridgeClient, participant: Participant) -> None:
        self.options, self.client, self.participant = options, client, participant
        self.duty = Duty.LISTENING
        self.counts: Counter[str] = Counter()
        self.pool = ThreadPoolExecutor(_WRITING_THREADS, thread_name_prefix="dds-write")
        self._local_writers: OrderedDict[str, None] = OrderedDict()  # of this domain, also those that are gone
        self._logged: set[tuple[str, str]] = set()

    @property
    def is_carrying(self) -> bool:
        """Whether this bridge does the work of its domain."""
        return self.duty is Duty.CARRYING

    @staticmethod
    def now() -> float:
        """Seconds by a clock that is never set."""
        return time.monotonic()

    def add_local_writer(self, guid: str) -> None:
        """A writer of this domain: its samples, when they come from the edge, are not written to it again."""
        self._local_writers[guid] = None
        if len(self._local_writers) > _LOCAL_WRITERS_MAX:
            self._local_writers.popitem(last=False)

    def is_local(self, guid: str) -> bool:
        """Whether a writer is, or was, in this domain."""
        return guid in self._local_writers

    def refuse(self, what: str, topic: str, reason: str) -> None:
        """Something is not bridged: count it, and say so once for each topic and reason."""
        self.counts[f"refused_{what}"] += 1
        if (topic, reason) not in self._logged and len(self._logged) < _LOGGED_MAX:
            self._logged.add((topic, reason))
            _log.warning("DDS topic %s: %s", topic, reason)
