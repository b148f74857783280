"""The parts of a tree broker alone, in whatever order things come: wants, advertisements, the edge's own side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.overlay.trees import TOPIC

from fieldfare.language import compile  # noqa: A004 - see there
from fieldfare.messages import (
    Advertisement,
    AdvertisementEnded,
    AdvertisementKnown,
    BrokerFrame,
    Join,
    Leave,
    Resume,
    Taken,
    Want,
    WantMet,
)
from fieldfare.overlay.covering import EVERYTHING, Covering
from fieldfare.routing.tree.advertisements import LOCAL, AdvertisementPorts, TreeAdvertisements
from fieldfare.routing.tree.local_edge import LocalEdge, LocalPorts
from fieldfare.routing.tree.streams import OriginStream, Passed
from fieldfare.routing.tree.wants import TopicWants, WantPorts

LINKS = ("a", "b", "c")
SIDES = (LOCAL, *LINKS)
VALUES = range(12)


def covering(low: int, high: int) -> Covering:
    return Covering.of([compile(f"n >= {low} AND n < {high}")]) if low < high else Covering()


def taken_by(wanted: Covering) -> set[int]:
    """The values that a covering takes; all conditions here are about whole numbers."""
    points = {n: compile(f"n = {n}").boxes[0] for n in VALUES}
    return {n for n in VALUES if wanted.covers(points[n])}


class Wants:
    """The wants of a topic, with an account of all that was said."""

    def __init__(self, boxes_max: int) -> None:
        self.now = 0.0
        self.open = set(LINKS)
        self.advertised: dict[str, Covering] = {}
        self.said: dict[str, dict[int, Covering]] = {side: {} for side in SIDES}  # by version
        self.asked: dict[str, dict[int, Covering]] = {link: {} for link in LINKS}
        self.published: dict[str, dict[int, set[int]]] = {link: {} for link in LINKS}  # by version: while it was newest
        self.met: dict[str, int] = dict.fromkeys(LINKS, 0)
        ports = WantPorts(
            self._send,
            lambda: sorted(self.open),
            lambda side: [self.advertised[side]] if side in self.advertised else [],
            lambda _: None,
            lambda version: self._told(LOCAL, version),
        )
        self.wants = TopicWants(TOPIC, boxes_max, 1.0, ports)

    def _send(self, link: str, frame: object) -> None:
        match frame:
            case Want(_, version, wanted):
                assert version == max(self.asked[link], default=0) + 1
                self.asked[link][version] = Covering.decode(wanted)
                self.published[link][version] = self.publishable(link)
            case WantMet(_, version):
                self._told(link, version)

    def _told(self, side: str, version: int) -> None:
        """A side is told that its want is met: all others have met what covers it, where it may be published."""
        assert version == max(self.said[side])
        needed = taken_by(self.said[side][version])
        for link in self.open - {side}:
            for_sure = [taken_by(self.asked[link][each]) for each in self.asked[link] if each <= self.met[link]]
            assert needed & self.publishable(link) <= (for_sure[-1] if for_sure else set())

    def publishable(self, link: str) -> set[int]:
        return taken_by(self.advertised[link]) if link in self.advertised else set()

    # What happens

    def want(self, side: str, wanted: Covering) -> None:
        if side in self.open or side == LOCAL:
            version = max(self.said[side], default=0) + 1
            self.said[side][version] = wanted
            self.wants.want(side, version, wanted, self.now)

    def meet(self, link: str, fewer: int) -> None:
        """A neighbour says that it has met a version."""
        version = max(self.asked[link], default=0) - fewer
        if link in self.open and version > self.met[link]:
            self.met[link] = version
            self.wants.met(link, WantMet(TOPIC, version))

    def advertise(self, link: str, published: Covering) -> None:
        if link in self.open:
            before = self.publishable(link)
            self.advertised[link] = published
            self.wants.advertised(link)
            if before - self.publishable(link):
                self.wants.shrunk(link, self.now)

    def close(self, link: str) -> None:
        """A link ends, and another one to the same neighbour is open at once."""
        self.open.discard(link)
        self.advertised.pop(link, None)
        self.said[link], self.asked[link], self.published[link], self.met[link] = {}, {}, {}, 0
        self.wants.closed(link, self.now)
        self.open.add(link)

    def tidy(self) -> None:
        self.now += 0.6
        self.wants.tidy(self.now)

    # What holds at every moment

    def check(self) -> None:
        for link in self.open:
            newest = taken_by(self.asked[link][max(self.asked[link])]) if self.asked[link] else set()
            for side in SIDES:
                if side != link and self.said[side]:
                    wanted = taken_by(self.said[side][max(self.said[side])]) & self.publishable(link)
                    assert wanted <= newest, f"what {side!r} wants is not asked of {link!r}"
            if self.asked[link]:
                self.published[link][max(self.asked[link])] = self.publishable(link)
            for version, asked in self.asked[link].items():
                for side in SIDES:
                    if side != link and (included := self.wants.included(link, version, side)):
                        relied_on = taken_by(self.said[side][included]) & self.published[link][version]
                        assert relied_on <= taken_by(asked), "a version is relied on that is not covered"


def test_a_side_is_told_that_its_want_is_met_when_the_neighbour_has_met_it() -> None:
    wants = Wants(boxes_max=64)
    wants.advertise("a", EVERYTHING)
    wants.want("b", covering(0, 5))
    assert wants.wants.met_of("b") == -1
    wants.meet("a", 0)
    assert wants.wants.met_of("b") == 1


def test_a_stream_is_relied_on_only_for_what_it_was_matched_with() -> None:
    wants = Wants(boxes_max=64)
    wants.advertise("a", EVERYTHING)
    wants.want("b", covering(0, 5))
    wants.want("b", covering(0, 9))
    assert [wants.wants.included("a", version, "b") for version in (1, 2)] == [1, 2]
    wants.want("b", covering(2, 4))  # needs no new version
    assert [wants.wants.included("a", version, "b") for version in (1, 2)] == [1, 3]


BOUNDS = st.tuples(st.integers(0, 11), st.integers(0, 12)).map(lambda pair: covering(*pair))
WANT_STEPS = st.one_of(
    st.tuples(st.just("want"), st.sampled_from(SIDES), BOUNDS),
    st.tuples(st.just("meet"), st.sampled_from(LINKS), st.integers(0, 2)),
    st.tuples(st.just("advertise"), st.sampled_from(LINKS), st.one_of(BOUNDS, st.just(EVERYTHING))),
    st.tuples(st.just("close"), st.sampled_from(LINKS)),
    st.tuples(st.just("tidy")),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(WANT_STEPS, max_size=25), st.sampled_from((1, 2, 64)))
def test_what_is_asked_and_relied_on_covers_what_is_wanted(steps: list[tuple[Any, ...]], boxes_max: int) -> None:
    wants = Wants(boxes_max)
    for what, *arguments in steps:
        getattr(wants, what)(*arguments)
        wants.check()
    for link in LINKS:  # when all have answered, all are told, and nothing more is asked than is needed
        wants.meet(link, 0)
    for _ in range(4):
        wants.tidy()
        for link in LINKS:
            wants.meet(link, 0)
    wants.check()
    for side in SIDES:
        assert wants.wants.met_of(side) == max(wants.said[side], default=-1)
    for link in LINKS:
        if wants.asked[link] and boxes_max > 2:
            wanted = [taken_by(said[max(said)]) for side, said in wants.said.items() if side != link and said]
            newest = taken_by(wants.asked[link][max(wants.asked[link])])
            assert newest & wants.publishable(link) == set().union(*wanted) & wants.publishable(link)


# Advertisements


class Advertisers:
    """Brokers in a row with advertisements; frames travel when they are delivered."""

    def __init__(self, count: int) -> None:
        self.queues: dict[tuple[int, int], list[Any]] = {}  # by sender and receiver
        self.up = {(number, number + 1) for number in range(count - 1)}
        self.known: set[int] = set()  # who was told that its own advertisement is known to all
        self.joined: set[int] = set()  # who has come within reach of others since it advertised
        self.parts = [self._part(number) for number in range(count)]
        for hop in self.up:
            self.queues[hop] = []
            self.queues[hop[::-1]] = []

    def _part(self, number: int) -> TreeAdvertisements:
        def links() -> list[str]:
            return [str(other) for hop in sorted(self.up) if number in hop for other in hop if other != number]

        def send(link: str, frame: object) -> None:
            if (number, int(link)) in self.queues:
                self.queues[number, int(link)].append(frame)

        nothing: Callable[..., None] = lambda *_: None  # noqa: E731 - it stands for six ports
        known: Callable[..., None] = lambda _: self.known.add(number)  # noqa: E731
        part = TreeAdvertisements(
            AdvertisementPorts(send, links, nothing, nothing, nothing, nothing, nothing, known)  # all but `known`
        )
        part.log_id = f"log{number}"
        return part

    def advertise(self, number: int, published: Covering) -> None:
        before = self.parts[number].of_topic(TOPIC).get(f"log{number}")
        if before is None or before.published != published:  # else nothing is told again
            self.known.discard(number)
            self.joined.discard(number)
        self.parts[number].advertise(TOPIC, published, None, is_owed=False)

    def deliver(self, choice: int) -> bool:
        waiting = [hop for hop, frames in self.queues.items() if frames]
        if waiting:
            sender, receiver = waiting[choice % len(waiting)]
            frame = self.queues[sender, receiver].pop(0)
            part, link = self.parts[receiver], str(sender)
            match frame:
                case Advertisement():
                    part.received(link, frame)
                case AdvertisementKnown():
                    part.known(link, frame)
                case AdvertisementEnded():
                    part.ended(link, frame)
        return bool(waiting)

    def change_link(self, hop: tuple[int, int]) -> None:
        if hop in self.up:
            self.up.discard(hop)
            for pair in (hop, hop[::-1]):
                del self.queues[pair]
            for one, other in (hop, hop[::-1]):
                self.parts[one].closed(str(other))
        else:
            self.up.add(hop)
            self.queues[hop], self.queues[hop[::-1]] = [], []
            for one, other in (hop, hop[::-1]):
                self.parts[one].opened(str(other))
            self.joined |= self.reached(hop[0])

    def reached(self, number: int) -> set[int]:
        found = {number}
        for _ in self.parts:
            found |= {each for hop in self.up if found.intersection(hop) for each in hop}
        return found

    def check(self) -> None:
        """Whose advertisement is said to be known has been heard by all; and events pass only where it is known."""
        for number in self.known - self.joined:
            own = self.parts[number].of_topic(TOPIC)[f"log{number}"].frame
            for other in self.reached(number):
                heard = self.parts[other].of_topic(TOPIC).get(f"log{number}")
                assert heard is not None
                assert heard.frame == own
        for one, other in [*self.up, *(hop[::-1] for hop in self.up)]:
            for origin, advertised in self.parts[one].of_topic(TOPIC).items():
                if advertised.side != str(other) and self.parts[one].may_pass(TOPIC, origin, str(other)):
                    heard = self.parts[other].of_topic(TOPIC).get(origin)
                    assert heard is not None
                    assert all(map(heard.published.covers, advertised.published.boxes))


HOPS = st.sampled_from([(0, 1), (1, 2), (2, 3)])
PUBLISHED = st.sampled_from([Covering(), covering(0, 5), covering(3, 8), EVERYTHING])
AD_STEPS = st.one_of(st.tuples(st.integers(0, 3), PUBLISHED), HOPS, st.integers(0, 11), st.integers(0, 11))


@settings(max_examples=200, deadline=None)
@given(st.lists(AD_STEPS, max_size=40))
def test_an_advertisement_is_known_exactly_when_all_have_it(steps: list[Any]) -> None:
    row = Advertisers(4)
    for step in steps:
        if isinstance(step, int):
            row.deliver(step)
        elif isinstance(step[1], Covering):
            row.advertise(*step)
        else:
            row.change_link(step)
        row.check()
    while row.deliver(0):
        row.check()
    for number, part in enumerate(row.parts):
        own = part.of_topic(TOPIC).get(f"log{number}")
        assert own is None or not own.unknown_to  # all have answered
        assert {int(log[3:]) for log in part.of_topic(TOPIC)} <= row.reached(number)
        for other in row.reached(number):
            theirs = row.parts[other].of_topic(TOPIC).get(f"log{other}")
            heard = part.of_topic(TOPIC).get(f"log{other}")
            assert (heard and heard.frame) == (theirs and theirs.frame)
            assert heard is None or not heard.closed_to  # events may be passed on everywhere


def test_no_events_are_passed_on_before_the_neighbour_knows_where_they_come_from() -> None:
    row = Advertisers(3)
    row.advertise(0, EVERYTHING)
    row.check()
    while row.deliver(0):
        row.check()
    assert row.known == {0}


# The edge's own side


def test_reading_a_log_for_this_edge_ends_when_it_has_come_to_where_the_stream_is() -> None:
    passed_on: list[BrokerFrame] = []
    stream = OriginStream("origin", "link", 9, {LOCAL: Passed(5, 1, 5)})
    ports = LocalPorts(
        lambda _: None,
        lambda _, frame: passed_on.append(frame),
        lambda _: None,
        lambda _: None,
        lambda _: [],
        lambda _topic, _origin: stream,
        lambda _: 1,
        lambda _topic, _log: False,
    )
    local = LocalEdge(ports)
    local.log_id = "edge"
    local.said(Join(TOPIC, "edge", 1, EVERYTHING.encode()))
    local.said(Resume(TOPIC, "origin", "edge", 2, 1))
    assert [type(frame) for frame in passed_on] == [Join, Resume]
    local.said(Taken(TOPIC, "origin", "edge", 4))
    assert passed_on[2:] == [Taken(TOPIC, "origin", "edge#~", 4)]
    local.said(Taken(TOPIC, "origin", "edge", 5))  # from here on it has what the stream brings
    assert passed_on[3:] == [Taken(TOPIC, "origin", "edge#~", 5), Leave(TOPIC, "edge#~")]
    local.said(Taken(TOPIC, "origin", "edge", 7))
    assert len(passed_on) == 5
