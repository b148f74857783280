"""Requested against offered, in every combination, against a table of what DDS says."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from fieldfare.qos import LIFESPAN_SECONDS, Durability, Offered, Order, Published, Reliability, Requested, broken, unmet

RELIABILITIES: list[Reliability] = ["best_effort", "reliable"]
DURABILITIES: list[Durability] = ["volatile", "transient"]
ORDERS: list[Order] = ["none", "publisher"]
DEADLINES = [None, 1.0, 5.0]

# (requested, offered) pairs that do not go together, aspect by aspect
UNMET_RELIABILITY = {("reliable", "best_effort")}
UNMET_DURABILITY = {("transient", "volatile")}
UNMET_ORDER = {("publisher", "none")}
UNMET_DEADLINE = {(1.0, 5.0)}  # a topic that promises nothing is watched by the edge itself

# (published, offered): weaker breaks the promise, stronger would not be kept
BROKEN_RELIABILITY = {("best_effort", "reliable"), ("reliable", "best_effort")}
BROKEN_DURABILITY = {("volatile", "transient"), ("transient", "volatile")}


@pytest.mark.parametrize("offered", list(itertools.product(RELIABILITIES, DURABILITIES, ORDERS, DEADLINES)), ids=str)
def test_a_topic_serves_whom_it_offers_enough(
    offered: tuple[Reliability, Durability, Order, float | None],
) -> None:
    reliability, durability, order, deadline = offered
    topic = Offered(reliability, durability, deadline_seconds=deadline, order=order)
    for requested in itertools.product(RELIABILITIES, DURABILITIES, ORDERS, DEADLINES):
        names = [
            name
            for name, pair, table in (
                ("reliability", (requested[0], reliability), UNMET_RELIABILITY),
                ("durability", (requested[1], durability), UNMET_DURABILITY),
                ("order", (requested[2], order), UNMET_ORDER),
                ("event every", (requested[3], deadline), UNMET_DEADLINE),
            )
            if pair in table
        ]
        reason = unmet(topic, Requested(requested[0], requested[1], deadline_seconds=requested[3], order=requested[2]))
        assert (reason is None) == (not names), (offered, requested, reason)
        if reason is not None:
            assert any(name in reason for name in names)


@pytest.mark.parametrize("published", list(itertools.product([None, *RELIABILITIES], [None, *DURABILITIES])), ids=str)
def test_a_publication_keeps_what_its_topic_promises(published: tuple[Reliability | None, Durability | None]) -> None:
    for reliability, durability in itertools.product(RELIABILITIES, DURABILITIES):
        is_broken = (published[0], reliability) in BROKEN_RELIABILITY or (published[1], durability) in BROKEN_DURABILITY
        assert (broken(Offered(reliability, durability), Published(*published)) is not None) == is_broken


def test_a_publication_lives_at_most_as_long_as_its_topic_keeps_it() -> None:
    assert broken(Offered(), Published(lifespan_seconds=LIFESPAN_SECONDS)) is None
    assert "lifespan" in (broken(Offered(), Published(lifespan_seconds=LIFESPAN_SECONDS + 1)) or "")


@pytest.mark.parametrize("offered", list(itertools.product(RELIABILITIES, DURABILITIES)), ids=str)
def test_only_what_promises_nothing_stays_out_of_the_log(offered: tuple[Reliability, Durability]) -> None:
    assert Offered(*offered).is_kept == (offered != ("best_effort", "volatile"))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Requested, '{"reliability": "sometimes"}'),
        (Requested, '{"keep_last": 0}'),
        (Requested, '{"keep_last": 10001}'),
        (Requested, '{"deadline_seconds": 0}'),
        (Requested, '{"lifespan_seconds": 1}'),
        (Offered, '{"lifespan_seconds": -1}'),
        (Offered, '{"lifespan_seconds": 1e300}'),
        (Published, '{"order": "none"}'),
    ],
)
def test_what_has_no_meaning_is_not_read(kind: type, text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=kind)
