"""How topics come into being and go: on purpose, by being used where that is allowed, and deleted."""

from __future__ import annotations

import pytest
from tests.routing.frames import accepted, done, items, refused, subscribed
from tests.routing.harness import ALL, TENANT, Harness

from fieldfare.messages import DeleteTopic, EdgeFrame, Identity
from fieldfare.qos import Requested
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.topic import Topics

STRICT = EdgeOptions(auto_create=False)
TRANSIENT = Requested(durability="transient")


def delete(harness: Harness, topic: str = "roads", *, is_forced: bool = False) -> EdgeFrame | None:
    client = harness.connect()
    client.send(DeleteTopic(1, topic, is_forced))
    return client.answer(1)


# By being used


def test_a_mistyped_topic_is_refused_with_the_names_that_are_like_it() -> None:
    harness = Harness(STRICT)
    client = harness.connect()
    done(client.declare("traffic"))
    accepted(client.publish("traffic", {"n": 1}))
    for answer in (client.publish("trafic", {"n": 1}), client.subscribe("trafic")):
        refusal = refused(answer, "unknown")
        assert "'traffic'" in refusal.reason
    assert [item["topic"] for item in items(client.page("topics"))] == ["traffic"]


def test_names_that_a_client_may_not_know_are_not_told() -> None:
    harness = Harness(STRICT)
    done(harness.connect().declare("traffic"))
    stranger = harness.connect(Identity(TENANT, {"publish": ("trafic",)}))
    assert "traffic" not in refused(stranger.publish("trafic", {"n": 1}), "unknown").reason
    other = harness.connect(Identity("other", ALL.rights))
    assert "traffic" not in refused(other.publish("trafic", {"n": 1}), "unknown").reason


def test_who_has_the_right_to_create_topics_creates_them_by_using_them() -> None:
    harness = Harness(STRICT)
    rights = {"publish": ("*",), "create": ("eu.*",)}
    client = harness.connect(Identity(TENANT, rights))  # type: ignore[arg-type]
    accepted(client.publish("eu.traffic", {"n": 1}))
    refused(client.publish("us.traffic", {"n": 1}), "unknown")


def test_where_topics_come_by_themselves_whoever_runs_the_service_is_warned() -> None:
    harness = Harness()
    client = harness.connect()
    accepted(client.publish("traffic", {"n": 1}))
    accepted(client.publish("trafic", {"n": 1}))
    assert len(harness.warnings) == 2
    assert "'trafic'" in harness.warnings[1]
    assert "similar ones are 'traffic'" in harness.warnings[1]


def test_to_ignore_the_setting_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Topics, "used_by", lambda topics, identity, name: topics.get_or_make(identity.tenant, name), raising=True
    )
    with pytest.raises(AssertionError):
        test_a_mistyped_topic_is_refused_with_the_names_that_are_like_it()


# Deleted


def test_a_deleted_topic_is_gone_and_stays_gone() -> None:
    harness = Harness(STRICT)
    client = harness.connect()
    done(client.declare("roads"))
    accepted(client.publish("roads", {"n": 1}))
    done(delete(harness))
    for _ in range(2):
        assert items(client.page("topics")) == []
        refused(client.publish("roads", {"n": 1}), "unknown")
        harness.crash()
        client = harness.connect()
    refused(delete(harness), "unknown")


def test_one_with_subscriptions_is_deleted_by_force_only() -> None:
    harness = Harness()
    client = harness.connect()
    subscribed(client.subscribe("roads", name="all"))
    subscribed(client.subscribe("roads"))
    assert "2 subscriptions" in refused(delete(harness), "qos").reason
    done(delete(harness, is_forced=True))
    assert [notice.detail for notice in client.notices("detached")] == ["the topic has been deleted"] * 2
    assert items(client.page("subscriptions")) == []
    harness.crash()
    assert items(harness.connect().page("subscriptions")) == []


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_another_topic_of_the_same_name_begins_anew(*, has_checkpoint: bool) -> None:
    harness = Harness()
    client = harness.connect()
    accepted(client.publish("roads", {"n": 1}, {"n": 2}, publisher="p", sequence=0))
    done(delete(harness))
    if has_checkpoint:
        harness.checkpoint()
    harness.crash()
    client = harness.connect()
    # The publisher goes on with its numbers, and what it sends again is known.
    assert accepted(client.publish("roads", {"n": 2}, {"n": 3}, publisher="p", sequence=1)).duplicates == 1
    subscribed(client.subscribe("roads", name="late", qos=TRANSIENT))
    assert client.numbers("late") == [3]
    harness.checkpoint()
    harness.crash()
    client = harness.connect()
    subscribed(client.subscribe("roads", name="later", qos=TRANSIENT))
    assert client.numbers("later") == [3]


def test_nothing_is_taken_while_a_topic_is_being_deleted_and_a_full_disk_keeps_it() -> None:
    harness = Harness()
    client = harness.connect()
    accepted(client.publish("roads", {"n": 1}))
    harness.holds_storage = True
    deleting = harness.connect()
    deleting.send(DeleteTopic(1, "roads"))
    refused(client.publish("roads", {"n": 2}), "busy")
    refused(client.subscribe("roads"), "busy")
    harness.fail_to_store()
    refused(deleting.answer(1), "storage")
    harness.holds_storage = False
    accepted(client.publish("roads", {"n": 2}))


def test_only_who_may_manage_a_topic_deletes_it() -> None:
    harness = Harness()
    accepted(harness.connect().publish("roads", {"n": 1}))
    client = harness.connect(Identity(TENANT, {"publish": ("*",), "subscribe": ("*",)}))
    client.send(DeleteTopic(1, "roads"))
    refused(client.answer(1), "forbidden")


# Audited


def test_every_change_is_told_once_with_who_made_it() -> None:
    harness = Harness(EdgeOptions(audits=True))
    who = Identity(TENANT, ALL.rights, "5f2c01aa")
    client = harness.connect(who)
    done(client.declare("roads"))
    done(client.declare("roads"))
    subscribed(client.subscribe("roads", "n > 4711", name="all"))
    subscribed(client.subscribe("roads", "n > 4711", name="all"))  # it is there
    subscribed(client.subscribe("roads"))  # it lives as long as its connection
    accepted(client.publish("rails", {"n": 1}))
    client.unsubscribe("all")
    refused(client.unsubscribe("all"), "unknown")
    client.send(DeleteTopic(1, "rails"))
    told = [(audit.token, audit.action, audit.kind, audit.name) for audit in harness.audited]
    assert told == [
        ("5f2c01aa", "created", "topic", "roads"),
        ("5f2c01aa", "changed", "topic", "roads"),
        ("5f2c01aa", "created", "subscription", "all"),
        ("5f2c01aa", "created", "topic", "rails"),
        ("5f2c01aa", "deleted", "subscription", "all"),
        ("5f2c01aa", "deleted", "topic", "rails"),
    ]
    assert all(audit.tenant == TENANT for audit in harness.audited)
    assert "4711" not in str(harness.audited)
    assert not harness.edge.parts.replies.awaited


def test_what_was_not_stored_is_not_told() -> None:
    harness = Harness(EdgeOptions(audits=True))
    client = harness.connect()
    harness.holds_storage = True
    client.declare("roads")
    harness.fail_to_store()
    assert harness.audited == []
    assert not harness.edge.parts.replies.awaited
