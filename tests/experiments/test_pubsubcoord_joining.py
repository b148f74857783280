"""Endpoints that join at a real ZooKeeper: what the paper's znodes and ours grow with."""

from __future__ import annotations

from fieldfare.experiments.pubsubcoord.joining import Joined, join
from fieldfare.experiments.pubsubcoord.settings import JoiningScale

SCALE = JoiningScale(endpoints=(24, 48), edges=4, topics=12)
TOPICS_PER_EDGE = 3  # so edges share no topic


def joined(*, is_ours: bool) -> list[Joined]:
    return [join(SCALE, endpoints, TOPICS_PER_EDGE, is_ours=is_ours) for endpoints in SCALE.endpoints]


def test_the_papers_znodes_and_watches_grow_with_the_endpoints() -> None:
    few, many = joined(is_ours=False)
    assert many.znodes - few.znodes == 24
    assert many.watches - few.watches == 24, "a routing broker watches each"
    assert few.requests >= 24


def test_ours_grow_with_the_topics_of_edges_only() -> None:
    few, many = joined(is_ours=True)
    assert many.znodes == few.znodes
    assert many.watches == few.watches
