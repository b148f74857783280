"""A WAN in a box: places on one Linux machine, each with a network of its own, and ways between them of any quality.

A place is a network namespace with one TUN device; a process beside (`wan_shuttle.py`) carries the packets between the
devices, with latency, jitter, loss and duplication, which can be changed at any time, up to a cut. Programs run inside
a place as they are. It needs root, and the `ip` command; it changes nothing of the machine's own network.

    with Wan.star("cloud", ["berlin", "paris"], WayQuality(latency_seconds=0.04)) as wan:
        server = wan["cloud"].start([sys.executable, "-m", "fieldfare", ...])
        wan.cut("berlin", "cloud")
        wan.heal()
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import count, permutations
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fieldfare.errors import NetworkUnavailableError
from fieldfare.experiments import wan_shuttle
from fieldfare.experiments.wan_shuttle import CONTROL_BYTES_MAX, NAMESPACES, remove_namespaces

PLACES_MAX = 50
_TOLD_MAX = 500  # ways in one message to the shuttle
_TUN = Path("/dev/net/tun")
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_CLONE_NEWNET = 0x40000000
_DEVICE = "wan0"  # in every place
_QUEUE_PACKETS = 5000  # of a device, for which the shuttle has not come yet
_ENDING_SECONDS = 30.0
_name = re.compile(r"ffwan-(\d+)-.*")
_numbers = count()


@dataclass(frozen=True, slots=True)
class WayQuality:
    """What becomes of packets from one place to another."""

    latency_seconds: float = 0.0
    jitter_seconds: float = 0.0  # the most that is added, at random; packets do not overtake each other
    loss: float = 0.0  # the probability that a packet is lost
    duplication: float = 0.0  # the probability that it arrives twice
    is_cut: bool = False  # nothing passes


@dataclass(frozen=True, slots=True)
class WayCounts:
    """How many packets took a way since the beginning, and what became of the others."""

    packets: int
    bytes: int
    lost: int
    duplicated: int
    cut: int
    dropped: int  # too many were under way


_CUT = WayQuality(is_cut=True)


class Place:
    """One network of its own, with one address."""

    def __init__(self, name: str, namespace: str, address: str) -> None:
        self.name, self.namespace, self.address = name, namespace, address
        self._inside = ("ip", "netns", "exec", namespace)  # it becomes the command, so the process is the command's
        self._processes: list[subprocess.Popen[Any]] = []

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a program here. `options` are those of Popen. It is killed when the WAN ends."""
        process = subprocess.Popen((*self._inside, *command), **options)  # noqa: S603 - the caller's own
        self._processes.append(process)
        return process

    def run(self, command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
        """Run a program here, to its end. `options` are those of subprocess.run."""
        return subprocess.run((*self._inside, *command), check=False, **options)  # noqa: S603 - the caller's own

    @contextmanager
    def entered(self) -> Iterator[None]:
        """The calling thread is here meanwhile: sockets that it makes, and threads that it starts, belong here."""
        with (NAMESPACES / self.namespace).open() as there, Path("/proc/thread-self/ns/net").open() as before:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(before.fileno())

    def end(self) -> None:
        """Kill the programs that were started here."""
        for process in self._processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


class Wan(Mapping[str, Place]):
    """Places by name. A context manager: inside it packets travel, afterwards nothing of it is left."""

    def __init__(self, names: Iterable[str], quality: WayQuality = WayQuality()) -> None:  # noqa: B008 - it is frozen
        run = f"ffwan-{os.getpid()}-{next(_numbers)}"
        self._places = {
            name: Place(name, f"{run}-{number}", f"10.201.0.{number}") for number, name in enumerate(names, start=1)
        }
        if not 1 < len(self._places) <= PLACES_MAX:
            raise ValueError(f"a WAN has 2 to {PLACES_MAX} places, not {len(self._places)}")
        self._index = {name: index for index, name in enumerate(self._places)}
        self._qualities = dict.fromkeys(permutations(self._places, 2), quality)
        self._cuts: set[tuple[str, str]] = set()
        self._devices: list[int] = []
        self._shuttle: subprocess.Popen[bytes] | None = None

    @classmethod
    def star(cls, center: str, networks: Sequence[str], quality: WayQuality) -> Wan:
        """Networks that reach the center, and not each other. `quality` is each way's."""
        wan = cls([center, *networks], quality)
        wan._qualities |= dict.fromkeys(permutations(networks, 2), _CUT)
        return wan

    def __getitem__(self, name: str) -> Place:
        return self._places[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    # Building and removing

    def __enter__(self) -> Self:
        if (reason := why_unavailable()) is not None:
            raise NetworkUnavailableError(reason)
        remove_leftovers()
        try:
            for place in self._places.values():
                self._devices.append(_build(place))
            self._start_shuttle()
            self._tell(self._qualities)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._remove()

    def _start_shuttle(self) -> None:
        self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(_ENDING_SECONDS)
        places = self._places.values()
        said = {
            "devices": self._devices,
            "addresses": [place.address for place in places],
            "namespaces": [place.namespace for place in places],
        }
        with other:
            self._shuttle = subprocess.Popen(  # noqa: S603 - our own
                [sys.executable, "-I", wan_shuttle.__file__, str(other.fileno()), json.dumps(said)],
                pass_fds=(other.fileno(), *self._devices),
                start_new_session=True,  # an interrupt at the terminal is not for it
            )

    def _remove(self) -> None:
        for place in self._places.values():
            place.end()
        if self._shuttle is not None:
            self._control.close()  # which tells it to remove the namespaces
            with suppress(subprocess.TimeoutExpired):
                self._shuttle.wait(_ENDING_SECONDS)
            self._shuttle.kill()
            self._shuttle.wait()
        for device in self._devices:
            os.close(device)
        remove_namespaces([place.namespace for place in self._places.values()])

    # What the ways are like

    def set_way(self, here: str, there: str, quality: WayQuality) -> None:
        """Change the way from one place to another, in this direction. When it returns, it is so."""
        self._qualities[here, there] = quality
        self._tell([(here, there)])

    def set_ways(self, one: str, other: str, quality: WayQuality) -> None:
        """Change the ways between two places, in both directions."""
        self._qualities[one, other] = self._qualities[other, one] = quality
        self._tell([(one, other), (other, one)])

    def cut(self, one: str, other: str) -> None:
        """Let nothing pass between two places. What is under way is lost."""
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def cut_one_way(self, here: str, there: str) -> None:
        """Let nothing pass from one place to another; what goes the other way does."""
        self._cuts.add((here, there))
        self._tell([(here, there)])

    def isolate(self, name: str) -> None:
        """Cut a place off from all others."""
        for other in self._places:
            if other != name:
                self.cut(name, other)

    def heal(self) -> None:
        """End all cuts: every way is again as it was set."""
        healed, self._cuts = self._cuts, set()
        self._tell(healed)

    def counts(self) -> dict[tuple[str, str], WayCounts]:
        """How many packets each way has carried, by the places at its ends."""
        told = self._ask([])
        return {
            (here, there): WayCounts(*told[self._index[here]][self._index[there]]) for here, there in self._qualities
        }

    def _tell(self, ways: Iterable[tuple[str, str]]) -> None:
        """Tell the shuttle what ways are like, and wait until it knows."""
        changes = []
        for here, there in ways:
            quality = asdict(self._qualities[here, there])
            quality["is_cut"] = quality["is_cut"] or (here, there) in self._cuts
            changes.append((self._index[here], self._index[there], quality))
        for begin in range(0, len(changes), _TOLD_MAX):
            self._ask(changes[begin : begin + _TOLD_MAX])

    def _ask(self, changes: list[Any]) -> list[list[list[int]]]:
        try:
            self._control.send(json.dumps(changes).encode())
            answer: list[list[list[int]]] = json.loads(self._control.recv(CONTROL_BYTES_MAX) or b"null")
        except OSError as error:
            raise NetworkUnavailableError(f"the process that carries packets does not answer: {error}") from error
        if answer is None:
            raise NetworkUnavailableError("the process that carries packets has ended: see what it has printed")
        return answer


def why_unavailable() -> str | None:
    """Why there can be no WAN in a box here, and what to do about it; None if there can."""
    if not sys.platform.startswith("linux"):
        return "network namespaces are a part of Linux: run this on Linux, or in a Linux container"
    if os.geteuid() != 0:
        return "network namespaces are made by root: run this as root, or in a container that is privileged"
    if shutil.which("ip") is None:
        return "the ip command is missing: install iproute2"
    if not _TUN.exists():
        return f"{_TUN} is missing: load the module tun, or give the container this device"
    return None


def remove_leftovers() -> None:
    """Remove the namespaces of processes that are gone, and what still runs in them."""
    found = [] if not NAMESPACES.exists() else [_name.fullmatch(path.name) for path in NAMESPACES.iterdir()]
    remove_namespaces([name[0] for name in found if name is not None and not Path("/proc", name[1]).exists()])


def _build(place: Place) -> int:
    """Make the namespace of a place, with its device; the other end of that is a file descriptor."""
    device = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK)
    try:
        name = f"ffw{device}-{os.getpid()}"  # until it is in the namespace
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
        _ip(f"netns add {place.namespace}")
        _ip(f"link set {name} netns {place.namespace} name {_DEVICE}")
        inside = (
            f"link set {_DEVICE} addrgenmode none",
            f"addr add {place.address}/16 dev {_DEVICE}",
            f"link set {_DEVICE} up txqueuelen {_QUEUE_PACKETS}",
            "link set lo up multicast on",
        )
        _ip("-batch -", place.namespace, "\n".join(inside))
    except BaseException as error:
        os.close(device)
        if isinstance(error, OSError):
            raise NetworkUnavailableError(f"a network device cannot be made: {error.strerror}") from error
        raise
    return device


def _ip(arguments: str, namespace: str | None = None, batch: str = "") -> None:
    inside = [] if namespace is None else ["-n", namespace]
    done = subprocess.run(  # noqa: S603 - names of our own
        ["ip", *inside, *arguments.split()],  # noqa: S607
        input=batch,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise NetworkUnavailableError(
            f"`ip {arguments}` failed ({done.stderr.strip()}): network namespaces need root with all its rights"
        )


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
