from __future__ import annotations

from typing import Any

import pytest
from cyclonedds.qos import Policy, Qos
from cyclonedds.util import duration
from hypothesis import given
from hypothesis import strategies as st

from fieldfare.qos import LIFESPAN_SECONDS, Offered, Published, broken, unmet
from fieldfare.runtime.dds.policies import (
    WriterPolicies,
    policies_of,
    stronger_offer,
    strongest,
    unmet_by,
    unsupported,
    writer_qos,
)

_NEVER = 2**63 - 1
_NOTHING = Qos()
_RELIABILITY, _DURABILITY = st.sampled_from(["best_effort", "reliable"]), st.sampled_from(["volatile", "transient"])
_SECONDS = st.none() | st.integers(1, 10**6).map(lambda milliseconds: milliseconds / 1000)
_DEPTH = st.none() | st.integers(1, 100)
_POLICIES = st.builds(WriterPolicies, _RELIABILITY, _DURABILITY, _SECONDS, _SECONDS, _DEPTH, _DEPTH)


@given(_POLICIES)
def test_what_a_far_writer_offers_is_what_the_first_one_does(policies: WriterPolicies) -> None:
    assert policies_of(writer_qos(policies, _NOTHING)) == policies


@given(_POLICIES)
def test_a_topic_serves_what_its_writer_offers(policies: WriterPolicies) -> None:
    offered = policies.offered
    assert (offered.reliability, offered.durability) == (policies.reliability, policies.durability)
    assert offered.lifespan_seconds == (policies.lifespan_seconds or LIFESPAN_SECONDS)
    assert unmet(offered, policies.requested(None)) is None
    assert broken(offered, policies.published(offered)) is None


@given(st.lists(_POLICIES, min_size=1, max_size=4), _POLICIES)
def test_several_writers_serve_every_reader_that_one_of_them_serves(
    several: list[WriterPolicies], wanted: WriterPolicies
) -> None:
    reader = writer_qos(wanted, _NOTHING)
    if any(unmet_by(each, reader) is None for each in several):
        assert unmet_by(strongest(several), reader) is None
    offer = several[0].offered
    for each in several:
        offer = stronger_offer(offer, each.offered)
    assert offer == strongest(several).offered
    for each in several:  # each can publish to a topic that offers this
        assert broken(offer, each.published(offer)) is None


def test_a_publication_says_only_what_differs_from_its_topic() -> None:
    offered = Offered(lifespan_seconds=60.0)
    assert WriterPolicies(lifespan_seconds=60.0).published(offered) == Published()
    assert WriterPolicies(lifespan_seconds=5.0).published(offered) == Published(lifespan_seconds=5.0)
    assert WriterPolicies().published(offered) == Published()


def test_what_the_edge_cannot_count_is_rounded_to_what_is_true() -> None:
    offered = WriterPolicies(deadline_seconds=0.01, lifespan_seconds=0.0).offered
    assert offered.deadline_seconds == 0.1
    assert offered.lifespan_seconds == 0.001


@pytest.mark.parametrize(
    ("offered", "policy", "reason"),
    [
        (WriterPolicies("best_effort"), Policy.Reliability.Reliable(0), "reliable samples"),
        (WriterPolicies(durability="volatile"), Policy.Durability.TransientLocal, "earlier samples"),
        (WriterPolicies(), Policy.Durability.Persistent, "a durability service"),
        (WriterPolicies(), Policy.Deadline(duration(seconds=1)), "every 1 s, but no deadline is offered"),
        (WriterPolicies(deadline_seconds=2), Policy.Deadline(duration(seconds=1)), "every 1 s, but one every 2 s"),
        (WriterPolicies(), Policy.Liveliness.Automatic(duration(seconds=1)), "a liveliness"),
        (WriterPolicies(), Policy.Liveliness.ManualByTopic(_NEVER), "a liveliness"),
        (WriterPolicies(), Policy.PresentationAccessScope.Topic(False, True), "coherent or ordered access"),
    ],
)
def test_a_reader_that_requests_more_is_told_why(offered: WriterPolicies, policy: Any, reason: str) -> None:
    weakest = [Policy.Reliability.BestEffort, Policy.Durability.Volatile, Policy.Liveliness.Automatic(_NEVER)]
    reader = Qos(policy, *(each for each in weakest if each.__scope__ != policy.__scope__))
    assert reason in (unmet_by(offered, reader) or "")
    assert unmet_by(offered, Qos(*weakest)) is None


def test_some_policies_cannot_be_bridged() -> None:
    assert unsupported(Qos(Policy.Partition(["a", "b"]))) == "it is in a partition (a, b)"
    assert unsupported(Qos(Policy.Ownership.Exclusive)) == "it has exclusive ownership"
    assert unsupported(Qos(Policy.Ownership.Shared)) is None
