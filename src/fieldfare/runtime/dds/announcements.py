"""What bridges tell each other through the edge: which writers their domains have, and what these offer.

Whoever publishes to a bridged topic without DDS can announce itself likewise: `{"topic": "commands"}` will do.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator

import msgspec

from fieldfare.runtime.dds.discovery import Endpoint
from fieldfare.runtime.dds.policies import WriterPolicies

_ANNOUNCEMENTS_MAX = 1000  # of a topic, of which the oldest is forgotten


class Announcement(WriterPolicies, frozen=True, kw_only=True):
    """There is a writer of a DDS topic somewhere."""

    topic: str
    writer: str = ""  # its guid
    bridge: str = ""  # who announces it

    @property
    def policies(self) -> WriterPolicies:
        """What the writer offers."""
        return WriterPolicies(**{name: getattr(self, name) for name in WriterPolicies.__struct_fields__})


def announcement(writer: Endpoint, bridge: str) -> Announcement:
    """Of a writer in a bridge's own domain."""
    return Announcement(
        topic=writer.topic, writer=writer.guid, bridge=bridge, **msgspec.structs.asdict(writer.policies)
    )


class Announcements:
    """Those that were heard, and are not too old."""

    def __init__(self, heard_seconds: float) -> None:
        self._heard_seconds = heard_seconds
        self._topics: dict[str, OrderedDict[str, tuple[float, Announcement]]] = defaultdict(OrderedDict)  # by writer

    def hear(self, heard: Announcement, now: float) -> None:
        """An announcement came."""
        writers = self._topics[heard.topic]
        writers[heard.writer] = now, heard
        writers.move_to_end(heard.writer)
        if len(writers) > _ANNOUNCEMENTS_MAX:
            writers.popitem(last=False)

    def forget_old(self, now: float) -> set[str]:
        """Forget those that were not repeated in time; returns their topics."""
        changed = set()
        for topic, writers in list(self._topics.items()):
            while writers and next(iter(writers.values()))[0] + self._heard_seconds < now:
                writers.popitem(last=False)
                changed.add(topic)
            if not writers:
                del self._topics[topic]
        return changed

    def of(self, topic: str, is_wanted: Callable[[Announcement], bool]) -> Iterator[WriterPolicies]:
        """What the writers of a topic offer, of those that are wanted."""
        found = self._topics[topic].values() if topic in self._topics else ()
        return (heard.policies for _, heard in found if is_wanted(heard))
