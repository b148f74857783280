"""The five applications of Table 1 of "Revisiting CBPS", with every number that it gives, and how we read them.

One reading for all: of a range, what is harder to carry (the most subscribers and events, the least latency). Where the
table mixes rates of one publisher and of all, bandwidth decides which it is: the two must give an event of some size.
What the table does not give (matches for an event, what low and high mean) is ours, and each preset says so.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fieldfare.errors import ApplicationError
from fieldfare.planning.application import Application, Clustering, Durability, Shape


class TableRow(msgspec.Struct, frozen=True, kw_only=True):
    """A column of Table 1, word for word."""

    title: str
    expressiveness: str
    publisher_bandwidth: str
    maximum_latency: str
    subscription_clustering: str
    subscribers: str
    subscribe_frequency: str
    publishers: str
    publish_frequency: str


class Preset(msgspec.Struct, frozen=True):
    """What the paper says, and the application that we read it as."""

    paper: TableRow
    application: Application


_CLIENTS = (
    "connections: subscribers are reached through servers of theirs, the delivery layer of the paper's section 3.1"
)

_GAMES = Preset(
    TableRow(
        title="Online Games",
        expressiveness="range matches",
        publisher_bandwidth="30kbps",
        maximum_latency="0.1s-1s",
        subscription_clustering="multimodal",
        subscribers="10^2 - 10^3",
        subscribe_frequency="high",
        publishers="10^2 - 10^3",
        publish_frequency="10^3 - 10^4/s",
    ),
    Application(
        name="games",
        subscriptions=1_000,
        shape=Shape.RANGES,
        clustering=Clustering.MULTIMODAL,
        matches_per_event=10,
        subscribers=1_000,
        publishers=1_000,
        events_per_second=10_000,
        event_bytes=375,
        latency_seconds_max=0.1,
        changes_per_second=1_000,
        durability=Durability.NONE,
        assumptions=(
            "the publish frequency is of all publishers: 10 events/s of each of 1,000",
            "30 kbps of one publisher over its 10 events/s: 375 bytes an event",
            "one subscription for each player, what is around it; 'high' is one change a second for each (ours)",
            "an event is of interest to 10 players (ours)",
            "what a player did a moment ago need not survive a crash (ours)",
        ),
    ),
)

_FEEDS = Preset(
    TableRow(
        title="RSS Feeds",
        expressiveness="keywords",
        publisher_bandwidth="small, irregular",
        maximum_latency="~10s",
        subscription_clustering="power law",
        subscribers="~10^6",
        subscribe_frequency="low",
        publishers="10^4",
        publish_frequency="10^2/s",
    ),
    Application(
        name="feeds",
        subscriptions=1_000_000,
        shape=Shape.KEYWORDS,
        clustering=Clustering.POWER_LAW,
        matches_per_event=100,
        subscribers=1_000_000,
        connections=1_000,
        publishers=10_000,
        events_per_second=100,
        event_bytes=2_000,
        latency_seconds_max=10.0,
        changes_per_second=1,
        assumptions=(
            "the publish frequency is of all publishers: an item every 100 s from each of 10,000 feeds",
            "an item is 2,000 bytes, and 100 want it (ours); 'low' is one change a second (ours)",
            f"1,000 {_CLIENTS}",
        ),
    ),
)

_QUOTES = Preset(
    TableRow(
        title="Stock Quotes",
        expressiveness="range matches",
        publisher_bandwidth="~100Mbps",
        maximum_latency="~0.01s",
        subscription_clustering="power law",
        subscribers="~10^3",
        subscribe_frequency="medium",
        publishers="1 - 10",
        publish_frequency="10^3/s",
    ),
    Application(
        name="quotes",
        subscriptions=1_000_000,
        shape=Shape.QUOTES,
        clustering=Clustering.POWER_LAW,
        matches_per_event=10,
        subscribers=1_000,
        publishers=10,
        events_per_second=1_000,
        event_bytes=12_500,
        latency_seconds_max=0.01,
        changes_per_second=10,
        assumptions=(
            "frequency and bandwidth are of all publishers: 100 Mbps over 1,000 events/s, 12,500 bytes an event",
            "1,000 subscribers are brokers of 1,000 investors each; section 3.1 speaks of millions of subscriptions",
            "an event satisfies 10 conditions (ours); 'medium' is 10 changes a second (ours)",
        ),
    ),
)

_ALERTS = Preset(
    TableRow(
        title="Security Alerts",
        expressiveness="set inclusion",
        publisher_bandwidth="very small",
        maximum_latency="0.1 - 1s",
        subscription_clustering="power law",
        subscribers="~10^6",
        subscribe_frequency="low",
        publishers="10^3",
        publish_frequency="irregular bursts",
    ),
    Application(
        name="alerts",
        subscriptions=1_000_000,
        shape=Shape.SETS,
        clustering=Clustering.POWER_LAW,
        matches_per_event=100,
        subscribers=1_000_000,
        connections=1_000,
        publishers=1_000,
        events_per_second=1,
        peak_events_per_second=100,
        event_bytes=300,
        latency_seconds_max=0.1,
        changes_per_second=1,
        assumptions=(
            "irregular bursts: one event a second on average, 100 in a burst that must be carried (ours)",
            "an alert is 300 bytes and satisfies 100 subscriptions; 'low' is one change a second (ours)",
            f"1,000 {_CLIENTS}",
        ),
    ),
)

_PLACES = Preset(
    TableRow(
        title="Location Based Services",
        expressiveness="spatial queries",
        publisher_bandwidth="1kbps",
        maximum_latency="0.1 - 1s",
        subscription_clustering="multimodal",
        subscribers="10^6",
        subscribe_frequency="low",
        publishers="10^6",
        publish_frequency="10^-1 - 1/s",
    ),
    Application(
        name="places",
        subscriptions=1_000_000,
        shape=Shape.PLACES,
        clustering=Clustering.MULTIMODAL,
        matches_per_event=1,
        subscribers=1_000_000,
        connections=1_000,
        publishers=1_000_000,
        events_per_second=1_000_000,
        event_bytes=125,
        latency_seconds_max=0.1,
        changes_per_second=1,
        durability=Durability.NONE,
        assumptions=(
            "the publish frequency is of one publisher: 1 kbps at 1/s is 125 bytes an event, of all a million events/s",
            "the next position of a device comes in a second, so one may be lost in a crash (ours)",
            "an event is in one region (ours); 'low' is one change a second (ours)",
            f"1,000 {_CLIENTS}: as section 2.2 says, devices publish and providers of content subscribe",
        ),
    ),
)

PRESETS: Mapping[str, Preset] = {one.application.name: one for one in (_GAMES, _FEEDS, _QUOTES, _ALERTS, _PLACES)}


def preset(name: str) -> Application:
    """A preset's application by its name."""
    if name not in PRESETS:
        raise ApplicationError(f"there is no preset {name!r}; there are {', '.join(PRESETS)}")
    return PRESETS[name].application
