"""QoS across the bridge: what a DDS writer offers, as its topic's offer at the edge, and as the far writer's QoS.

Every DDS writer is described by `WriterPolicies`, which bridges tell each other. A writer that a bridge makes in its
own domain offers what the writers elsewhere offer, so that DDS itself decides which readers it serves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from cyclonedds.qos import Policy, Qos

from fieldfare.qos import LIFESPAN_SECONDS, Durability, Offered, Published, Reliability, Requested

_NEVER = 2**63 - 1  # DDS's infinity, in nanoseconds
_LIFESPAN_SECONDS_MIN, _LIFESPAN_SECONDS_MAX = 0.001, 10 * 366 * 86_400.0
_DEADLINE_SECONDS_MIN = 0.1
_DEPTH_MAX = 10_000
_BLOCKING_SECONDS = 1.0


class WriterPolicies(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a DDS writer offers. None stands for DDS's infinity, and for a history that keeps all."""

    reliability: Reliability = "reliable"
    durability: Durability = "transient"
    lifespan_seconds: float | None = None
    deadline_seconds: float | None = None
    depth: int | None = 1  # how many samples of an instance are kept,
    late_depth: int | None = 1  # and how many a reader gets that comes later, where they are transient

    @property
    def offered(self) -> Offered:
        """What its topic at the edge offers: a deadline is longer than 0.1 s there, and a lifespan has an end."""
        deadline = self.deadline_seconds
        return Offered(
            reliability=self.reliability,
            durability=self.durability,
            lifespan_seconds=_bounded(self.lifespan_seconds),
            deadline_seconds=None if deadline is None else max(deadline, _DEADLINE_SECONDS_MIN),
        )

    def published(self, offered: Offered) -> Published:
        """What its publications say of themselves, in a topic that may offer more."""
        lifespan = _bounded(self.lifespan_seconds)
        return Published(lifespan_seconds=lifespan if lifespan < offered.lifespan_seconds else None)

    def requested(self, depth: int | None) -> Requested:
        """What the bridge requests of the edge for local readers that keep so many samples."""
        return Requested(
            reliability=self.reliability,
            durability=self.durability,
            keep_last=None if depth is None else min(depth, _DEPTH_MAX),
        )


def _bounded(lifespan_seconds: float | None) -> float:
    if lifespan_seconds is None:
        return LIFESPAN_SECONDS
    return min(max(lifespan_seconds, _LIFESPAN_SECONDS_MIN), _LIFESPAN_SECONDS_MAX)


def strongest(all_policies: Iterable[WriterPolicies]) -> WriterPolicies:
    """One offer for several writers, such that no reader is refused that one of them would serve."""
    several = list(all_policies)
    return WriterPolicies(
        reliability="reliable" if any(each.reliability == "reliable" for each in several) else "best_effort",
        durability="transient" if any(each.durability == "transient" for each in several) else "volatile",
        lifespan_seconds=_most([each.lifespan_seconds for each in several]),
        deadline_seconds=min((each.deadline_seconds for each in several if each.deadline_seconds), default=None),
        depth=_most([each.depth for each in several]),
        late_depth=_most([each.late_depth for each in several]),
    )


def stronger_offer(has: Offered, more: Offered) -> Offered:
    """What a topic offers when the promises of another offer are added to its own."""
    deadlines = [each for each in (has.deadline_seconds, more.deadline_seconds) if each is not None]
    return msgspec.structs.replace(
        has,
        reliability="reliable" if "reliable" in (has.reliability, more.reliability) else "best_effort",
        durability="transient" if "transient" in (has.durability, more.durability) else "volatile",
        lifespan_seconds=max(has.lifespan_seconds, more.lifespan_seconds),
        deadline_seconds=min(deadlines, default=None),
    )


def _most(limits: Sequence[Any]) -> Any:
    return None if None in limits else max(limits)


# From and to Cyclone DDS


def policies_of(qos: Qos) -> WriterPolicies:
    """What a discovered writer offers."""
    lifespan, deadline, service = qos[Policy.Lifespan], qos[Policy.Deadline], qos[Policy.DurabilityService]
    return WriterPolicies(
        reliability="best_effort" if qos[Policy.Reliability] == Policy.Reliability.BestEffort else "reliable",
        durability="volatile" if qos[Policy.Durability] == Policy.Durability.Volatile else "transient",
        lifespan_seconds=None if lifespan is None else _seconds(lifespan.lifespan),
        deadline_seconds=None if deadline is None else _seconds(deadline.deadline),
        depth=_depth(qos[Policy.History]),
        late_depth=1 if service is None else _depth(service.history),
    )


def _depth(history: Any) -> int | None:
    return history.depth if isinstance(history, Policy.History.KeepLast) else None


def _seconds(nanoseconds: int) -> float | None:
    return None if nanoseconds == _NEVER else nanoseconds / 1e9


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def unmet_by(offered: WriterPolicies, reader: Qos) -> str | None:
    """Why a bridge's writer with these policies does not serve a discovered reader; None if it does."""
    wanted = policies_of(reader)
    if wanted.reliability == "reliable" and offered.reliability == "best_effort":
        return "it requests reliable samples, but they are offered as best effort"
    if wanted.durability == "transient" and offered.durability == "volatile":
        return "it requests earlier samples (transient-local), but they are offered as volatile"
    if reader[Policy.Durability] in (Policy.Durability.Transient, Policy.Durability.Persistent):
        return "it requests a durability service, but a bridge offers transient-local at most"
    wants, has = wanted.deadline_seconds, offered.deadline_seconds
    if wants is not None and (has is None or has > wants):
        promise = "no deadline is offered" if has is None else f"one every {has:g} s is offered"
        return f"it requests a sample every {wants:g} s, but {promise}"
    liveliness, scope = reader[Policy.Liveliness], reader[Policy.PresentationAccessScope]
    if liveliness is not None and liveliness != Policy.Liveliness.Automatic(_NEVER):
        return "it requests a liveliness other than automatic without an end, which a bridge does not offer"
    if scope is not None and (scope.coherent_access or scope.ordered_access):
        return "it requests coherent or ordered access, which a bridge does not offer"
    return None


def unsupported(qos: Qos) -> str | None:
    """Which policy of a discovered endpoint a bridge cannot keep; None if it can keep all that concern both sides."""
    partition = qos[Policy.Partition]
    if partition is not None and any(partition.partitions):
        return f"it is in a partition ({', '.join(partition.partitions)})"
    if qos[Policy.Ownership] == Policy.Ownership.Exclusive:
        return "it has exclusive ownership"
    return None


def reader_qos(policies: WriterPolicies, like: Qos, samples_max: int) -> Qos:
    """Of a bridge's own reader, for writers with these policies: it keeps all, and takes no more than it has room for.

    Where it is full, a reliable writer waits.
    """
    return Qos(
        *_common(policies),
        Policy.History.KeepAll,
        Policy.ResourceLimits(max_samples=samples_max, max_instances=-1, max_samples_per_instance=-1),
        Policy.IgnoreLocal.Participant,
        *_representation(like),
    )


def writer_qos(policies: WriterPolicies, like: Qos) -> Qos:
    """Of a bridge's own writer, which offers these policies. Its end does not dispose what it wrote."""
    timed: list[Any] = []
    if policies.lifespan_seconds is not None:
        timed.append(Policy.Lifespan(_nanoseconds(policies.lifespan_seconds)))
    if policies.deadline_seconds is not None:
        timed.append(Policy.Deadline(_nanoseconds(policies.deadline_seconds)))
    return Qos(
        *_common(policies),
        _history(policies.depth),
        Policy.DurabilityService(0, _history(policies.late_depth), -1, -1, -1),
        Policy.DestinationOrder.BySourceTimestamp,
        Policy.WriterDataLifecycle(autodispose=False),
        Policy.IgnoreLocal.Participant,
        *timed,
        *_representation(like),
    )


def _history(depth: int | None) -> Any:
    return Policy.History.KeepAll if depth is None else Policy.History.KeepLast(depth)


def _common(policies: WriterPolicies) -> list[Any]:
    is_reliable, is_transient = policies.reliability == "reliable", policies.durability == "transient"
    return [
        Policy.Reliability.Reliable(_nanoseconds(_BLOCKING_SECONDS)) if is_reliable else Policy.Reliability.BestEffort,
        Policy.Durability.TransientLocal if is_transient else Policy.Durability.Volatile,
    ]


def _representation(like: Qos) -> list[Any]:
    """The same encodings on the wire as the endpoint on the other side."""
    representation = like[Policy.DataRepresentation]
    return [] if representation is None else [representation]
