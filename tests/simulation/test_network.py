from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldfare.simulation import streams
from fieldfare.simulation.clock import Clock
from fieldfare.simulation.network import DATAGRAMS_UNREAD_MAX, LAN, WAN, LinkQuality, Network, lan_and_wan
from fieldfare.simulation.streams import Stream

LINK = LinkQuality(latency_seconds=0.01, jitter_seconds=0.02, patience_seconds=2.0)


def network(seed: int = 0, link: LinkQuality = LINK) -> Network:
    return Network(Clock(), random.Random(seed), link)


class End:
    """What one end of a stream got."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.closed: list[str] = []
        self.stream: Stream | None = None

    def take(self, stream: Stream) -> None:
        self.stream = stream
        stream.on_message = self.got.append
        stream.on_close = self.closed.append

    def send(self, *messages: bytes) -> None:
        assert self.stream is not None
        for message in messages:
            self.stream.send(message)


def connected(net: Network, here: str = "a", there: str = "b") -> tuple[End, End]:
    ours, theirs = End(), End()
    net.listen(there, theirs.take)
    net.connect(here, there, ours.take, ours.closed.append)
    net.clock.run_for(1.0)
    assert ours.stream is not None
    assert theirs.stream is not None
    return ours, theirs


# Datagrams


@given(st.integers(0, 1000), st.floats(0, 0.5), st.floats(0, 0.5))
def test_datagrams_are_lost_and_doubled_but_never_invented(seed: int, loss: float, duplication: float) -> None:
    net = network(seed, replace(LINK, loss=loss, duplication=duplication))
    sent = [bytes([number]) for number in range(50)]
    got: list[tuple[str, bytes]] = []
    net.receive("b", lambda source, payload: got.append((source, payload)))
    for payload in sent:
        net.send("a", "b", payload)
    net.clock.run_for(1.0)
    assert all(source == "a" for source, _ in got)
    assert {payload for _, payload in got} <= set(sent)
    assert all(got.count(each) <= 2 for each in got)
    if loss == 0:
        assert {payload for _, payload in got} == set(sent)
    if duplication == 0:
        assert len(got) == len(set(got))


def test_datagrams_overtake_each_other_are_lost_and_come_twice() -> None:
    net = network(7, replace(LINK, loss=0.2, duplication=0.2))
    got: list[bytes] = []
    net.receive("b", lambda _, payload: got.append(payload))
    for number in range(200):
        net.send("a", "b", bytes([number]))
    net.clock.run_for(1.0)
    assert got != sorted(got)
    assert 100 < len(set(got)) < 200
    assert len(got) > len(set(got))


def test_a_partition_separates_two_groups_only() -> None:
    net = network()
    got: list[tuple[str, str]] = []
    for name in "abc":
        net.receive(name, lambda source, _, name=name: got.append((source, name)))  # type: ignore[misc]
    partition = net.partition({"a"}, {"b"})
    for source, target in [("a", "b"), ("b", "a"), ("a", "c"), ("c", "b")]:
        net.send(source, target, b"hello")
    net.clock.run_for(1.0)
    assert sorted(got) == [("a", "c"), ("c", "b")]
    net.heal(partition)
    net.send("a", "b", b"again")
    net.clock.run_for(1.0)
    assert ("a", "b") in got


def test_a_one_way_partition_lets_datagrams_pass_in_the_other_direction() -> None:
    net = network()
    got: list[tuple[str, str]] = []
    for name in "ab":
        net.receive(name, lambda source, _, name=name: got.append((source, name)))  # type: ignore[misc]
    net.partition({"a"}, {"b"}, is_one_way=True)
    assert (net.is_cut("a", "b"), net.is_cut("b", "a")) == (True, False)
    assert net.is_cut_somehow("a", "b")
    assert net.is_cut_somehow("b", "a")
    net.send("a", "b", b"lost")
    net.send("b", "a", b"passes")
    net.clock.run_for(1.0)
    assert got == [("b", "a")]
    net.heal()
    net.send("a", "b", b"again")
    net.clock.run_for(1.0)
    assert got == [("b", "a"), ("a", "b")]


# What ways are like


def test_the_way_between_places_can_be_a_function_of_both() -> None:
    net = network()
    far = replace(LINK, latency_seconds=9.0)
    net.quality_of = lambda one, other: far if {one, other} == {"a", "z"} else LINK
    assert (net.link_quality("z", "a"), net.link_quality("a", "b")) == (far, LINK)
    worse = replace(LINK, loss=0.5)
    net.set_link_quality("a", "z", worse)
    assert (net.link_quality("z", "a"), net.link_quality("a", "b")) == (worse, LINK)
    net.reset_link_quality("a", "z")
    assert net.link_quality("z", "a") == far


def test_places_of_one_network_are_near_and_others_far() -> None:
    net = network()
    net.quality_of = lan_and_wan(lambda place: place.partition(".")[0])
    arrived: dict[str, float] = {}
    start = net.clock.now

    def note(_source: str, name: str) -> None:
        arrived[name] = net.clock.now - start

    for name in ("north.b", "south.b"):
        net.receive(name, note)
        net.send("north.a", name, name)
    net.clock.run_for(1.0)
    assert LAN.latency_seconds <= arrived["north.b"] < 2 * LAN.latency_seconds
    assert WAN.latency_seconds <= arrived["south.b"] < 2 * WAN.latency_seconds
    assert net._qualities == {}


# Streams


@given(st.integers(0, 1000), st.floats(0, 0.6), st.lists(st.floats(0, 0.05), max_size=20))
def test_a_stream_brings_everything_in_order_whatever_is_lost(seed: int, loss: float, pauses: list[float]) -> None:
    net = network(seed, replace(LINK, loss=loss))
    ours, theirs = connected(net)
    for number, pause in enumerate(pauses):
        ours.send(bytes([number]))
        net.clock.run_for(pause)
    net.clock.run_for(300.0)
    assert theirs.got == [bytes([number]) for number in range(len(pauses))]
    assert ours.closed == theirs.closed == []


def test_nobody_listens() -> None:
    net, failures = network(), list[str]()
    net.connect("a", "b", lambda _: pytest.fail("connected"), failures.append)
    net.clock.run_for(1.0)
    assert failures == ["refused"]


def test_connecting_through_a_partition_fails() -> None:
    net, failures = network(), list[str]()
    net.listen("b", lambda _: pytest.fail("connected"))
    net.partition({"a"}, {"b"})
    net.connect("a", "b", lambda _: pytest.fail("connected"), failures.append)
    net.clock.run_for(10.0)
    assert failures == ["no answer"]


def test_what_was_sent_before_a_close_arrives_before_it() -> None:
    net = network()
    ours, theirs = connected(net)
    ours.send(b"1", b"2")
    assert ours.stream is not None
    ours.stream.close("done")
    ours.send(b"3")
    net.clock.run_for(1.0)
    assert (theirs.got, theirs.closed, ours.closed) == ([b"1", b"2"], ["done"], [])
    assert net.streams("a") == []


def test_a_short_partition_only_delays_a_stream() -> None:
    net = network()
    ours, theirs = connected(net)
    partition = net.partition({"a"}, {"b"})
    ours.send(b"1", b"2")
    theirs.send(b"3")
    net.clock.run_for(0.9)
    assert theirs.got == []
    net.heal(partition)
    ours.send(b"4")
    net.clock.run_for(1.0)
    assert (theirs.got, ours.got, ours.closed, theirs.closed) == ([b"1", b"2", b"4"], [b"3"], [], [])


def test_a_long_partition_breaks_a_stream_at_both_ends_at_different_times() -> None:
    net = network()
    ours, theirs = connected(net)
    net.partition({"a"}, {"b"})
    ours.send(b"1")
    at: dict[str, float] = {}
    while not (ours.closed and theirs.closed):
        net.clock.run_for(0.05)
        for name, end in (("ours", ours), ("theirs", theirs)):
            if end.closed:
                at.setdefault(name, net.clock.now)
    assert at["ours"] != at["theirs"]
    net.heal()
    net.clock.run_for(1.0)
    assert theirs.got == []
    assert ours.closed == theirs.closed == ["timed out"]


def test_an_end_that_still_waits_when_the_partition_heals_learns_that_the_other_gave_up() -> None:
    net = network()
    ours, theirs = connected(net)
    partition = net.partition({"a"}, {"b"})
    while not (ours.closed or theirs.closed):
        net.clock.run_for(0.01)
    assert not (ours.closed and theirs.closed)
    net.heal(partition)
    net.clock.run_for(0.1)
    assert sorted(ours.closed + theirs.closed) == ["reset", "timed out"]


def test_a_reset_loses_what_is_under_way() -> None:
    net = network()
    ours, theirs = connected(net)
    ours.send(b"1")
    net.clock.run_for(1.0)
    ours.send(b"2")
    net.streams("b", "a")[0].reset("reset")
    ours.send(b"3")
    net.clock.run_for(1.0)
    assert (theirs.got, ours.closed, theirs.closed) == ([b"1"], ["reset"], ["reset"])


def test_a_place_that_crashes_is_not_told_but_the_others_are() -> None:
    net = network()
    ours, theirs = connected(net)
    theirs.send(b"last words")
    net.crash("b")
    net.clock.run_for(1.0)
    assert (ours.got, ours.closed, theirs.closed) == ([], ["the other end crashed"], [])
    net.connect("a", "b", lambda _: pytest.fail("connected"), ours.closed.append)
    net.clock.run_for(1.0)
    assert ours.closed[-1] == "refused"


def test_the_same_seed_gives_the_same_run() -> None:
    def run(seed: int) -> list[tuple[float, bytes]]:
        net = network(seed, replace(LINK, loss=0.3, duplication=0.3))
        got: list[tuple[float, bytes]] = []
        net.receive("b", lambda _, payload: got.append((net.clock.now, payload)))
        for number in range(30):
            net.send("a", "b", bytes([number]))
        net.clock.run_for(1.0)
        return got

    assert run(1) == run(1)
    assert run(1) != run(2)


STEPS = ("send", "answer", "cut", "cut to", "cut from", "pause", "resume", "heal", "wait")


@given(st.integers(0, 1000), st.lists(st.sampled_from(STEPS), max_size=40))
def test_a_stream_that_is_disturbed_now_and_then_brings_all_in_order_or_breaks(seed: int, steps: list[str]) -> None:
    net = network(seed, replace(LINK, loss=0.1))
    ours, theirs = connected(net)
    sent: list[bytes] = []
    answered: list[bytes] = []
    for step in steps:
        match step:
            case "send":
                sent.append(bytes([len(sent)]))
                ours.send(sent[-1])
            case "answer":
                answered.append(bytes([len(answered)]))
                theirs.send(answered[-1])
            case "cut":
                net.partition({"a", "x"}, {"b"})
            case "cut to":
                net.partition({"a", "x"}, {"b"}, is_one_way=True)
            case "cut from":
                net.partition({"b"}, {"a", "x"}, is_one_way=True)
            case "pause":
                net.pause("b")
            case "resume":
                net.resume("b")
            case "heal":
                net.heal()
            case "wait":
                net.clock.run_for(0.6)
    net.heal()
    net.resume("b")
    net.clock.run_for(60.0)
    assert theirs.got == sent[: len(theirs.got)]
    assert ours.got == answered[: len(ours.got)]
    assert bool(ours.closed) == bool(theirs.closed)
    if not ours.closed:
        assert (theirs.got, ours.got) == (sent, answered)
    assert not net.is_disturbed


def test_a_short_one_way_partition_only_delays_one_direction() -> None:
    net = network()
    ours, theirs = connected(net)
    net.partition({"a"}, {"b"}, is_one_way=True)
    ours.send(b"1")
    theirs.send(b"2")
    net.clock.run_for(0.9)
    assert (theirs.got, ours.got) == ([], [b"2"])
    net.heal()
    net.clock.run_for(1.0)
    assert (theirs.got, ours.closed, theirs.closed) == ([b"1"], [], [])


@pytest.mark.parametrize("source", ["a", "b"])
def test_a_long_one_way_partition_breaks_a_stream_at_both_ends(source: str) -> None:
    net = network()
    ours, theirs = connected(net)
    net.partition({source}, {"a", "b"} - {source}, is_one_way=True)
    net.clock.run_for(10.0)
    assert ours.closed == theirs.closed == ["timed out"]
    assert net.streams("a") == net.streams("b") == []
    net.connect("a", "b", lambda _: pytest.fail("connected"), ours.closed.append)
    net.clock.run_for(10.0)
    assert ours.closed[-1] == "no answer"


def test_of_a_crash_behind_a_one_way_partition_the_other_end_hears_only_if_packets_reach_it() -> None:
    for source, reason in (("b", "timed out"), ("a", "the other end crashed")):
        net = network()
        ours, _ = connected(net)
        net.partition({source}, {"a", "b"} - {source}, is_one_way=True)
        net.crash("b")
        net.clock.run_for(10.0)
        assert ours.closed == [reason]


# Paused places


def test_what_comes_to_a_paused_place_waits_in_its_sockets() -> None:
    net = network()
    ours, theirs = connected(net)
    got: list[bytes] = []
    net.receive("b", lambda _, payload: got.append(payload))
    net.pause("b")
    ours.send(b"1", b"2")
    net.send("a", "b", b"datagram")
    theirs.send(b"on its way before")
    net.clock.run_for(100.0)  # longer than any patience: its machine still acknowledges
    assert (theirs.got, got, ours.got, ours.closed) == ([], [], [b"on its way before"], [])
    net.resume("b")
    assert (theirs.got, got) == ([b"1", b"2"], [b"datagram"])
    ours.send(b"3")
    net.clock.run_for(1.0)
    assert theirs.got == [b"1", b"2", b"3"]


def test_too_many_datagrams_for_a_paused_place_are_lost() -> None:
    net = network()
    got: list[int] = []
    net.receive("b", lambda _, payload: got.append(payload))
    net.pause("b")
    for number in range(DATAGRAMS_UNREAD_MAX + 10):
        net.send("a", "b", number)
    net.clock.run_for(1.0)
    net.resume("b")
    assert len(got) == DATAGRAMS_UNREAD_MAX


def test_what_a_paused_place_does_not_read_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "UNREAD_MAX", 10)
    net = network()
    ours, theirs = connected(net)
    net.pause("b")
    for _ in range(11):
        ours.send(b"x")
        net.clock.run_for(1.0)
    assert ours.closed == ["too much is unread"]
    net.resume("b")
    assert theirs.got == []


@pytest.mark.parametrize("paused", ["a", "b"])
def test_a_stream_to_or_from_a_paused_place_opens_when_it_goes_on_or_fails_when_patience_ends(paused: str) -> None:
    net = network()
    opened: list[Stream] = []
    failures: list[str] = []
    net.listen("b", opened.append)
    net.pause(paused)
    net.connect("a", "b", opened.append, failures.append)
    net.clock.run_for(1.0)
    assert (opened, failures) == ([], [])
    net.resume(paused)
    assert [stream.here for stream in opened] == ["a", "b"]
    net.pause(paused)
    net.connect("a", "b", opened.append, failures.append)
    net.clock.run_for(10.0)
    assert failures == ["no answer"]
    net.resume(paused)
    net.clock.run_for(10.0)
    assert (len(opened), failures) == (2, ["no answer"])


def test_a_stream_that_waits_for_a_paused_place_does_not_open_across_a_partition() -> None:
    net, failures = network(), list[str]()
    net.listen("b", lambda _: pytest.fail("connected"))
    net.pause("b")
    net.connect("a", "b", lambda _: pytest.fail("connected"), failures.append)
    net.clock.run_for(1.0)
    net.partition({"a"}, {"b"})
    net.resume("b")
    net.clock.run_for(10.0)
    assert failures == ["no answer"]


def test_a_paused_place_that_crashes_is_not_paused_when_it_comes_back() -> None:
    net = network()
    ours, theirs = connected(net)
    net.pause("b")
    ours.send(b"1")
    net.connect("a", "b", lambda _: pytest.fail("connected"), ours.closed.append)
    net.clock.run_for(1.0)
    net.crash("b")
    net.clock.run_for(1.0)
    assert (theirs.got, sorted(ours.closed)) == ([], ["refused", "the other end crashed"])
    again, there = connected(net)
    again.send(b"2")
    net.clock.run_for(1.0)
    assert there.got == [b"2"]


def test_what_a_partition_held_up_is_not_overtaken_by_what_arrives_when_it_heals() -> None:
    net = network(link=replace(LINK, jitter_seconds=0.0))
    ours, theirs = connected(net)
    partition = net.partition({"a"}, {"b"})
    ours.send(b"1")
    net.clock.run_for(0.5)
    net.clock.after(0.01, lambda: net.heal(partition))  # before the second message, at the moment of its arrival
    ours.send(b"2")
    net.clock.run_for(1.0)
    assert theirs.got == [b"1", b"2"]


def test_a_partition_stalls_only_the_streams_across_it() -> None:
    net = network()
    pairs = {(here, there): connected(net, here, there) for here in "abc" for there in "abc" if here != there}
    net.partition({"a"}, {"b", "z"})
    net.clock.run_for(60.0)
    broken = {pair for pair, (ours, theirs) in pairs.items() if ours.closed and theirs.closed}
    assert broken == {("a", "b"), ("b", "a")}
    assert not any(ours.closed or theirs.closed for pair, (ours, theirs) in pairs.items() if pair not in broken)
    assert {stream.there for stream in net.streams("a")} == {"c"}
    assert {stream.there for stream in net.streams("c")} == {"a", "b"}


def test_streams_are_stalled_and_go_on_in_the_order_in_which_they_were_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done with each draws from the one source of chance, so another order would be another run."""
    net = network()
    for number in range(20):
        connected(net, f"a{number % 7}", f"b{number % 5}")
    called: dict[str, list[int]] = {"stall": [], "go_on": []}
    for name, numbers in called.items():
        monkeypatch.setattr(Stream, name, lambda stream, numbers=numbers: numbers.append(stream.number))
    net.partition([f"a{number}" for number in range(7)], [f"b{number}" for number in range(5)])
    net.heal()
    assert called == {"stall": list(range(40)), "go_on": list(range(40))}


def test_a_stream_breaks_when_too_much_is_under_way_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "UNREAD_MAX", 10)
    net = network()
    ours, theirs = connected(net)
    for _ in range(3):
        ours.send(*[b"x"] * 10)
        net.clock.run_for(1.0)
    assert (len(theirs.got), theirs.closed) == (30, [])
    ours.send(*[b"x"] * 11)
    net.clock.run_for(1.0)
    assert (len(theirs.got), theirs.closed) == (30, ["too much is unread"])


REPLAYED = """
import random
from fieldfare.simulation.clock import Clock
from fieldfare.simulation.network import Network

net, told = Network(Clock(), random.Random(7)), []
names = [f"place {number}" for number in range(30)]
for name in names:
    net.listen(name, lambda stream: None)
for here, there in zip(names, names[1:]):
    def opened(stream, here=here):
        stream.on_close = lambda reason: told.append((here, net.clock.now, reason))
    net.connect(here, there, opened, print)
net.clock.run_for(1.0)
net.partition(names[::2], names[1::2])
net.clock.run_for(4.0)
net.crash(names[5])
net.heal()
net.clock.run_for(60.0)
print(len(told), told)
"""


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_in_another_process() -> None:
    """Sets of strings have another order in every process."""
    runs = [
        subprocess.run(
            [sys.executable, "-c", REPLAYED],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2", "3")
    ]
    assert runs[0] == runs[1] == runs[2]
    assert int(runs[0].split()[0]) > 10
