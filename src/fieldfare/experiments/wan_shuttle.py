"""The process that carries packets between the places of a WAN in a box (`wan.py`), late, twice or not at all.

It has the other ends of the places' TUN devices. A packet that it reads there waits in a heap until it is due, and is
then written to the device of the place that it is for. Jitter is like waiting in a queue: packets of one way do not
overtake each other.

It imports the standard library alone, and is started as a script, so that it is there at once. When whoever started it
is gone, it removes what that one has made: this is how nothing is left behind by a test that was killed.
"""

from __future__ import annotations

import heapq
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

NAMESPACES = Path("/run/netns")
CONTROL_BYTES_MAX = 200 * 1024  # of a message between whoever started this and this; a socket takes a little more
_PACKET_BYTES_MAX = 2048  # the devices take no longer ones than 1,500
_READ_MAX = 64  # packets of one device before the others have their turn
_IN_FLIGHT_MAX = 20_000  # packets on one way; more are dropped, as a router would
_NICENESS = -10  # a wire does not get slower when the machine is busy


@dataclass(slots=True)
class Way:
    """From one place to another: what becomes of packets, and how many there were."""

    latency_seconds: float = 0.0
    jitter_seconds: float = 0.0
    loss: float = 0.0
    duplication: float = 0.0
    is_cut: bool = False
    last_due: float = 0.0
    in_flight: int = 0
    packet_count: int = 0  # of those that arrived
    byte_count: int = 0
    lost_count: int = 0
    duplicated_count: int = 0
    cut_count: int = 0
    dropped_count: int = 0

    @property
    def counts(self) -> tuple[int, ...]:
        """All of them, in this order."""
        return (
            self.packet_count,
            self.byte_count,
            self.lost_count,
            self.duplicated_count,
            self.cut_count,
            self.dropped_count,
        )


class Schedule:
    """Packets that are under way. Times are those of any clock that only goes forward."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._heap: list[tuple[float, int, Way, int, bytes]] = []
        self._numbers = count()

    @property
    def next_due(self) -> float | None:
        """When the next packet arrives."""
        return self._heap[0][0] if self._heap else None

    def send(self, way: Way, device: int, packet: bytes, now: float) -> None:
        """A packet begins its way, which ends at a device."""
        if way.is_cut:
            way.cut_count += 1
            return
        if way.loss and self._rng.random() < way.loss:
            way.lost_count += 1
            return
        self._push(way, device, packet, now)
        if way.duplication and self._rng.random() < way.duplication:
            way.duplicated_count += 1
            self._push(way, device, packet, now)

    def _push(self, way: Way, device: int, packet: bytes, now: float) -> None:
        if way.in_flight >= _IN_FLIGHT_MAX:
            way.dropped_count += 1
            return
        due = now + way.latency_seconds
        if way.jitter_seconds:
            due += way.jitter_seconds * self._rng.random()
        due = way.last_due = max(due, way.last_due)
        way.in_flight += 1
        heapq.heappush(self._heap, (due, next(self._numbers), way, device, packet))

    def arrived(self, now: float) -> list[tuple[int, bytes]]:
        """Devices and packets that are due. What is still under way when a way is cut does not arrive."""
        heap, found = self._heap, []
        while heap and heap[0][0] <= now:
            _, _, way, device, packet = heapq.heappop(heap)
            way.in_flight -= 1
            if way.is_cut:
                way.cut_count += 1
            else:
                way.packet_count += 1
                way.byte_count += len(packet)
                found.append((device, packet))
        return found


class Shuttle:
    """Carries packets between devices until `control` is closed. Places are numbered; each has a device, an address."""

    def __init__(self, control: socket.socket, devices: list[int], addresses: list[str]) -> None:
        self._control = control
        self._devices = devices
        self._ways = [[Way() for _ in devices] for _ in devices]
        self._places = {socket.inet_aton(address): place for place, address in enumerate(addresses)}
        self._places_by_device = {device: place for place, device in enumerate(devices)}
        self._schedule = Schedule(random.Random())  # noqa: S311 - no secret
        self._epoll = select.epoll()
        for fd in (control.fileno(), *devices):
            self._epoll.register(fd, select.EPOLLIN)

    def run(self) -> None:
        """Until whoever started this is gone."""
        while True:
            for fd, _ in self._epoll.poll(self._wait()):
                if fd != self._control.fileno():
                    self._read(fd)
                elif not self._obey():
                    return
            for device, packet in self._schedule.arrived(time.monotonic()):
                with suppress(OSError):  # a device that is not up any more
                    os.write(device, packet)

    def _wait(self) -> float | None:
        """Wait until something comes or is due, more exactly than epoll does, which counts in milliseconds."""
        due = self._schedule.next_due
        if due is None:
            return None
        seconds = due - time.monotonic()
        if seconds > 0:
            select.select([self._epoll], [], [], seconds)
        return 0

    def _read(self, device: int) -> None:
        here = self._places_by_device[device]
        ways, places, devices, schedule = self._ways[here], self._places, self._devices, self._schedule
        now = time.monotonic()
        for _ in range(_READ_MAX):
            try:
                packet = os.read(device, _PACKET_BYTES_MAX)
            except OSError:  # there is none now, or the device is gone
                return
            there = places.get(packet[16:20])  # the destination of IPv4; others, and multicast, are for nobody here
            if there is not None and packet[0] >> 4 == 4:
                schedule.send(ways[there], devices[there], packet, now)

    def _obey(self) -> bool:
        """Change ways as one message says, or if it says nothing answer with the counts; whether there was one."""
        message = self._control.recv(CONTROL_BYTES_MAX)
        if not message:
            return False
        changed = json.loads(message)
        for here, there, changes in changed:
            for name, value in changes.items():
                setattr(self._ways[here][there], name, value)
        answer = [] if changed else [[way.counts for way in ways] for ways in self._ways]
        self._control.send(json.dumps(answer).encode())
        return True


def remove_namespaces(names: list[str]) -> None:
    """End all processes in network namespaces, and remove these. What is not there is passed over."""
    for name in names:
        if not (NAMESPACES / name).exists():
            continue
        found = subprocess.run(("ip", "netns", "pids", name), check=False, capture_output=True, text=True)  # noqa: S603, S607 - names of our own
        for pid in found.stdout.split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        subprocess.run(("ip", "netns", "del", name), check=False, capture_output=True)  # noqa: S603, S607


def main(control_fd: int, text: str) -> None:
    """The whole life of the process; `text` is JSON: devices, their addresses, and the namespaces to remove."""
    said = json.loads(text)
    with suppress(OSError):
        os.nice(_NICENESS)
    with socket.socket(fileno=control_fd) as control:
        try:
            Shuttle(control, said["devices"], said["addresses"]).run()
        except ConnectionError:
            return
        finally:
            remove_namespaces(said["namespaces"])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
