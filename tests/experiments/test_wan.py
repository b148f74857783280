"""A WAN in a box: packets are late, lost, doubled or cut off as was said, and nothing is left of it afterwards."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.link_machines import Machine, Ping, Pong
from tests.runtime.processes import environment

from fieldfare.errors import NetworkUnavailableError
from fieldfare.experiments.certificates import Authority
from fieldfare.experiments.wan import PLACES_MAX, Place, Wan, WayQuality, remove_leftovers, why_unavailable
from fieldfare.experiments.wan_shuttle import NAMESPACES, Schedule, Way
from fieldfare.messages import BrokerIdentity, Closed, Dial, Opened, Received, Send
from fieldfare.runtime.link_protocol import TcpLinkOptions
from fieldfare.runtime.link_security import LinkSecurity
from fieldfare.runtime.socket_addresses import SocketAddress

PATIENCE_SECONDS = 30.0


@pytest.fixture(scope="module")
def shared_wan() -> Iterator[Wan]:
    if (reason := why_unavailable()) is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with Wan.star("cloud", ["berlin", "paris"], WayQuality()) as wan:
        yield wan


@pytest.fixture
def wan(shared_wan: Wan) -> Iterator[Wan]:
    yield shared_wan
    shared_wan.heal()
    for network in ("berlin", "paris"):
        shared_wan.set_ways("cloud", network, WayQuality())


def udp(place: Place) -> socket.socket:
    with place.entered():
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((place.address, 0))
        made.settimeout(PATIENCE_SECONDS)
        return made


def passes(wan: Wan, here: socket.socket, there: socket.socket) -> bool:
    """Whether a packet arrives, or is found to have been cut off."""
    names = {place.address: name for name, place in wan.items()}
    way = (names[here.getsockname()[0]], names[there.getsockname()[0]])
    cut, number = wan.counts()[way].cut, os.urandom(8)
    here.sendto(number, there.getsockname())
    there.settimeout(0.05)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with suppress(TimeoutError):
            if there.recv(100) == number:
                return True
        if wan.counts()[way].cut > cut:
            return False
    raise AssertionError("the packet was lost")


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_round_trip_takes_as_long_as_was_said(wan: Wan) -> None:
    wan.set_way("berlin", "cloud", WayQuality(latency_seconds=0.03))
    wan.set_way("cloud", "berlin", WayQuality(latency_seconds=0.01, jitter_seconds=0.02))
    with udp(wan["berlin"]) as here, udp(wan["cloud"]) as there:
        begin = time.monotonic()
        here.sendto(b"ping", there.getsockname())
        assert there.recvfrom(10) == (b"ping", here.getsockname())
        there.sendto(b"pong", here.getsockname())
        assert here.recv(10) == b"pong"
        assert time.monotonic() - begin >= 0.04


def test_networks_reach_the_center_and_not_each_other(wan: Wan) -> None:
    with udp(wan["berlin"]) as berlin, udp(wan["paris"]) as paris, udp(wan["cloud"]) as cloud:
        assert passes(wan, berlin, cloud)
        assert passes(wan, cloud, paris)
        assert not passes(wan, berlin, paris)
        assert wan.counts()["berlin", "paris"].cut >= 1
        wan.set_ways("berlin", "paris", WayQuality())
        assert passes(wan, berlin, paris)
        assert passes(wan, paris, berlin)
        wan.set_ways("berlin", "paris", WayQuality(is_cut=True))


def test_what_is_cut_off_and_healed(wan: Wan) -> None:
    with udp(wan["berlin"]) as berlin, udp(wan["paris"]) as paris, udp(wan["cloud"]) as cloud:
        wan.cut("berlin", "cloud")
        assert [passes(wan, berlin, cloud), passes(wan, cloud, berlin), passes(wan, paris, cloud)] == [
            False,
            False,
            True,
        ]
        wan.heal()
        assert [passes(wan, berlin, cloud), passes(wan, cloud, berlin)] == [True, True]
        wan.cut_one_way("berlin", "cloud")
        assert [passes(wan, berlin, cloud), passes(wan, cloud, berlin)] == [False, True]
        wan.isolate("cloud")
        assert [passes(wan, paris, cloud), passes(wan, cloud, paris)] == [False, False]
        wan.heal()
        assert [passes(wan, paris, cloud), passes(wan, berlin, cloud), passes(wan, berlin, paris)] == [
            True,
            True,
            False,
        ]


def test_packets_come_twice(wan: Wan) -> None:
    wan.set_way("berlin", "cloud", WayQuality(duplication=1.0))
    with udp(wan["berlin"]) as berlin, udp(wan["cloud"]) as cloud:
        for number in range(3):
            berlin.sendto(bytes([number]), cloud.getsockname())
        assert [cloud.recv(10)[0] for _ in range(6)] == [0, 0, 1, 1, 2, 2]


def test_what_is_lost_is_sent_again_by_tcp(wan: Wan) -> None:
    wan.set_ways("paris", "cloud", WayQuality(latency_seconds=0.002, jitter_seconds=0.002, loss=0.05, duplication=0.05))
    sent = random.Random(1).randbytes(400_000)
    before = wan.counts()["paris", "cloud"]
    with wan["cloud"].entered():
        listener = socket.create_server((wan["cloud"].address, 0))
    with wan["paris"].entered(), socket.socket() as dialled, listener:
        dialled.settimeout(PATIENCE_SECONDS)
        dialled.connect(listener.getsockname())
        accepted, _ = listener.accept()

        def send() -> None:
            dialled.sendall(sent)
            dialled.shutdown(socket.SHUT_WR)

        sending = threading.Thread(target=send)
        sending.start()
        with accepted:
            accepted.settimeout(PATIENCE_SECONDS)
            came = b"".join(iter(lambda: accepted.recv(100_000), b""))
        sending.join()
    assert hashlib.sha256(came).digest() == hashlib.sha256(sent).digest()
    after = wan.counts()["paris", "cloud"]
    assert after.lost > before.lost
    assert after.duplicated > before.duplicated


def test_a_link_between_brokers_over_bad_ways_and_a_cut(wan: Wan, tmp_path: Path) -> None:
    """Nobody says that a way was cut: both ends notice, and dialling works again when it is healed."""
    authority = Authority(tmp_path)
    options = TcpLinkOptions(probe_seconds=0.4, silence_seconds_max=2.5)
    wan.set_ways("berlin", "cloud", WayQuality(latency_seconds=0.005, jitter_seconds=0.005, loss=0.03))

    async def story() -> None:
        one, other = (
            Machine(name, LinkSecurity(tls=authority.files_for(name)), options=options, listen_at=address)
            for name, address in (("one", None), ("other", SocketAddress(wan["cloud"].address, 0)))
        )
        with wan["cloud"].entered():
            await other.host.start()
        with wan["berlin"].entered():
            await one.host.start()
            one.do(Dial("a", other.tcp.address))
            await one.node.until(Opened("a", BrokerIdentity("other")))
            pings = [Ping(number, "x" * 5000) for number in range(1, 40)]
            one.do(*(Send("a", ping) for ping in pings))
            await one.node.until(*(Received("a", Pong(ping.number)) for ping in pings))
            wan.cut("berlin", "cloud")
            await one.node.until(Opened("a", BrokerIdentity("other")), Closed("a"))
            await other.node.until(Opened("c1", BrokerIdentity("one")), Closed("c1"))
            wan.heal()
            one.do(Dial("b", other.tcp.address))
            await one.node.until(Opened("b", BrokerIdentity("other")))
            await one.host.stop()
            await other.host.stop()

    asyncio.run(story())


def test_programs_run_inside_a_place(wan: Wan) -> None:
    program = f"import socket; s = socket.create_server(('{wan['cloud'].address}', 0)); print(s.getsockname()[1])"
    done = wan["cloud"].run([sys.executable, "-c", program], capture_output=True, text=True)
    assert int(done.stdout) > 0
    done = wan["berlin"].run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "Cannot assign requested address" in done.stderr


@pytest.mark.usefixtures("shared_wan")
def test_nothing_is_left_of_it() -> None:
    with Wan(["a", "b"]) as wan:
        namespaces = [place.namespace for place in wan.values()]
        sleeping = wan["a"].start(["sleep", "1000"])
        assert all((NAMESPACES / name).exists() for name in namespaces)
    assert sleeping.returncode == -signal.SIGKILL
    assert not any((NAMESPACES / name).exists() for name in namespaces)


CRASHING = """
import sys
from fieldfare.experiments.wan import Wan
with Wan(["a", "b"]) as wan:
    sleeping = wan["a"].start(["sleep", "1000"])
    print(sleeping.pid, wan._shuttle.pid, *(place.namespace for place in wan.values()), flush=True)
    sys.stdin.read()
"""


@pytest.mark.usefixtures("shared_wan")
@pytest.mark.parametrize("is_shuttle_killed", [False, True])
def test_nothing_is_left_by_one_that_was_killed(is_shuttle_killed: bool) -> None:
    crashing = subprocess.Popen(
        [sys.executable, "-c", CRASHING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    )
    with crashing:
        assert crashing.stdout is not None
        sleeping, shuttle, *namespaces = crashing.stdout.readline().split()
        if is_shuttle_killed:
            os.kill(int(shuttle), signal.SIGKILL)
        crashing.kill()
    if is_shuttle_killed:
        assert all((NAMESPACES / name).exists() for name in namespaces)
        remove_leftovers()  # as the next one does before it begins
    until(lambda: not any((NAMESPACES / name).exists() for name in namespaces))
    until(lambda: not is_running(int(sleeping)))


def is_running(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def test_it_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NetworkUnavailableError, match="run this as root"), Wan(["a", "b"]):
        pass
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert "install iproute2" in str(why_unavailable())
    monkeypatch.undo()
    for count in (1, PLACES_MAX + 1):
        with pytest.raises(ValueError, match="places"):
            Wan(map(str, range(count)))


@given(
    st.lists(st.floats(0, 1), max_size=50),
    st.floats(0, 0.5),
    st.floats(0, 0.5),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.integers(),
)
def test_a_way_keeps_the_order_and_is_never_too_fast(
    gaps: list[float], latency: float, jitter: float, loss: float, duplication: float, seed: int
) -> None:
    schedule, way, now = Schedule(random.Random(seed)), Way(latency, jitter, loss, duplication), 100.0
    sent_at, came = [], []
    for number, gap in enumerate(gaps):
        now += gap
        sent_at.append(now)
        schedule.send(way, 7, bytes([number]), now)
    while (due := schedule.next_due) is not None:
        came += [(due, device, packet[0]) for device, packet in schedule.arrived(due)]
    numbers = [number for _, _, number in came]
    assert numbers == sorted(numbers)
    for due, device, number in came:
        assert device == 7
        assert due >= sent_at[number] + latency
    assert len(numbers) == len(gaps) - way.lost_count + way.duplicated_count
    assert len(set(numbers)) == len(gaps) - way.lost_count
    assert way.in_flight == 0


def test_what_is_under_way_when_a_way_is_cut_is_lost() -> None:
    schedule, way = Schedule(random.Random(1)), Way(latency_seconds=1.0)
    schedule.send(way, 7, b"x", 10.0)
    way.is_cut = True
    assert schedule.arrived(11.0) == []
    assert way.cut_count == 1
