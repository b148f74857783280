"""Two isolated DDS networks meet through two edges and a routing broker: real processes and real participants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.dds.dds_types import SAMPLES
from tests.dds.networks import ON_LOOPBACK, DdsApplication, Network, domains
from tests.faults.processes import wait_until
from tests.runtime.processes import READY, ReadyProcess, run

from fieldfare import connect_sync

_ROUTES = r"Fieldfare routes at (\S+) --gossip (\S+)"
_FAR = 1_000_000  # the first number that is written in the far network


class Overlay:
    """A routing broker, and edges with a bridge each. They find each other by gossip."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._secret = folder / "secret"
        self._secret.write_text("a secret of tests, which is long enough")
        self._secret.chmod(0o600)
        self._gossip = "127.0.0.1:0"
        self.start_routing()

    def start_routing(self) -> None:
        """Start the routing broker; after the first time, where the edges know it."""
        options = ("--role", "routing", "--gossip-listen", self._gossip)
        self.routing = self._start("routing", options, _ROUTES)
        self._gossip = self.routing.said[1]

    def start_edge(self, name: str, network: Network, duty: str) -> ReadyProcess:
        """Start an edge, and wait until its bridge has a duty in the network."""
        options = ("--role", "edge", "--port", "0", "--gossip", self._gossip, "--dds-domain", str(network.domain))
        edge = self._start(name, options, READY, CYCLONEDDS_URI=network.config or "")
        wait_until(lambda: f"is {duty}" in edge.log, f"the bridge of {name} is {duty}", 60.0)
        return edge

    def _start(self, name: str, options: tuple[str, ...], ready: str, **variables: str) -> ReadyProcess:
        data = self._folder / name
        arguments = ["broker", "--name", name, "--data", str(data), "--secret-file", str(self._secret), *options]
        return self._stack.enter_context(ReadyProcess(arguments, ready, data.with_suffix(".stderr"), **variables))


@pytest.fixture(scope="module")
def networks() -> list[Network]:
    """Two domains on loopback, in which no other test leaves a bridge."""
    return [network.other_domain() for network in domains()]


def _late_network() -> Network:
    """Another one. Its tag keeps it apart from what other tests have in the same domain."""
    return replace(domains()[0], config=ON_LOOPBACK.replace("<Tag>", "<Tag>late-"))


@pytest.fixture(scope="module")
def overlay(networks: list[Network], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Overlay]:
    with ExitStack() as stack:
        overlay = Overlay(tmp_path_factory.mktemp("edges"), stack)
        for name, network in zip(("near", "far"), networks, strict=True):
            overlay.start_edge(name, network, "carrying")
        yield overlay


@pytest.fixture(scope="module")
def applications(networks: list[Network], overlay: Overlay) -> Iterator[list[DdsApplication]]:  # noqa: ARG001
    with ExitStack() as stack:
        yield [stack.enter_context(DdsApplication(network)) for network in networks]


def _join(applications: list[DdsApplication], topic: str, type: str = "Count", **policies: Any) -> None:  # noqa: A002
    """Both write and read a topic, and each has found the other through the edges."""
    for application in applications:
        for kind in ("reader", "writer"):
            application.make(kind, f"{topic} {kind}", topic, type, **policies)
    for application in applications:
        application.until_matched(f"{topic} writer", 2)  # the reader beside it, and the bridge's
        application.until_matched(f"{topic} reader", 2)


def _count_up(applications: list[DdsApplication], topic: str, count: int) -> None:
    for application, first in zip(applications, (0, _FAR), strict=True):
        application.ask("count_up", name=f"{topic} writer", count=count, every_seconds=0.01, first=first)


def _assert_each_once(applications: list[DdsApplication], topic: str, count: int) -> None:
    """Every reader has what was counted up in both networks: once, in the order of each writer, and no echo."""
    for application in applications:
        for first in (0, _FAR):
            application.numbers(f"{topic} reader", first + count - 1)
    for turn in range(3):  # whatever echoes has time to come before the last of these
        for application, first in zip(applications, (0, _FAR), strict=True):
            number = first + count + turn
            application.ask("write", name=f"{topic} writer", type="Count", values=[[number, ""]])
            for each in applications:
                each.numbers(f"{topic} reader", number)
    for application in applications:
        numbers = application.ask("numbers", name=f"{topic} reader")
        assert [number for number in numbers if number < _FAR] == list(range(count + 3))
        assert [number for number in numbers if number >= _FAR] == list(range(_FAR, _FAR + count + 3))


@pytest.mark.parametrize("type", ["Nested", "Lists"])
def test_samples_arrive_intact_in_the_other_network(applications: list[DdsApplication], type: str) -> None:  # noqa: A002
    topic = f"intact/{type}"
    _join(applications, topic, type)
    for application in applications:
        application.ask("write_table", name=f"{topic} writer", type=type)
    here, there = (each.taken(f"{topic} reader", 2 * len(SAMPLES[type])) for each in applications)
    assert sorted(here) == sorted(there)  # with the times of writing
    assert sorted(text for text, _, _ in here) == sorted(repr(sample) for sample in SAMPLES[type] * 2)


def test_samples_arrive_once_in_both_directions(applications: list[DdsApplication]) -> None:
    _join(applications, "talk")
    _count_up(applications, "talk", 50)
    _assert_each_once(applications, "talk", 50)


def test_samples_arrive_once_although_the_routing_broker_is_killed(
    overlay: Overlay, applications: list[DdsApplication]
) -> None:
    _join(applications, "killed")
    _count_up(applications, "killed", 300)
    for application, first in zip(applications, (_FAR, 0), strict=True):
        application.numbers("killed reader", first + 50)
    overlay.routing.kill()
    overlay.start_routing()
    _assert_each_once(applications, "killed", 300)
    _join(applications, "afterwards")
    _count_up(applications, "afterwards", 10)
    _assert_each_once(applications, "afterwards", 10)


def test_an_edge_that_comes_later_learns_of_all_writers_and_of_what_they_keep(
    overlay: Overlay, applications: list[DdsApplication]
) -> None:
    for application, first in zip(applications, (0, _FAR), strict=True):
        application.make("writer", "kept writer", "kept", "Count", transient=True)
        application.until_matched("kept writer")
        application.ask("write", name="kept writer", type="Count", values=[[first, ""]])
    network = _late_network()
    overlay.start_edge("late", network, "carrying")
    with DdsApplication(network) as late:
        late.make("reader", "kept reader", "kept", "Count", transient=True)
        for first in (0, _FAR):
            late.numbers("kept reader", first)
        for application, first in zip(applications, (0, _FAR), strict=True):
            application.ask("write", name="kept writer", type="Count", values=[[first + 1, ""]])
            late.numbers("kept reader", first + 1)
        assert sorted(late.ask("numbers", name="kept reader")) == [0, 1, _FAR, _FAR + 1]


def test_two_edges_in_one_network_double_nothing(
    overlay: Overlay, networks: list[Network], applications: list[DdsApplication]
) -> None:
    second = overlay.start_edge("second", networks[0], "standing_by")
    count = 50
    with connect_sync(second.said[0]) as client:
        events = iter(client.subscribe("dds.shared", "TRUE"))
        _join(applications, "shared")
        applications[0].until_matched("shared writer", 3)  # and the bridge that stands by
        _count_up(applications, "shared", count)
        _assert_each_once(applications, "shared", count)
        client.publish("dds.shared", {"number": 2 * _FAR, "text": "from a client of the second edge"})
        for application in applications:
            numbers = application.numbers("shared reader", 2 * _FAR)
            assert len(numbers) == len(set(numbers)) == 2 * (count + 3) + 1
        came = [next(events).attributes["number"] for _ in numbers]
        assert sorted(came) == sorted(numbers)


def test_only_an_edge_has_a_bridge() -> None:
    refused = run("broker", "--role", "routing", "--dds-domain", "1")
    assert refused.returncode == 2
    assert "only an edge has a bridge to DDS" in refused.stderr
