"""Histories that keep a promise and that break it, made by hand: the checkers tell them apart."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import Raw

from fieldfare.errors import BrokenPromiseError
from fieldfare.messages import Attach, Delivery, Subscribe
from fieldfare.qos import Offered, Requested
from fieldfare.simulation.checkers import check_liveness, check_safety, check_standing
from fieldfare.simulation.history import TENANT, History, Publication, Reception, Standing

TOPIC = "traffic"
NOW = 100.0


def content(number: int) -> bytes:
    return b'{"number":%d}' % number


def delivery(number: int, publisher: str = "bob") -> Delivery:
    return Delivery(number, str(number), 0.0, Raw(content(number)), publisher)


def accepted(at: float, *numbers: int, seconds: float = 0.1) -> Publication:
    return Publication("bob", TOPIC, tuple(map(content, numbers)), at, "accepted", at + seconds)


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
