"""Rings whose nodes have certificates: nobody chooses its place, speaks for others, or is heard without one."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.pastry.test_admission import addresses, recorded
from tests.pastry.test_ring import check_routing

from fieldfare.errors import LinkSecurityError
from fieldfare.messages import DatagramReceived, Node, SendDatagram
from fieldfare.pastry.admission import ClosedGroup
from fieldfare.pastry.certificates import (
    PEER_URI,
    CertificateRefusedError,
    CertifiedGroup,
    Credentials,
    PeerAuthority,
    PeerFiles,
)
from fieldfare.pastry.pastry_frames import Acknowledge, Goodbye, Note, Ping
from fieldfare.pastry.ports import Card
from fieldfare.pastry.sealing import SealedNode, Sealing, with_certificate
from fieldfare.simulation import World
from fieldfare.simulation.network import LinkQuality
from fieldfare.simulation.pastry import SimulatedRing

NOW = 1_800_000_000.0
DAY = 86_400.0
PING = Ping("alice", 1, 2)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> PeerAuthority:
    made = PeerAuthority(tmp_path_factory.mktemp("authority"))
    made.create(0.0, days=36_500)
    return made


class Seals:
    """Certificates of one authority for nodes of a simulated ring, made when they are needed."""

    def __init__(self, authority: PeerAuthority, folder: Path) -> None:
        self.group = CertifiedGroup(authority.certificate_file.read_bytes())
        self._authority, self._folder = authority, folder
        self._credentials: dict[str, Credentials] = {}

    def credentials(self, name: str) -> Credentials:
        if name not in self._credentials:
            files = self._authority.issue(name, 0.0, days=36_500, is_renewal=True)
            self._credentials[name] = Credentials.load(files, DAY, self.group)
        return self._credentials[name]

    def around(self, name: str, node: Node) -> SealedNode:
        return with_certificate(node, self.credentials(name))


@pytest.fixture(scope="module")
def seals(authority: PeerAuthority, tmp_path_factory: pytest.TempPathFactory) -> Seals:
    return Seals(authority, tmp_path_factory.mktemp("seals"))


def ring_of(seals: Seals, count: int, seed: int = 1, loss: float = 0.0) -> SimulatedRing:
    ring = SimulatedRing(World(seed, LinkQuality(loss=loss)), seal=seals)
    ring.add_many(count, apart_seconds=0.3)
    ring.run_until(ring.is_right, 120.0)
    return ring


# Certificates


def test_a_place_follows_from_the_certificate_and_nobody_can_choose_it(authority: PeerAuthority) -> None:
    one, other = authority.issue("alice", NOW), authority.issue("alice", NOW)
    group = CertifiedGroup(authority.certificate_file.read_bytes())
    names = [Credentials.load(files, NOW + 1).member.name for files in (one, other)]
    assert all(name.startswith("alice~") for name in names)
    assert group.id_of(names[0]) != group.id_of(names[1]), "asking for the same name gives another place"
    renewed = authority.issue(names[0], NOW + DAY, is_renewal=True)
    again = Credentials.load(renewed, NOW + DAY)
    assert again.group.id_of(again.member.name) == group.id_of(names[0]), "who renews a certificate keeps its place"


def test_places_of_certificates_are_spread_evenly(authority: PeerAuthority) -> None:
    group = CertifiedGroup(authority.certificate_file.read_bytes())
    tenths = [group.id_of(f"peer {number}") * 10 >> 128 for number in range(2_000)]
    assert all(150 < tenths.count(tenth) < 250 for tenth in range(10))


def test_files_that_do_not_fit_are_refused_with_a_reason(authority: PeerAuthority, tmp_path: Path) -> None:
    files, others = authority.issue("bob", NOW), authority.issue("eve", NOW)
    foreign = PeerAuthority(tmp_path / "foreign")
    foreign.create(NOW)

    def reason(changed: PeerFiles, at: float = NOW) -> str:
        with pytest.raises(LinkSecurityError) as raised:
            Credentials.load(changed, at)
        return str(raised.value)

    assert "is not the key of" in reason(PeerFiles(files.authority, files.certificate, others.key))
    assert "not signed by the authority" in reason(PeerFiles(foreign.certificate_file, files.certificate, files.key))
    assert "not valid now" in reason(files, NOW + 400 * DAY)
    assert "cannot be read" in reason(PeerFiles(files.authority, files.certificate, tmp_path / "nothing"))
    assert "cannot be read" in reason(PeerFiles(files.key, files.certificate, files.key))
    with pytest.raises(LinkSecurityError, match="is there already"):
        authority.create(NOW)
    with pytest.raises(LinkSecurityError, match="letters"):
        authority.issue("../evil", NOW)
    assert files.key.stat().st_mode & 0o077 == 0


def test_a_certificate_of_something_else_names_no_peer(authority: PeerAuthority) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    group = CertifiedGroup(authority.certificate_file.read_bytes())
    own = x509.load_pem_x509_certificate(authority.certificate_file.read_bytes()).public_bytes(Encoding.DER)
    with pytest.raises(CertificateRefusedError):
        group.member(own, NOW)  # the authority's own certificate is no member's
    with pytest.raises(CertificateRefusedError):
        group.member(bytes(5_000), NOW)
    assert PEER_URI.startswith("urn:")


# Packets


class Pair:
    """Two nodes, and what travels between them."""

    def __init__(self, one: Credentials, other: Credentials) -> None:
        self.ends = {"one": Sealing(one), "other": Sealing(other)}
        for sealing in self.ends.values():
            sealing.begin(NOW)
        self.packets: list[bytes] = []

    def send(self, source: str, frame: Any, now: float = NOW) -> list[Any]:
        """Send a frame, and whatever follows from it; the frames that come."""
        target = "other" if source == "one" else "one"
        under_way = [(source, target, packet) for _, packet in self.ends[source].seal(target, frame, now)]
        frames: list[Any] = []
        for _ in range(20):
            if not under_way:
                return frames
            sender, receiver, packet = under_way.pop(0)
            self.packets.append(packet)
            opened = self.ends[receiver].open(sender, packet, now)
            frames += [opened.frame] if opened.frame is not None else []
            under_way += [(receiver, address, reply) for address, reply in opened.replies]
        raise AssertionError("they never stop")


def test_two_nodes_greet_each_other_and_then_only_sealed_packets_travel(seals: Seals) -> None:
    pair = Pair(seals.credentials("alice"), seals.credentials("bob"))
    assert pair.send("one", PING) == [PING]
    pair.packets.clear()
    assert pair.send("one", Ping("alice", 1, 3)) == [Ping("alice", 1, 3)]
    assert pair.send("other", Ping("bob", 1, 3)) == [Ping("bob", 1, 3)]
    assert len(pair.packets) == 2
    assert not any(b"alice" in packet or b"bob" in packet for packet in pair.packets)


def test_changed_repeated_and_foreign_packets_are_refused(seals: Seals) -> None:
    pair = Pair(seals.credentials("alice"), seals.credentials("bob"))
    pair.send("one", PING)
    receiver, (_, packet) = pair.ends["other"], pair.ends["one"].seal("other", PING, NOW)[0]
    for place in range(len(packet)):
        changed = bytearray(packet)
        changed[place] ^= 1
        assert receiver.open("one", bytes(changed), NOW).frame is None
    assert receiver.open("one", packet, NOW).frame == PING
    assert receiver.open("one", packet, NOW).frame is None
    assert receiver.open("elsewhere", packet, NOW + 100).frame is None
    assert receiver.counts.replayed == 2
    third = Sealing(seals.credentials("carol"))
    third.begin(NOW)
    assert third.open("one", packet, NOW).frame is None, "it is for another receiver"


def test_a_member_cannot_speak_in_the_name_of_another(seals: Seals) -> None:
    pair = Pair(seals.credentials("alice"), seals.credentials("bob"))
    assert pair.send("one", Ping("carol", 1, 2)) == []
    assert pair.ends["other"].counts.forged == 1


def test_a_node_that_starts_again_is_heard_and_what_was_recorded_before_is_not(seals: Seals) -> None:
    pair = Pair(seals.credentials("alice"), seals.credentials("bob"))
    pair.send("one", PING)
    recorded_before = list(pair.packets)
    pair.ends["one"] = Sealing(seals.credentials("alice"))
    pair.ends["one"].begin(NOW + 60)
    assert pair.send("other", Ping("bob", 1, 5), NOW + 61) == [], "it greets, and the frame comes again from Pastry"
    assert pair.send("other", Ping("bob", 1, 5), NOW + 62) == [Ping("bob", 1, 5)]
    assert pair.send("one", Ping("alice", 2, 2), NOW + 62) == [Ping("alice", 2, 2)]
    for packet in recorded_before:
        for end in pair.ends.values():
            assert end.open("elsewhere", packet, NOW + 63).frame is None
    assert pair.send("one", Ping("alice", 2, 3), NOW + 64) == [Ping("alice", 2, 3)], "old greetings changed nothing"


def test_who_has_no_certificate_of_the_deployment_is_not_heard(seals: Seals, tmp_path: Path) -> None:
    foreign = PeerAuthority(tmp_path)
    foreign.create(NOW - DAY)
    outsider = Credentials.load(foreign.issue("alice", NOW - DAY, is_renewal=True), NOW)
    pair = Pair(outsider, seals.credentials("bob"))
    assert pair.send("one", PING) == []
    assert pair.ends["other"].counts.refused_certificates == 1


def test_memory_for_strangers_is_bounded(seals: Seals) -> None:
    sealing = Sealing(seals.credentials("alice"))
    sealing.begin(NOW)
    for number in range(5_000):
        for _ in range(3):
            sealing.seal(f"nobody{number}", PING, NOW)
    for _ in range(100):
        sealing.seal("somebody", PING, NOW)
    assert len(sealing._waiting) <= 1_000
    assert sum(map(len, sealing._waiting.values())) <= 16_000
    greeting = Sealing(seals.credentials("bob")).seal("x", PING, NOW)[0][1]
    for number in range(1_000):
        sealing.open(f"stranger{number}", greeting, NOW)
    assert sealing.counts.too_many_greetings >= 700, "checking certificates takes a bounded time"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(garbage=st.binary(max_size=300), kind=st.sampled_from([b"", b"\1", b"\2"]))
def test_garbage_is_refused_without_an_error(seals: Seals, garbage: bytes, kind: bytes) -> None:
    sealing = Sealing(seals.credentials("alice"))
    sealing.begin(NOW)
    assert sealing.open("x", kind + garbage, NOW).frame is None


# Rings


def test_nodes_with_certificates_form_a_ring_that_loses_and_repairs(seals: Seals) -> None:
    ring = ring_of(seals, 16, loss=0.02)
    check_routing(ring, 30)
    ring.hosts["p0003"].crash()
    ring.run_until(ring.is_right, 60.0)
    ring.hosts["p0003"].start()
    ring.run_until(ring.is_right, 60.0)
    check_routing(ring, 30)
    assert ring.sealed["p0003"].waits()


def test_outsiders_and_recordings_change_nothing_on_a_ring(seals: Seals, tmp_path: Path) -> None:
    ring = ring_of(seals, 10)
    packets = recorded(ring)
    for number in range(10):
        ring.send("p0001", "p0002", b"%d" % number)
    ring.world.run_for(10.0)
    played, received = list(packets), list(ring.applications["p0002"].received)
    assert len(received) == 10
    foreign = PeerAuthority(tmp_path)
    foreign.create(0.0, days=36_500)
    outsider = Sealing(Credentials.load(foreign.issue("p0001", 0.0, 36_500, is_renewal=True), DAY))
    outsider.begin(ring.world.clock.now)
    rng = random.Random(1)
    for _, target, packet in played:
        ring.world.network.send("evil", target, packet)
        for _, greeting in outsider.seal(target, PING, ring.world.clock.now):
            ring.world.network.send("evil", target, greeting)
        ring.world.network.send("evil", target, rng.randbytes(rng.randrange(200)))
    ring.world.run_for(60.0)
    assert ring.applications["p0002"].received == received
    assert ring.is_right()
    assert "evil" not in addresses(ring)


Lie = Callable[[Card], Any]


@pytest.mark.parametrize(
    "lie",
    [
        lambda victim: Goodbye(victim.name, victim.life, 2**62, ()),
        lambda victim: Note(victim.name, victim.life, 2**62, is_acknowledged=True, message=b"evil"),
        lambda victim: Acknowledge(victim.name, victim.life, 5, is_joined=True),
        lambda victim: Ping(victim.name, victim.life + 1, 2**62),
    ],
    ids=["goodbye", "note", "acknowledgement", "a later life"],
)
def test_a_member_that_speaks_for_another_is_not_believed(seals: Seals, lie: Lie) -> None:
    ring = ring_of(seals, 8)
    victim = ring.nodes["p0005"].me.card
    liar = ring.sealed["p0003"].sealing
    for name in ring.living:
        if name != "p0003":
            for address, packet in liar.seal(name, lie(victim), ring.world.clock.now):
                ring.world.network.send("p0003", address, packet)
    ring.world.run_for(20.0)
    assert sum(ring.sealed[name].sealing.counts.forged for name in ring.living) == 7
    assert not any(notes.received for notes in ring.applications.values())
    assert ring.is_right()


def test_a_shared_secret_alone_does_not_stop_that() -> None:
    """What the docs say of a closed group: its secret excludes outsiders only."""
    group = ClosedGroup(b"the secret")
    wanted = group.id_of("victim")
    nearest = min((f"try {number}" for number in range(3_000)), key=lambda name: abs(group.id_of(name) - wanted))
    assert abs(group.id_of(nearest) - wanted) < 2**128 // 500, "who tries names gets near any place"


def test_a_sealed_node_gives_its_host_bytes_only(seals: Seals) -> None:
    ring = ring_of(seals, 2)
    node = ring.sealed["p0001"]
    effects = node.handle(DatagramReceived("x", b"\1\1" + bytes(8) + b"nothing"), ring.world.clock.now)
    assert all(isinstance(effect.message, bytes) for effect in effects if isinstance(effect, SendDatagram))
