"""Two DDS networks meet through a service: real participants, in namespaces where they can be made."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from typing import Any

import pytest
from tests.dds.conftest import Laboratory
from tests.dds.dds_types import SAMPLES, Count
from tests.dds.networks import BridgeProcess, DdsApplication, domains


def _shown(samples: list[Any]) -> list[str]:
    return [text for text, _, _ in samples]


@pytest.mark.parametrize("type", SAMPLES)
def test_samples_of_every_type_arrive_intact(applications: list[DdsApplication], type: str) -> None:  # noqa: A002
    here, there = applications
    for application, kind in ((here, "reader"), (there, "reader"), (here, "writer")):
        application.make(kind, f"{kind} {type}", f"table/{type}", type, transient=True, late_depth=100)
    here.until_matched(f"writer {type}", 2)
    here.ask("write_table", name=f"writer {type}", type=type)
    came = there.taken(f"reader {type}", len(SAMPLES[type]))
    assert _shown(came) == [repr(sample) for sample in SAMPLES[type]]
    assert came == here.taken(f"reader {type}", len(SAMPLES[type]))  # written at the same time, too


def test_attributes_of_samples_can_be_asked_for(applications: list[DdsApplication], laboratory: Laboratory) -> None:
    here, _ = applications
    here.make("writer", "asked", "asked", "Count")
    here.until_matched("asked")
    laboratory.until_declared("dds.asked")  # by the bridge: with tokens, no topic comes by being subscribed to
    with laboratory.client() as client:
        slow = client.subscribe("dds.asked", "text = 'wanted' AND number < 7")
        here.ask("write", name="asked", type="Count", values=[[1, "no"], [9, "wanted"], [5, "wanted"]])
        assert next(iter(slow)).attributes == {"number": 5, "text": "wanted"}


def test_nothing_echoes(applications: list[DdsApplication]) -> None:
    here, there = applications
    for application in applications:
        application.make("reader", "echo in", "echo", "Count")
        application.make("writer", "echo out", "echo", "Count")
    for application in applications:
        application.until_matched("echo out", 2)  # the reader beside it, and the bridge's
        application.until_matched("echo in", 2)
    for number in range(5):  # whatever echoes has time to come before the last
        for application, first in ((here, 0), (there, 100)):
            application.ask("write", name="echo out", type="Count", values=[[first + number, "all"]])
            for each in applications:
                each.numbers("echo in", first + number)
    for application in applications:
        assert sorted(application.ask("numbers", name="echo in")) == [*range(5), *range(100, 105)]


def test_a_writers_qos_is_that_of_its_topic_and_of_the_far_writer(
    applications: list[DdsApplication], laboratory: Laboratory
) -> None:
    here, there = applications
    there.make("reader", "qos in", "qos", "Count", reliable=False)
    policies = {"reliable": True, "transient": True, "depth": 4, "late_depth": 3, "lifespan": 90.0, "deadline": 2.5}
    here.make("writer", "qos out", "qos", "Count", **policies)
    there.until_matched("qos in")
    assert laboratory.offered("dds.qos") == {
        "reliability": "reliable",
        "durability": "transient",
        "lifespan_seconds": 90.0,
        "deadline_seconds": 2.5,
        "order": "publisher",
    }
    assert there.ask("offered", topic="qos") == here.ask("offered", topic="qos")
    assert there.ask("offered", topic="qos") == [
        {
            "reliability": "reliable",
            "durability": "transient",
            "lifespan_seconds": 90.0,
            "deadline_seconds": 2.5,
            "depth": 4,
            "late_depth": 3,
        }
    ]


def test_a_reader_that_requests_more_than_is_offered_is_not_served(
    applications: list[DdsApplication], bridges: list[BridgeProcess]
) -> None:
    here, there = applications
    there.make("reader", "strict", "weak", "Count")
    here.make("writer", "weak", "weak", "Count", reliable=False)
    bridges[1].until_logged("DDS topic weak: a reader is not served: it requests reliable samples")
    there.make("reader", "content", "weak", "Count", reliable=False)
    there.until_matched("content")
    here.until_matched("weak")
    here.ask("write", name="weak", type="Count", values=[[1, ""]])
    assert there.numbers("content", 1) == [1]
    assert there.ask("numbers", name="strict") == []


def test_late_readers_get_transient_samples(applications: list[DdsApplication]) -> None:
    here, there = applications
    here.make("writer", "late out", "late", "Count", transient=True, late_depth=3)
    here.until_matched("late out")
    here.ask("write", name="late out", type="Count", values=[[number, ""] for number in range(5)])
    there.make("reader", "late in", "late", "Count", transient=True)
    assert there.numbers("late in", 4) == [0, 1, 2, 3, 4]  # the edge has kept them all,
    there.make("reader", "later in", "late", "Count", transient=True)
    # The bridge's writer has kept as many as the first one would have, and perhaps some that were not acknowledged yet.
    later = there.numbers("later in", 4)
    assert later == [0, 1, 2, 3, 4][-len(later) :]
    assert len(later) >= 3
    there.make("reader", "now in", "late", "Count")
    there.until_matched("now in")
    here.ask("write", name="late out", type="Count", values=[[5, ""]])
    assert there.numbers("now in", 5) == [5]


def test_disposed_instances_are_disposed_there_too(applications: list[DdsApplication]) -> None:
    here, there = applications
    there.make("reader", "gone in", "gone", "Reading", transient=True)
    here.make("writer", "gone out", "gone", "Reading", transient=True)
    there.until_matched("gone in")
    here.ask("write", name="gone out", type="Reading", values=[["n", 1.5], ["s", 2.5]])
    there.taken("gone in", 2)
    here.ask("write", name="gone out", type="Reading", values=[["n", 0.0]], dispose=True)
    (text, _, is_gone) = there.taken("gone in", 3)[2]
    assert is_gone
    assert text.startswith("Reading(sensor='n'")


def test_what_cannot_be_bridged_is_refused_with_the_reason(
    applications: list[DdsApplication], bridges: list[BridgeProcess]
) -> None:
    here, there = applications
    here.make("writer", "apart", "apart", "Count", partition="elsewhere")
    bridges[0].until_logged("DDS topic apart: a writer is not bridged: it is in a partition (elsewhere)")
    here.make("writer", "large", "large", "Count")
    there.make("reader", "large in", "large", "Count")
    there.until_matched("large in")
    here.until_matched("large")
    here.ask("write", name="large", type="Count", values=[[1, "x" * 300_000], [2, "small"]])
    assert there.numbers("large in", 2) == [2]
    assert "DDS topic large: a sample cannot be an event: it is longer than 262,144 bytes" in bridges[0].log


def test_others_can_publish_to_dds_readers(
    applications: list[DdsApplication], bridges: list[BridgeProcess], laboratory: Laboratory
) -> None:
    _, there = applications
    there.make("reader", "commands", "commands", "Count")
    with laboratory.client() as client:
        client.publish("dds-writers", {"topic": "commands"})
        there.until_matched("commands")
        client.publish("dds.commands", [{"number": "five", "text": "?"}, {"number": 5, "text": "go"}])
    assert _shown(there.taken("commands", 1)) == [repr(Count(5, "go"))]
    bridges[1].until_logged("an event cannot be a sample: number: 'five' is not an integer of 32 bits")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_of_two_bridges_in_a_domain_one_carries_and_the_other_takes_over(
    laboratory: Laboratory, how: signal.Signals
) -> None:
    """Numbers go both ways all the time; one bridge ends, and each number arrives once, in order."""
    count, topic = 400, f"relay/{how.name}"
    near, far = laboratory.networks[0].other_domain(), laboratory.networks[1].other_domain()
    with ExitStack() as stack:
        enter = stack.enter_context
        enter(laboratory.bridge(far, f"far-{how.name}"))
        first = enter(laboratory.bridge(near, f"near-1-{how.name}"))
        first.until_logged("is carrying")
        second = enter(laboratory.bridge(near, f"near-0-{how.name}"))  # of a smaller name, but it comes later
        second.until_logged("is standing_by")
        here, there = (enter(DdsApplication(network)) for network in (near, far))
        for application, out in ((here, "there"), (there, "here")):
            application.make("reader", "in", f"{topic}/{'here' if out == 'there' else 'there'}", "Count")
            application.make("writer", "out", f"{topic}/{out}", "Count")
        for application in (here, there):
            application.until_matched("in")
        here.until_matched("out", 2)
        for application in (here, there):
            application.ask("count_up", name="out", count=count, every_seconds=0.01)
        there.numbers("in", count // 4)
        first.kill(how)
        assert there.numbers("in", count - 1) == list(range(count))
        assert here.numbers("in", count - 1) == list(range(count))
        assert "is carrying" in second.log


def test_without_namespaces_or_multicast_domains_on_loopback_are_bridged(laboratory: Laboratory) -> None:
    here, there = domains()
    with ExitStack() as stack:
        enter = stack.enter_context
        for network in (here, there):
            enter(laboratory.bridge(network, f"loopback-{network.name}"))
        writer, reader = (enter(DdsApplication(network)) for network in (here, there))
        writer.make("writer", "out", "loopback", "Count", transient=True)
        reader.make("reader", "in", "loopback", "Count", transient=True)
        writer.ask("write", name="out", type="Count", values=[[7, ""]])
        assert reader.numbers("in", 7) == [7]
