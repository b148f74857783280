"""Histories that keep a promise and that break it, made by hand: the checkers tell them apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec import Raw, structs

from fieldfare.errors import BrokenPromiseError
from fieldfare.messages import Attach, Delivery, Subscribe
from fieldfare.qos import Offered, Requested
from fieldfare.simulation.checkers import check_liveness, check_safety, check_standing
from fieldfare.simulation.history import TENANT, History, LostDisk, Publication, Reception, Removal, Standing

TOPIC = "traffic"
NOW = 100.0


def content(number: int) -> bytes:
    return b'{"number":%d}' % number


def delivery(number: int, publisher: str = "bob") -> Delivery:
    return Delivery(number, str(number), 0.0, Raw(content(number)), publisher)


def accepted(at: float, *numbers: int, seconds: float = 0.1, edge: str | None = "") -> Publication:
    events = tuple(map(content, numbers))
    return Publication("bob", TOPIC, events, at, "accepted", at + seconds, client="bob", edge=edge)


def reception(confirmed_at: float | None, *numbers: int, **request: object) -> Reception:
    asked = Subscribe(0, TOPIC, "TRUE", **request)  # type: ignore[arg-type]
    return Reception("alice", asked, "id", confirmed_at, events=list(map(delivery, numbers)))


def judge(history: History) -> None:
    check_safety(history)
    check_liveness(history, NOW)
    check_standing(history)


def broken(history: History) -> str:
    with pytest.raises(BrokenPromiseError) as found:
        judge(history)
    return found.value.kind


def test_what_is_published_after_the_confirmation_has_to_come() -> None:
    publications = [accepted(1.0, 1), accepted(3.0, 2)]
    judge(History(publications, [reception(2.0, 2)]))
    assert broken(History(publications, [reception(2.0)])) == "lost"
    assert broken(History(publications, [reception(2.0, 2, 2)])) == "duplicated"
    assert broken(History(publications, [reception(2.0, 2, 3)])) == "unexpected"
    assert broken(History(publications, [reception(0.0, 2, 1)])) == "reordered"


def test_who_begins_with_what_is_alive_gets_that_too() -> None:
    transient = Requested(durability="transient")
    publications = [accepted(1.0, 1), accepted(3.0, 2)]
    judge(History(publications, [reception(2.0, 1, 2, qos=transient)]))
    late = History(publications, [reception(2.0, 2, qos=transient)])
    assert broken(late) == "lost"
    late.offered[TENANT, TOPIC] = Offered(lifespan_seconds=98.0)  # the first has expired
    judge(late)
    late.offered.clear()
    late.spark_topics.add((TENANT, TOPIC))  # its events are matched with those who subscribed before
    judge(late)


def test_who_keeps_the_last_gets_the_last() -> None:
    last = Requested(keep_last=1)
    publications = [accepted(1.0, 1), accepted(2.0, 2), accepted(3.0, 3, 4)]
    judge(History(publications, [reception(0.0, 4, qos=last)]))
    assert broken(History(publications, [reception(0.0, 1, 2, 3, qos=last)])) == "lost"
    assert broken(History(publications, [reception(0.0, qos=last)])) == "lost"


def test_the_last_is_not_known_where_publications_overlap() -> None:
    last = Requested(keep_last=1)
    publications = [accepted(1.0, 1, seconds=5.0), accepted(3.0, 2)]
    judge(History(publications, [reception(0.0, 1, qos=last)]))
    judge(History(publications, [reception(0.0, 2, qos=last)]))
    assert broken(History(publications, [reception(0.0, qos=last)])) == "lost"


def test_tenants_have_nothing_in_common() -> None:
    mine, theirs = accepted(1.0, 1), accepted(1.0, 2)
    theirs.tenant = "other"
    judge(History([mine, theirs], [reception(0.0, 1)]))
    assert broken(History([mine, theirs], [reception(0.0, 1, 2)])) == "unexpected"


def test_a_name_that_is_used_again_is_another_subscription() -> None:
    first, second = reception(0.0, name="all"), reception(2.0, 2, name="all")
    first.ended_at, first.unsubscription = 0.5, "accepted"
    history = History([accepted(1.0, 1), accepted(3.0, 2)], [first, second])
    judge(history)
    second.events.clear()
    assert broken(history) == "lost"


def test_an_end_that_was_asked_for_has_to_be_answered() -> None:
    ended = reception(0.0)
    ended.ended_at, ended.unsubscription = 1.0, "waiting"
    assert broken(History([], [ended])) == "unanswered"


def named(**changes: object) -> Reception:
    made = reception(0.0, name="all")
    for attribute, value in changes.items():
        setattr(made, attribute, value)
    return made


DURABLE = Standing(TENANT, TOPIC, "all", is_durable=True)
UNNAMED = Standing(TENANT, TOPIC, "edge.1", is_durable=False)


@pytest.mark.parametrize(
    ("receptions", "standing", "kind"),
    [
        ([named()], [DURABLE], None),
        ([named()], [], "lost"),
        ([named(ended_at=1.0)], [], "lost"),  # its client has crashed, but it lives
        ([named(ended_at=1.0, unsubscription="accepted")], [], None),
        ([named(ended_at=1.0, unsubscription="accepted")], [DURABLE], "unexpected"),
        ([named(ended_at=1.0, unsubscription="unknown")], [DURABLE], None),
        ([named(ended_at=1.0, unsubscription="unknown")], [], None),
        ([named(ended_at=1.0, confirmed_at=None)], [], None),
        ([named(ended_at=1.0, confirmed_at=None)], [DURABLE], None),
        ([named(), named(request=Attach(0, "all"), ended_at=1.0, unsubscription="accepted")], [], None),
        ([reception(0.0)], [UNNAMED], None),
        ([reception(0.0)], [], "lost"),
        ([], [UNNAMED], "unexpected"),
    ],
)
def test_the_edge_has_the_subscriptions_that_it_should_have(
    receptions: list[Reception], standing: list[Standing], kind: str | None
) -> None:
    history = History([], receptions, standing=standing)
    if kind is None:
        judge(history)
    else:
        assert broken(history) == kind


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda _: None, None),
        (lambda history: history.dead_letters[TENANT, "hook"].clear(), "lost"),
        (lambda history: history.refused["url"].clear(), "unexpected"),
        (lambda history: history.called["url"].clear(), "lost"),
    ],
)
def test_what_a_webhook_refuses_is_a_dead_letter(change: Callable[[History], None], kind: str | None) -> None:
    history = History(
        [accepted(1.0, 1), accepted(2.0, 2)],
        [reception(0.0, name="hook", webhook="url")],
        called={"url": [delivery(1)]},
        refused={"url": [delivery(2)]},
        dead_letters={(TENANT, "hook"): [delivery(2)]},
    )
    change(history)
    if kind is None:
        judge(history)
    else:
        assert broken(history) == kind


def test_a_publication_without_an_answer_is_a_broken_promise() -> None:
    waiting = Publication("bob", TOPIC, (content(1),), 1.0)
    assert broken(History([waiting])) == "unanswered"
    waiting.outcome = "unknown"  # its client has crashed
    judge(History([waiting], [reception(0.0)]))
    judge(History([waiting], [reception(0.0, 1)]))


# Several edges


def at_edge(received: Reception, edge: str) -> Reception:
    received.edge = edge
    return received


def test_what_is_accepted_at_one_edge_has_to_come_at_every_other_once() -> None:
    publications = [accepted(1.0, 1, edge="a"), accepted(3.0, 2, edge="b"), accepted(4.0, 3, edge="a")]
    judge(History(publications, [at_edge(reception(0.0, 1, 2, 3), edge) for edge in "abc"]))
    for edge in "abc":
        assert broken(History(publications, [at_edge(reception(0.0, 1, 3), edge)])) == "lost"
        assert broken(History(publications, [at_edge(reception(0.0, 1, 2, 3, 2), edge)])) == "duplicated"
        assert broken(History(publications, [at_edge(reception(0.0, 1, 2, 3, 4), edge)])) == "unexpected"


def test_a_publisher_has_one_order_at_whatever_edges_it_publishes() -> None:
    """One that moves keeps its name; a client that goes to another edge without that has another one there."""
    publications = [accepted(1.0, 1, 2, edge="a"), accepted(2.0, 3, 4, edge="b"), accepted(3.0, 5, edge="a")]
    judge(History(publications, [reception(0.0, 1, 2, 3, 4, 5)]))
    for numbers in ((3, 1, 4, 2, 5), (1, 2, 5, 3, 4), (3, 2, 4, 1, 5), (1, 2, 5, 4, 3), (5, 1, 2, 3, 4)):
        assert broken(History(publications, [reception(0.0, *numbers)])) == "reordered"


def test_a_publication_of_which_nobody_knows_which_edge_has_it_comes_anywhere_but_once() -> None:
    doubtful = accepted(2.0, 2, edge=None)
    doubtful.outcome = "unknown"
    publications = [accepted(1.0, 1, edge="a"), doubtful, accepted(3.0, 3, edge="b")]
    for numbers in ((1, 3), (2, 1, 3), (1, 2, 3), (1, 3, 2)):
        judge(History(publications, [reception(0.0, *numbers)]))
    assert broken(History(publications, [reception(0.0, 2, 1, 2, 3)])) == "duplicated"


def test_early_events_may_come_to_a_volatile_subscription_but_once() -> None:
    publications = [accepted(1.0, 1, edge="far"), accepted(3.0, 2, edge="near")]
    judge(History(publications, [at_edge(reception(2.0, 1, 2), "near")]))
    assert broken(History(publications, [at_edge(reception(2.0, 1, 2, 1), "near")])) == "duplicated"


def test_who_begins_with_what_is_alive_gets_that_of_every_edge() -> None:
    transient = Requested(durability="transient")
    publications = [accepted(1.0, 1, edge="far"), accepted(1.0, 2, edge="near")]
    judge(History(publications, [at_edge(reception(5.0, 1, 2, qos=transient), "near")]))
    assert broken(History(publications, [at_edge(reception(5.0, 2, qos=transient), "near")])) == "lost"


def test_the_last_is_the_last_of_one_of_the_edges() -> None:
    last = Requested(keep_last=1)
    publications = [accepted(1.0, 1, edge="a"), accepted(2.0, 2, edge="a"), accepted(3.0, 3, edge="b")]
    judge(History(publications, [reception(0.0, 2, qos=last)]))
    judge(History(publications, [reception(0.0, 3, qos=last)]))
    assert broken(History(publications, [reception(0.0, 1, qos=last)])) == "lost"


def test_best_effort_is_at_most_once_for_what_was_sent_once() -> None:
    best_effort = Requested(reliability="best_effort")
    publication = accepted(1.0, 1, edge="a")
    history = History([publication], [reception(0.0, 1, 1, qos=best_effort)])
    history.offered[TENANT, TOPIC] = Offered(reliability="best_effort")
    judge(history)  # for all that is known, its client sent it twice
    publication.is_sent_once = True
    assert broken(history) == "duplicated"
    history.receptions[0].events.pop()
    judge(history)
    history.receptions[0].events.clear()
    judge(history)


# Faults that have not ended, disks that were lost, logs that forget


def test_only_those_are_judged_who_suffer_from_no_lasting_fault() -> None:
    waiting = Publication("carol-1", TOPIC, (content(9),), 1.0, client="carol", edge="b")
    history = History(
        [accepted(1.0, 1, edge="a"), accepted(2.0, 2, edge="b"), waiting],
        [at_edge(reception(0.0, 1), "a"), at_edge(reception(0.0), "b"), at_edge(reception(None), "b")],
    )
    assert broken(history) == "unanswered"
    check_liveness(history, NOW, among={"alice", "bob", "a"})
    with pytest.raises(BrokenPromiseError, match="lost"):
        check_liveness(replace(history, receptions=history.receptions[:2]), NOW, among={"alice", "bob", "a", "b"})
    history.receptions[0].events.clear()
    with pytest.raises(BrokenPromiseError, match="lost"):
        check_liveness(history, NOW, among={"alice", "bob", "a"})


def test_what_was_on_a_lost_disk_may_be_missing_but_nothing_else() -> None:
    publications = [accepted(1.0, 1, edge="a"), accepted(3.0, 2, edge="a"), accepted(5.0, 3, edge="a")]
    elsewhere = accepted(3.0, 4, edge="b")
    wiped, old = LostDisk("a", -math.inf, 4.0), LostDisk("a", 2.0, 4.0)

    def history(lost: LostDisk, *numbers: int) -> History:
        return History([*publications, elsewhere], [at_edge(reception(0.0, *numbers), "c")], lost_disks=[lost])

    judge(history(wiped, 3, 4))
    judge(history(old, 1, 3, 4))
    judge(history(wiped, 1, 2, 3, 4))
    assert broken(history(old, 3, 4)) == "lost"
    assert broken(history(wiped, 3)) == "lost"
    assert broken(history(wiped, 4)) == "lost"


def test_a_subscription_at_an_edge_that_lost_its_disk_begins_anew() -> None:
    publications = [accepted(1.0, 1, edge="a"), accepted(5.0, 2, edge="a")]
    received = at_edge(reception(0.0, 1), "b")
    received.restart(at=3.0)
    received.events += [delivery(1), delivery(2)]  # its edge has no cursor any more: it may get again what it had
    history = History(publications, [received], lost_disks=[LostDisk("b", -math.inf, 3.0)])
    judge(history)
    received.confirmed_again_at = 4.0
    judge(history)
    received.events.append(delivery(2))
    assert broken(history) == "duplicated"
    del received.events[2:]
    assert broken(history) == "lost"
    received.confirmed_again_at = None  # it may never have been confirmed again: nothing is promised
    judge(history)


def test_what_left_a_log_that_was_too_large_may_be_missing() -> None:
    publications = [accepted(1.0, 1, edge="a"), accepted(5.0, 2, edge="a")]
    for edge in "ab":  # the publisher's, and the subscriber's
        history = History(publications, [at_edge(reception(0.0, 2), "b")], removals=[Removal(edge, TENANT, TOPIC, 3.0)])
        judge(history)
        history.receptions[0].events.clear()
        assert broken(history) == "lost"
    elsewhere = History(publications, [at_edge(reception(0.0, 2), "b")], removals=[Removal("c", TENANT, TOPIC, 3.0)])
    assert broken(elsewhere) == "lost"


def test_clocks_that_are_wrong_let_events_live_shorter() -> None:
    history = History([accepted(1.0, 1)], [reception(0.0)])
    history.offered[TENANT, TOPIC] = Offered(lifespan_seconds=110.0)
    with pytest.raises(BrokenPromiseError, match="lost"):
        check_liveness(history, NOW, clock_error_seconds=10.0)
    check_liveness(history, NOW, clock_error_seconds=12.0)


def test_a_webhook_of_an_edge_that_lost_its_disk_may_be_called_again() -> None:
    history = History(
        [accepted(1.0, 1), accepted(2.0, 2)],
        [at_edge(reception(0.0, name="hook", webhook="url"), "a")],
        called={"url": [delivery(1), delivery(2), structs.replace(delivery(1), position=7)]},
    )
    assert broken(history) == "duplicated"
    history.lost_disks.append(LostDisk("a", -math.inf, 3.0))
    judge(history)
