"""Who may do what: rights of topics, tenants that never meet, and limits."""

from __future__ import annotations

from typing import Any

import pytest
from tests.routing.frames import accepted, done, events, items, refused, subscribed
from tests.routing.harness import Client, Harness

from fieldfare.messages import Identity, List, Listed, Right, Subscribe
from fieldfare.qos import Offered
from fieldfare.routing.options import EdgeOptions

ALL: dict[Right, tuple[str, ...]] = {"publish": ("*",), "subscribe": ("*",), "manage": ("*",)}


@pytest.fixture
def harness() -> Harness:
    return Harness()


def somebody(harness: Harness, tenant: str = "acme", rights: dict[Right, tuple[str, ...]] = ALL) -> Client:
    return harness.connect(Identity(tenant, rights))


def test_each_right_is_for_itself_and_for_its_topics(harness: Harness) -> None:
    client = somebody(harness, rights={"publish": ("news",), "subscribe": ("news.*", "olds")})
    accepted(client.publish("news", *events(1)))
    refused(client.publish("olds", *events(1)), "forbidden")
    subscribed(client.subscribe("olds"))
    subscribed(client.subscribe("news.today"))
    refused(client.subscribe("news"), "forbidden")
    refused(client.declare("news"), "forbidden")
    done(somebody(harness, rights={"manage": ("*",)}).declare("news"))


def test_without_rights_nothing_is_seen(harness: Harness) -> None:
    client = somebody(harness)
    client.subscribe("secret", name="mine")
    nosy = somebody(harness, rights={"subscribe": ("news",)})
    assert items(nosy.page("topics")) == items(nosy.page("subscriptions")) == []


def test_a_subscription_needs_the_right_to_its_topic_for_everything(harness: Harness) -> None:
    client = somebody(harness)
    client.subscribe("secret", name="mine")
    client.detach("mine")
    client.publish("secret", *events(1))
    nosy = somebody(harness, rights={"subscribe": ("news",), "publish": ("*",)})
    refused(nosy.attach("mine"), "forbidden")
    refused(nosy.unsubscribe("mine"), "forbidden")
    refused(nosy.page("dead_letters", subscription="mine"), "forbidden")
    nosy.ack("mine", 1_000)
    client.attach("mine")
    assert client.numbers("mine") == [1]


def test_another_tenants_things_are_as_absent_as_what_never_was(harness: Harness) -> None:
    client, stranger = somebody(harness), somebody(harness, "evil")
    client.subscribe("news", name="mine")
    unnamed = subscribed(client.subscribe("news")).subscription
    for name in ("mine", unnamed):
        absent = f"x{name[1:]}"
        for ask in (stranger.attach, stranger.unsubscribe, lambda n: stranger.page("dead_letters", subscription=n)):
            there, never = refused(ask(name), "unknown"), refused(ask(absent), "unknown")
            assert there.reason.replace(name, "") == never.reason.replace(absent, "")
        stranger.ack(name, 1_000)
        stranger.detach(name)
    assert items(stranger.page("subscriptions")) == items(stranger.page("topics")) == []
    stranger.publish("news", *events(1))
    assert client.numbers("mine") == client.numbers(unnamed) == []
    client.publish("news", *events(2))
    assert client.numbers("mine") == client.numbers(unnamed) == [2]


def test_tenants_may_use_the_same_names(harness: Harness) -> None:
    clients = [somebody(harness, tenant) for tenant in ("a", "b")]
    for number, client in enumerate(clients):
        assert subscribed(client.subscribe("news", f"n = {number}", name="mine")).is_new
        assert accepted(client.publish("news", *events(0, 1), publisher="p", sequence=0)).duplicates == 0
    done(clients[0].declare("other", offered=Offered("best_effort", "volatile")))
    subscribed(clients[1].subscribe("other"))
    assert [client.numbers("mine") for client in clients] == [[0], [1]]
    harness.crash()
    for number, tenant in enumerate(("a", "b")):
        client = somebody(harness, tenant)
        client.attach("mine", after=-1)
        assert client.numbers("mine") == [number]


# Limits


def test_so_many_topics_and_no_more() -> None:
    harness = Harness(EdgeOptions(topics_max=2))
    client = somebody(harness)
    accepted(client.publish("a", *events(1)))
    subscribed(client.subscribe("b"))
    refused(client.publish("c", *events(1)), "limit")
    refused(client.declare("c"), "limit")
    accepted(client.publish("b", *events(1)))
    accepted(somebody(harness, "other").publish("c", *events(1)))


@pytest.mark.parametrize("options", [{"subscriptions_max": 3}, {"subscriptions_per_connection_max": 3}], ids=str)
def test_so_many_subscriptions_and_no_more_even_in_one_round(options: dict[str, Any]) -> None:
    harness = Harness(EdgeOptions(**options))
    client = somebody(harness)
    harness.together(
        (client, Subscribe(1, "news", "n <")),
        *((client, Subscribe(ref, "news", "n > 0", name=f"s{ref}")) for ref in range(2, 7)),
    )
    refused(client.answer(1), "condition")
    granted = [ref for ref in range(2, 7) if not hasattr(client.answer(ref), "code")]
    assert len(granted) == 2  # the wrong one held its place until it was known to be wrong
    subscribed(client.subscribe("news"))
    refused(client.subscribe("news"), "limit")
    client.unsubscribe("s2")
    subscribed(client.subscribe("news"))
    refused(client.subscribe("news"), "limit")
    other = somebody(harness, "other")
    subscribed(other.subscribe("news"))


def test_limits_hold_after_a_restart() -> None:
    harness = Harness(EdgeOptions(subscriptions_max=2))
    client = somebody(harness)
    for name in ("a", "b"):
        client.subscribe("news", name=name)
    harness.crash()
    client = somebody(harness)
    refused(client.subscribe("news"), "limit")
    client.unsubscribe("a")
    subscribed(client.subscribe("news"))
    refused(client.subscribe("news"), "limit")


def test_a_list_comes_page_by_page(harness: Harness) -> None:
    client = somebody(harness)
    for number in range(25):
        client.subscribe(f"t{number:02}", name=f"s{number:02}")
    for what, key in (("topics", "topic"), ("subscriptions", "subscription")):
        names, after, pages = [], "", 0
        while True:
            ref = client.ref()
            client.send(List(ref, what, after, 10))  # type: ignore[arg-type]
            page = client.answer(ref)
            assert isinstance(page, Listed)
            names += [item[key] for item in page.items]
            pages += 1
            if page.next is None:
                break
            after = page.next
        assert names == [f"{key[0]}{number:02}" for number in range(25)]
        assert pages == 3
