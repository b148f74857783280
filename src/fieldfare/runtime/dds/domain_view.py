"""What is in a DDS domain: other bridges, and the endpoints of applications with their types, by the built-in topics.

It belongs to the thread of its participant. Types are asked for by their ids as XTypes has it, from whoever knows them.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from cyclonedds.builtin import (
    BuiltinDataReader,
    BuiltinTopicDcpsParticipant,
    BuiltinTopicDcpsPublication,
    BuiltinTopicDcpsSubscription,
)
from cyclonedds.core import DDSException, InstanceState, ReadCondition, SampleState, ViewState
from cyclonedds.domain import DomainParticipant
from cyclonedds.dynamic import get_types_for_typeid
from cyclonedds.qos import Policy
from cyclonedds.util import duration

from fieldfare.runtime.dds.discovery import BridgeGone, BridgeSeen, Discovered, Endpoint, EndpointGone
from fieldfare.runtime.dds.names import Mark
from fieldfare.runtime.dds.options import DdsOptions
from fieldfare.runtime.dds.policies import policies_of, unsupported
from fieldfare.runtime.dds.values import Translator, UntranslatableError

ANY = SampleState.Any | ViewState.Any | InstanceState.Any
QOS_LOCK = threading.RLock()  # Cyclone DDS for Python converts QoS in memory that all threads of a process share
_TAKE_MAX = 256
_TYPE_SECONDS, _TYPE_ATTEMPTS = 0.5, 6
_GONE_WRITERS_MAX = 10_000  # samples may be taken after their writer is gone


@dataclass(slots=True, eq=False)
class _Unresolved:
    """A discovered endpoint whose type is not known yet."""

    endpoint: Endpoint
    type_id: Any
    attempts: int = 0
    try_at: float = 0.0


class DomainView:
    """What a participant has discovered. `look` is to be called when one of the conditions is true."""

    def __init__(self, participant: DomainParticipant, options: DdsOptions) -> None:
        self.writers: dict[int, Endpoint] = {}  # by their handle, by which samples name them
        self.translators: dict[bytes, Translator] = {}  # of types
        self._participant, self._options = participant, options
        self._guid = participant.guid.hex
        self._builtin = [
            BuiltinDataReader(participant, topic)
            for topic in (BuiltinTopicDcpsPublication, BuiltinTopicDcpsSubscription, BuiltinTopicDcpsParticipant)
        ]
        self.conditions = [ReadCondition(reader, ANY) for reader in self._builtin]
        self._marks: dict[str, Mark] = {}  # of participants that are bridges
        self._gone: deque[int] = deque()  # the handles of writers that are no longer there
        self._unresolved: dict[str, _Unresolved] = {}
        self._bad_types: dict[bytes, str] = {}  # why there is no translator

    def look(self) -> list[Discovered]:
        """What is new. Endpoints first: their participants are there before them, and are needed to judge them."""
        with QOS_LOCK:
            publications, subscriptions, participants = (_take_all(reader) for reader in self._builtin)
        found: list[Discovered] = [change for each in participants if (change := self._bridge(each)) is not None]
        for samples, is_writer in ((publications, True), (subscriptions, False)):
            found += [change for each in samples if (change := self._endpoint(each, is_writer)) is not None]
        return found + self._resolve_again()

    def _bridge(self, sample: Any) -> Discovered | None:
        participant = sample.key.hex
        if participant == self._guid:
            return None
        if sample.sample_info.instance_state != InstanceState.Alive:
            return BridgeGone(participant) if self._marks.pop(participant, None) is not None else None
        user_data = sample.qos[Policy.Userdata]
        mark = None if user_data is None else Mark.decode(user_data.data)
        if mark is None or self._marks.get(participant) == mark:
            return None
        self._marks[participant] = mark
        return BridgeSeen(participant, mark)

    def _endpoint(self, sample: Any, is_writer: bool) -> Discovered | None:  # noqa: FBT001 - of a private method
        guid = sample.key.hex
        if sample.sample_info.instance_state != InstanceState.Alive:
            self._unresolved.pop(guid, None)
            if is_writer:
                self._forget(sample.sample_info.instance_handle)
            return EndpointGone(guid)
        participant = sample.participant_key.hex
        if participant == self._guid or not self._options.is_bridged(sample.topic_name):
            return None
        endpoint = Endpoint(
            guid,
            participant,
            sample.topic_name,
            b"" if sample.type_id is None else sample.type_id.serialize(use_version_2=True),
            sample.qos,
            policies_of(sample.qos),
            is_writer,
            is_bridge=participant in self._marks,
            problem=unsupported(sample.qos),
        )
        if is_writer:
            self.writers[sample.sample_info.instance_handle] = endpoint
        if endpoint.problem is not None:
            return endpoint
        if sample.type_id is None:
            return endpoint._replace(problem="its type is not told by discovery (XTypes)")
        return self._resolve(_Unresolved(endpoint, sample.type_id))

    def _forget(self, handle: int) -> None:
        """A writer is gone: forget it when many others are, too."""
        self._gone.append(handle)
        if len(self._gone) > _GONE_WRITERS_MAX:
            self.writers.pop(self._gone.popleft(), None)

    # Types

    def _resolve_again(self) -> list[Discovered]:
        now = time.monotonic()
        due = [each for each in self._unresolved.values() if each.try_at <= now]
        return [endpoint for each in due if (endpoint := self._resolve(each)) is not None]

    def _resolve(self, unresolved: _Unresolved) -> Endpoint | None:
        """The endpoint, with its problem if its type has one; None if its type has to be asked for again."""
        endpoint = unresolved.endpoint
        if endpoint.type_key not in self.translators and endpoint.type_key not in self._bad_types:
            try:
                self._learn(endpoint.type_key, unresolved.type_id)
            except DDSException as error:
                unresolved.attempts += 1
                if unresolved.attempts < _TYPE_ATTEMPTS:
                    unresolved.try_at = time.monotonic() + unresolved.attempts * _TYPE_SECONDS
                    self._unresolved[endpoint.guid] = unresolved
                    return None
                endpoint = endpoint._replace(problem=f"its type cannot be had: {error}")
        self._unresolved.pop(endpoint.guid, None)
        problem = endpoint.problem or self._bad_types.get(endpoint.type_key)
        return endpoint._replace(problem=problem)

    def _learn(self, type_key: bytes, type_id: Any) -> None:
        """Ask for a type by its id."""
        try:
            data_type, _ = get_types_for_typeid(self._participant, type_id, duration(seconds=_TYPE_SECONDS))
            self.translators[type_key] = Translator(data_type)
        except DDSException:
            raise
        except UntranslatableError as error:
            self._bad_types[type_key] = str(error)
        except Exception as error:  # noqa: BLE001 - a type that the library does not know may break it anywhere
            self._bad_types[type_key] = f"its type is not supported: {error!r}"


def _take_all(reader: BuiltinDataReader) -> list[Any]:
    found: list[Any] = []
    while samples := reader.take(_TAKE_MAX):
        found += samples
    return found
