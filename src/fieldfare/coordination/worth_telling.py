"""Which changes are passed on: those that somebody decides by.

Loads and counts are passed on only if they change by more than 10%, as BlueDove's matchers push theirs (IV-C).
"""

from __future__ import annotations

import msgspec

from fieldfare.coordination.gossip_messages import EndpointCount
from fieldfare.messages import Member

_SHARE = 0.1
_LOAD_MIN = 0.02  # of a broker's time: less is noise


def is_member_worth_telling(said: Member, member: Member) -> bool:
    """Whether others should know that a broker has changed so."""
    if msgspec.structs.replace(member, load=said.load, topic_count=said.topic_count, behind=said.behind) != said:
        return True
    is_load_other = abs(member.load - said.load) > max(_LOAD_MIN, _SHARE * said.load)
    are_counts_other = _is_count_other(said.topic_count, member.topic_count) or _is_count_other(
        said.behind, member.behind
    )
    return is_load_other or are_counts_other


def is_count_worth_telling(said: EndpointCount, count: EndpointCount) -> bool:
    """Whether others should know that the endpoints of a topic have changed so."""
    return (
        said.is_owed != count.is_owed
        or _is_count_other(said.publishers, count.publishers)
        or _is_count_other(said.subscribers, count.subscribers)
    )


def _is_count_other(said: int, count: int) -> bool:
    return bool(said) != bool(count) or abs(count - said) > _SHARE * said
