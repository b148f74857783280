"""Random scenarios, each drawn from a seed: who subscribes to what, how they publish, and what goes wrong."""

from __future__ import annotations

import random

from tests.scenarios.scenario import (
    ClientCrash,
    ClientPause,
    ConnectionCut,
    DeclaredTopic,
    EdgeCrash,
    LostAnswers,
    Participant,
    PublishStep,
    Scenario,
    Settle,
    Step,
    SubscribeStep,
    Trouble,
    UnsubscribeStep,
    WebhookTrouble,
)

from fieldfare.qos import Offered, Requested

BUSY_SECONDS = 10.0
_CLIENTS = ("alice", "bob", "carol")
_TOPICS = {
    "kept": Offered(),
    "volatile": Offered(durability="volatile"),
    "written": Offered(reliability="best_effort"),
    "loose": Offered(reliability="best_effort", durability="volatile"),
}
_CONDITIONS = (
    "speed >= 0",
    "speed < 25",
    "speed BETWEEN 10 AND 60 AND road = 'A1'",
    "road IN ('A1', 'A2') OR speed > 90",
    "road IS NULL",
    "number % 3 = 1",
    "road LIKE 'A%' AND NOT speed < 50",
)


def draw(seed: int, edge_crashes: int) -> Scenario:
    """A scenario, in which the edge crashes at most so often."""
    rng = random.Random(f"scenario {seed}")
    subscribing = [_subscribe(rng, number) for number in range(rng.randint(2, 8))]
    steps: list[Step] = [*subscribing, Settle(0.9)]
    steps += [_publish(rng, number) for number in range(rng.randint(2, 6))]
    ending = [step for step in subscribing if rng.random() < 0.2]
    steps += [UnsubscribeStep(rng.uniform(step.after_seconds, BUSY_SECONDS + 1), step.label) for step in ending]
    steps += [_trouble(rng) for _ in range(rng.randint(0, 6))]
    for step in subscribing:
        if step.webhook is not None:
            steps.append(WebhookTrouble(rng.uniform(1, BUSY_SECONDS), rng.uniform(0, 3), step.webhook, "fails"))
    part_seconds = BUSY_SECONDS / max(edge_crashes, 1)
    for part in range(rng.randint(0, edge_crashes)):
        steps.append(EdgeCrash(1.0 + part_seconds * (part + 0.8 * rng.random()), 0.1 * part_seconds))
    topics = tuple(DeclaredTopic(name, offered) for name, offered in _TOPICS.items())
    participants = tuple(Participant(name) for name in _CLIENTS)
    return Scenario(f"seed-{seed}", participants, topics, tuple(steps))


def _subscribe(rng: random.Random, number: int) -> SubscribeStep:
    topic, offered = rng.choice(list(_TOPICS.items()))
    qos = Requested(
        rng.choice(("best_effort", offered.reliability, offered.reliability)),
        rng.choice(("volatile", offered.durability)),
        keep_last=rng.choice((None, None, None, 3)),
    )
    name = f"named{number}" if rng.random() < 0.5 else None
    webhook = f"hook{number}" if name is not None and rng.random() < 0.4 else None
    after_seconds = rng.choice((0.0, 0.0, rng.uniform(1, BUSY_SECONDS)))
    return SubscribeStep(
        after_seconds,
        rng.choice(_CLIENTS),
        topic,
        rng.choice(_CONDITIONS),
        f"subscription{number}",
        name,
        qos,
        rng.choice((1, 4, 1024)),
        webhook,
    )


def _publish(rng: random.Random, number: int) -> PublishStep:
    after_seconds = rng.uniform(1, BUSY_SECONDS / 2)
    return PublishStep(
        after_seconds,
        rng.choice(_CLIENTS),
        rng.choice(list(_TOPICS)),
        count=rng.choice((10, 100, 300)),
        first=1000 * number,
        batch=rng.choice((1, 5, 20)),
        seconds=rng.uniform(0, BUSY_SECONDS - after_seconds),
    )


def _trouble(rng: random.Random) -> Trouble:
    after_seconds, client = rng.uniform(1, BUSY_SECONDS), rng.choice(_CLIENTS)
    match rng.randrange(4):
        case 0:
            return ClientCrash(after_seconds, rng.expovariate(1.0), client)
        case 1:
            return ClientPause(after_seconds, rng.expovariate(1.0), client)
        case 2:
            return ConnectionCut(after_seconds, 0.0, client)
        case _:
            return LostAnswers(after_seconds, 0.0, client, rng.randint(1, 3))
