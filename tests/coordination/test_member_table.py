"""The laws of joining: whoever heard the same knows the same, and nobody comes back from the dead."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldfare.coordination.comparing import Comparing
from fieldfare.coordination.gossip_messages import (
    Announcement,
    Claim,
    Compare,
    Digest,
    EndpointCount,
    Fact,
    Health,
    News,
    OfferNews,
    Tell,
    gossip_codec,
)
from fieldfare.coordination.member_table import MemberState, MemberTable
from fieldfare.coordination.packing import DATAGRAM_BYTES, PART_BYTES, news_of, size_of
from fieldfare.messages import Member, TopicOffer
from fieldfare.qos import Offered

NAMES = ("ann", "bob")
VERSIONS = 6
INCARNATIONS = 3  # of each life


def fact_at(life: int, version: int) -> Fact:
    """What a member said as its n-th fact in a life; some replace others."""
    if version % 3 == 1:
        return Announcement(f"{life}.{version}", Member("m", "edge", load=version / 10))
    return EndpointCount(("t", f"topic{version % 3}"), version, 0, is_owed=version % 2 == 0)


def facts_between(life: int, after: int, upto: int) -> list[tuple[int, Fact]]:
    """What is left of the facts after a version and up to another."""
    left = {fact_at(life, version).topic: version for version in range(1, upto + 1)}
    return [(version, fact_at(life, version)) for version in sorted(left.values()) if version > after]


@st.composite
def news(draw: st.DrawFn, *, is_whole: bool = True) -> News:
    """Something that could be heard: a member, in one of its lives, as somebody knew it at some time."""
    life = 100 * draw(st.integers(1, 3))
    incarnation = life + draw(st.integers(0, INCARNATIONS - 1))
    # Whoever is retired and returns, returns as another life: so only the last of one can be that.
    healths = [health for health in Health if health < Health.RETIRED or incarnation == life + INCARNATIONS - 1]
    health = draw(st.sampled_from(healths))
    at = draw(st.integers(1, 3)) if health > Health.SUSPECTED else 0
    upto = draw(st.integers(0, VERSIONS))
    after = 0 if is_whole else draw(st.integers(0, upto))
    claim = Claim(incarnation, health, at, life)
    return News(draw(st.sampled_from(NAMES)), claim, after, upto, facts_between(life, after, upto), upto)


offers = st.builds(
    OfferNews,
    st.tuples(st.just("t"), st.sampled_from(["x", "y"])),
    st.builds(TopicOffer, st.builds(Offered, order=st.sampled_from(["none", "publisher"])), version=st.integers(0, 3)),
)
heard = st.lists(st.one_of(news(), offers), max_size=8)


def table_of(*messages: News | OfferNews) -> MemberTable:
    table = MemberTable(100, 100)
    for message in messages:
        if isinstance(message, News):
            table.join(message)
        else:
            table.join_offer(message)
    return table


def joined(*tables: MemberTable) -> MemberTable:
    return table_of(*(each for table in tables for each in contents(table)))


def contents(table: MemberTable) -> list[News | OfferNews]:
    states = [piece for state in table.members.values() for piece in news_of(state, 0, 99)]
    return [*states, *(OfferNews(topic, offer) for topic, offer in table.offers.items())]


def known(table: MemberTable) -> object:
    states = {name: (state.claim, state.version, state.facts) for name, state in table.members.items()}
    return states, table.offers, table.hash, table.hashes


@given(heard, st.randoms(use_true_random=False))
def test_the_order_and_repetitions_do_not_matter(messages: list[News | OfferNews], rng: random.Random) -> None:
    again = [*messages, *rng.sample(messages, len(messages) // 2)]
    rng.shuffle(again)
    assert known(table_of(*messages)) == known(table_of(*again))


@given(heard, heard, heard)
def test_joining_tables_is_commutative_associative_and_idempotent(
    one: list[News | OfferNews], two: list[News | OfferNews], three: list[News | OfferNews]
) -> None:
    a, b, c = table_of(*one), table_of(*two), table_of(*three)
    assert known(joined(a, b)) == known(joined(b, a))
    assert known(joined(joined(a, b), c)) == known(joined(a, joined(b, c)))
    assert known(joined(a, a)) == known(a)


@given(st.lists(news(is_whole=False), max_size=12))
def test_ranges_bring_nothing_that_whole_states_would_not(messages: list[News]) -> None:
    table = table_of(*messages)
    for state in table.members.values():
        expected = facts_between(state.claim.life, 0, state.version)
        assert state.facts_after(0) == expected
        if state.claim.health is Health.RETIRED:
            assert not expected


@given(st.lists(news(), min_size=1, max_size=12))
def test_a_dead_incarnation_never_returns(messages: list[News]) -> None:
    table = MemberTable(100, 100)
    buried: dict[str, int] = {}
    for message in messages:
        table.join(message)
        claim = table.members[message.name].claim
        assert claim.incarnation > buried.get(message.name, -1) or claim.health > Health.SUSPECTED
        if claim.health > Health.SUSPECTED:
            buried[message.name] = claim.incarnation


# Comparing


def exchange(one: MemberTable, other: MemberTable, rng: random.Random) -> int:
    """Let two members compare notes, as they would by datagrams; how many of these it took."""
    tables = {"one": one, "other": other}
    ends = {name: Comparing(name, table, rng) for name, table in tables.items()}
    codec = gossip_codec()
    flying = [("one", effect) for effect in ends["other"].compare("one", ends["one"].hash, is_stranger=False)]
    count = 0
    while flying:
        to, effect = flying.pop(0)
        packet = codec.encode_line(effect.message)
        assert len(packet) <= DATAGRAM_BYTES
        count += 1
        message, back = codec.decode_packet(packet), "one" if to == "other" else "other"
        answers = []
        match message:
            case Compare():
                answers = ends[to].digests(back, message)
            case Digest():
                answers = ends[to].answer(back, message)
            case Tell():
                for news_ in message.news:
                    tables[to].join(news_)
                for offer in message.offers:
                    tables[to].join_offer(offer)
        flying += [(back, answer) for answer in answers]
    return count


@given(heard, heard, st.randoms(use_true_random=False))
def test_two_members_that_compared_notes_know_the_same(
    one: list[News | OfferNews], other: list[News | OfferNews], rng: random.Random
) -> None:
    a, b = table_of(*one), table_of(*other)
    both = known(joined(a, b))
    count = exchange(a, b, rng)
    assert known(a) == known(b) == both
    assert exchange(a, b, rng) == 0
    assert count <= 7  # a digest; news, offers and a question for either; news and offers


def large(names: Iterable[str], stamp: int) -> MemberTable:
    table = MemberTable(10_000, 10_000)
    for name in names:
        state = MemberState(name)
        state.begin_life(stamp, [Announcement("10.0.0.1:7000", Member(name, "edge", url=f"https://{name}.example"))])
        table.join(news_of(state, 0, 1)[0])
    return table


def test_large_tables_are_compared_by_their_buckets() -> None:
    rng, shared = random.Random(0), [f"edge-{number}" for number in range(400)]
    one, other = large([*shared, "only-one"], 10), large([*shared, "only-other"], 10)
    assert exchange(one, other, rng) <= 8
    assert one.members.keys() == other.members.keys()
    empty = MemberTable(10_000, 10_000)
    for _ in range(8):  # an answer is limited, and brings something else each time
        exchange(empty, one, rng)
    assert empty.members.keys() == one.members.keys()


@pytest.mark.parametrize("count", [0, 1, 30, 500])
def test_what_a_member_says_is_sent_in_pieces_that_fit(count: int) -> None:
    state = MemberState("edge")
    state.begin_life(7, [EndpointCount(("tenant", f"topic-{number:04}"), 1, 1) for number in range(count)])
    pieces = news_of(state, 0, 99)
    assert all(size_of(piece) <= PART_BYTES for piece in pieces)
    taken = MemberState("edge")
    assert [taken.join(piece).is_incomplete for piece in pieces] == [False] * len(pieces)
    assert (taken.version, taken.facts) == (state.version, state.facts)
    if count == 500:
        few, later = news_of(state, 0, 2), MemberState("edge")
        assert [later.join(piece).is_incomplete for piece in few] == [False, True]
        assert MemberState("edge").join(pieces[1]).is_incomplete  # it does not continue what is known
