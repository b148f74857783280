"""The scenarios by name: each is about one promise, and what could break it."""

from __future__ import annotations

from tests.scenarios.scenario import (
    AttachStep,
    ChurnStep,
    ClientCrash,
    ClientPause,
    Complete,
    ConnectionCut,
    DeclaredTopic,
    DiskFull,
    EdgeCrash,
    LostAnswers,
    Participant,
    PublishStep,
    Scenario,
    Settle,
    StillWaiting,
    SubscribeStep,
    UnsubscribeStep,
    WebhookTrouble,
)

from fieldfare.qos import Offered, Requested

ALL = "TRUE"
LOW = "speed < 25"
ODD = "number % 2 = 1"
TRANSIENT = Requested(durability="transient")
LAST_THREE = Requested(keep_last=3)
BEST_EFFORT = Requested(reliability="best_effort")

_PUBLISHERS = tuple(Participant(name) for name in ("p1", "p2", "p3"))
_ALICE, _BOB, _CAROL = Participant("alice"), Participant("bob"), Participant("carol")
_TRAFFIC = (DeclaredTopic("traffic"),)

LATE_JOINER = Scenario(
    "late-joiner",
    (_ALICE, _BOB),
    _TRAFFIC,
    (
        PublishStep(0.0, "bob", "traffic", count=300, seconds=2.0),
        Settle(2.0),
        SubscribeStep(2.0, "alice", "traffic", LOW, "late", qos=TRANSIENT, window=8),
        SubscribeStep(2.0, "alice", "traffic", ALL, "late-durable", name="late", qos=TRANSIENT),
        PublishStep(2.1, "bob", "traffic", count=100, first=300, seconds=2.0),
        ConnectionCut(3.0, 0.0, "alice"),
    ),
)

CRASHES_UNDER_LOAD = Scenario(
    "crashes-under-load",
    (*_PUBLISHERS, _ALICE, _BOB),
    _TRAFFIC,
    (
        SubscribeStep(0.0, "alice", "traffic", ALL, "all"),
        SubscribeStep(0.0, "alice", "traffic", LOW, "low"),
        SubscribeStep(0.0, "bob", "traffic", "number >= 100", "durable", name="durable"),
        Settle(1.0),
        *(PublishStep(1.0, each.name, "traffic", count=600, seconds=12.0) for each in _PUBLISHERS),
        EdgeCrash(3.0, 1.0),
        EdgeCrash(7.0, 1.0),
        EdgeCrash(11.0, 1.0),
    ),
)

AWAY_DURING_A_CRASH = Scenario(
    "away-during-a-crash",
    (_ALICE, _BOB),
    _TRAFFIC,
    (
        SubscribeStep(0.0, "alice", "traffic", ALL, "durable", name="durable"),
        Settle(1.0),
        PublishStep(1.0, "bob", "traffic", count=50, seconds=1.0),
        ClientCrash(1.5, 5.0, "alice"),
        Settle(2.5),
        PublishStep(2.5, "bob", "traffic", count=50, first=50, seconds=0.5),
        Settle(4.0),
        EdgeCrash(4.0, 1.0),
        PublishStep(7.0, "bob", "traffic", count=50, first=100, seconds=0.5),
    ),
)

SLOW_SUBSCRIBER = Scenario(
    "slow-subscriber",
    (_ALICE, _BOB, _CAROL),
    _TRAFFIC,
    (
        SubscribeStep(0.0, "alice", "traffic", ALL, "fast"),
        SubscribeStep(0.0, "bob", "traffic", ALL, "slow", window=8),
        SubscribeStep(0.0, "bob", "traffic", LOW, "slow-durable", name="slow", window=1),
        Settle(1.0),
        ClientPause(1.0, 4.0, "bob"),
        PublishStep(1.1, "carol", "traffic", count=1500, batch=50, seconds=1.0),
        Complete(4.0, ("fast",)),
        PublishStep(5.0, "carol", "traffic", count=200, first=1500, batch=50, seconds=1.0),
    ),
)

SUBSCRIBER_CRASHES = Scenario(
    "subscriber-crashes",
    (_ALICE, _BOB),
    _TRAFFIC,
    (
        SubscribeStep(0.0, "alice", "traffic", ALL, "durable", name="durable", window=16),
        SubscribeStep(0.0, "alice", "traffic", ODD, "unnamed"),
        Settle(1.0),
        PublishStep(1.0, "bob", "traffic", count=400, seconds=4.0),
        ClientPause(1.5, 1.0, "alice"),  # so that it has events with which it is not done
        ClientCrash(2.0, 1.0, "alice"),
        ClientCrash(4.0, 2.0, "alice"),
    ),
)

LOST_ANSWERS = Scenario(
    "lost-answers",
    (_ALICE, _BOB),
    _TRAFFIC,
    (
        SubscribeStep(0.0, "alice", "traffic", ALL, "all"),
        Settle(1.0),
        *(PublishStep(1.0 + 2 * part, "bob", "traffic", 50, first=50 * part, seconds=1.0) for part in range(6)),
        *(LostAnswers(0.99 + 2 * part, 2.0, "bob", count=2) for part in range(6)),
        *(Settle(2.9 + 2 * part) for part in range(6)),  # or one connection would lose all answers
    ),
)

UNSUBSCRIBE_IN_BETWEEN = Scenario(
    "unsubscribe-in-between",
    (_ALICE, _BOB),
    _TRAFFIC,
    (
        SubscribeStep(0.0, "alice", "traffic", ALL, "unnamed"),
        SubscribeStep(0.0, "alice", "traffic", LOW, "named", name="named"),
        SubscribeStep(0.0, "alice", "traffic", ALL, "stays"),
        Settle(1.0),
        PublishStep(1.0, "bob", "traffic", count=300, seconds=4.0),
        UnsubscribeStep(2.0, "unnamed"),
        UnsubscribeStep(2.5, "named"),
        ConnectionCut(2.5, 0.0, "alice"),
        Settle(3.0),
        SubscribeStep(3.0, "alice", "traffic", ODD, "again", name="named"),
    ),
)

TAKEN_OVER = Scenario(
    "taken-over",
    (_ALICE, _BOB, _CAROL),
    _TRAFFIC,
    (
        SubscribeStep(0.0, "alice", "traffic", ALL, "durable", name="durable", window=4),
        Settle(1.0),
        PublishStep(1.0, "carol", "traffic", count=300, seconds=4.0),
        AttachStep(2.0, "bob", "durable", "bobs", window=4),
        AttachStep(3.5, "carol", "durable", "carols"),
    ),
)

KEEP_LAST = Scenario(
    "keep-last",
    (_ALICE, _BOB),
    _TRAFFIC,
    (
        SubscribeStep(0.0, "alice", "traffic", ALL, "last", qos=LAST_THREE, window=1),
        SubscribeStep(0.0, "alice", "traffic", LOW, "last-durable", name="last", qos=LAST_THREE, window=2),
        Settle(1.0),
        PublishStep(1.0, "bob", "traffic", count=400, seconds=3.0),
        ClientPause(1.5, 3.0, "alice"),
        ConnectionCut(3.5, 0.0, "alice"),
    ),
)

BEST_EFFORT_TOPICS = Scenario(
    "best-effort",
    (_ALICE, _BOB),
    (
        DeclaredTopic("loose", Offered(reliability="best_effort", durability="volatile")),
        DeclaredTopic("written", Offered(reliability="best_effort")),
        DeclaredTopic("traffic"),
    ),
    (
        SubscribeStep(0.0, "alice", "loose", ALL, "loose", qos=BEST_EFFORT),
        SubscribeStep(0.0, "alice", "written", ALL, "written", qos=Requested("best_effort", "transient")),
        SubscribeStep(0.0, "alice", "traffic", ALL, "best-effort", qos=BEST_EFFORT, window=4),
        SubscribeStep(0.0, "alice", "traffic", LOW, "reliable"),
        Settle(1.0),
        *(PublishStep(1.0, "bob", topic, count=200, seconds=3.0) for topic in ("loose", "written", "traffic")),
        ClientPause(1.5, 1.0, "alice"),
        ConnectionCut(3.0, 0.0, "alice"),
        ConnectionCut(3.2, 0.0, "bob"),
    ),
)

TWO_TENANTS = Scenario(
    "two-tenants",
    (_ALICE, _BOB, Participant("xenia", "two"), Participant("yves", "two")),
    (
        DeclaredTopic("traffic"),
        DeclaredTopic("weather"),
        DeclaredTopic("traffic", Offered(lifespan_seconds=600.0), "two"),
    ),
    (
        SubscribeStep(0.0, "alice", "traffic", ALL, "ones", name="same"),
        SubscribeStep(0.0, "xenia", "traffic", ALL, "twos", name="same"),
        SubscribeStep(0.0, "xenia", "traffic", LOW, "twos-unnamed", qos=TRANSIENT),
        SubscribeStep(0.0, "alice", "weather", ODD, "weather"),
        Settle(1.0),
        PublishStep(1.0, "bob", "traffic", count=150, seconds=3.0),
        PublishStep(1.0, "bob", "weather", count=150, seconds=3.0),
        PublishStep(1.0, "yves", "traffic", count=150, first=1000, seconds=3.0),
        ClientCrash(2.0, 1.0, "xenia"),
    ),
)

WEBHOOKS = Scenario(
    "webhooks",
    (_ALICE, _BOB),
    _TRAFFIC,
    (
        *(
            SubscribeStep(0.0, "alice", "traffic", ALL, name, name=name, webhook=name)
            for name in ("good", "flaky", "hanging", "refusing")
        ),
        Settle(1.0),
        WebhookTrouble(1.0, 20.0, "hanging", "hangs"),
        WebhookTrouble(1.0, 20.0, "refusing", "refuses"),
        WebhookTrouble(1.0, 1.0, "flaky"),
        WebhookTrouble(2.5, 5.5, "flaky"),
        PublishStep(1.0, "bob", "traffic", count=100, seconds=3.0),
        Complete(5.0, ("good",)),
        EdgeCrash(5.0, 1.0),
        PublishStep(7.0, "bob", "traffic", count=50, first=100, seconds=1.0),
        Complete(15.0, ("good", "flaky")),
    ),
)

CHURN = Scenario(
    "churn",
    (_ALICE, _BOB, _CAROL),
    _TRAFFIC,
    (
        SubscribeStep(0.0, "alice", "traffic", ODD, "odd"),
        SubscribeStep(0.0, "alice", "traffic", ALL, "durable", name="durable"),
        Settle(1.0),
        PublishStep(1.0, "bob", "traffic", count=3000, seconds=10.0),
        *(ChurnStep(1.0 + 0.5 * number, "carol", "traffic", 500, number) for number in range(20)),
        *(Settle(1.4 + 0.5 * number) for number in range(20)),
        ChurnStep(12.0, "carol", "traffic", 0, 20),
    ),
)

FULL_DISK = Scenario(
    "full-disk",
    (_ALICE, _BOB),
    _TRAFFIC,
    (
        SubscribeStep(0.0, "alice", "traffic", ALL, "all"),
        SubscribeStep(0.0, "alice", "traffic", LOW, "low", name="low"),
        Settle(1.0),
        PublishStep(1.0, "bob", "traffic", count=50, seconds=1.0),
        DiskFull(2.0, 5.0),
        PublishStep(2.1, "bob", "traffic", count=400, first=50, batch=100, seconds=1.0),
        StillWaiting(6.0, "bob"),
        Settle(8.0),
        EdgeCrash(8.0, 1.0),
        PublishStep(9.5, "bob", "traffic", count=50, first=450, seconds=1.0),
    ),
)

SCENARIOS = (
    LATE_JOINER,
    CRASHES_UNDER_LOAD,
    AWAY_DURING_A_CRASH,
    SLOW_SUBSCRIBER,
    SUBSCRIBER_CRASHES,
    LOST_ANSWERS,
    UNSUBSCRIBE_IN_BETWEEN,
    TAKEN_OVER,
    KEEP_LAST,
    BEST_EFFORT_TOPICS,
    TWO_TENANTS,
    WEBHOOKS,
    CHURN,
    FULL_DISK,
)
