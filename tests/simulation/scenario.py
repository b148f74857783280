"""A random world in which much goes wrong, from a seed: who is there, what they do, and which faults come."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fieldfare.messages import Delivery, Subscribe
from fieldfare.qos import Offered, Requested
from fieldfare.routing.options import EdgeOptions
from fieldfare.simulation import Failure, Hang, World, faults
from fieldfare.simulation.checkers import check_safety
from fieldfare.simulation.client import SimulatedClient
from fieldfare.simulation.clock import START
from fieldfare.simulation.disk import OPTIONS
from fieldfare.simulation.history import Reception
from fieldfare.simulation.tiny import tiny_edge_options

BUSY_SECONDS = 10.0
QUIET_SECONDS = 100.0  # longer than any patience, wait and backoff

# Without wiped and old disks: a client that has positions of the log that was lost does not notice that yet.
HARSH_KINDS: tuple[faults.Kind, ...] = ("deaf", "mute", "split", "node_pause", "drift")

TOPICS = {
    "kept": Offered(),
    "volatile": Offered(durability="volatile"),
    "written": Offered(reliability="best_effort"),
    "brief": Offered(lifespan_seconds=1.0),
    "spark": Offered(),
    "loose": Offered(reliability="best_effort", durability="volatile"),
}
CONDITIONS = (
    "speed >= 0",
    "speed < 25",
    "speed BETWEEN 10 AND 60 AND road = 'A1'",
    "road IN ('A1', 'A2') OR speed > 90",
    "road IS NULL",
    "lanes * 20 > speed",
    "road LIKE 'A%' AND NOT speed < 50",
    "speed > 1000",
)


class Scenario:
    """One run. Safety is checked all along, liveness when all is quiet.

    A harsh one has more kinds of faults, and limits that are reached.
    """

    def __init__(self, seed: int, *, is_harsh: bool = False) -> None:
        self.rng = rng = random.Random(f"scenario {seed}")
        self.world = World(seed)
        self.is_harsh = is_harsh
        options = EdgeOptions(
            waiting_max=rng.choice((2, 8, 1024)),
            frame_bytes_max=rng.choice((200, 512 * 1024)),
            webhook_attempts_max=1_000_000,  # so that no event becomes a dead letter, and all must come
            webhook_backoff_seconds_max=5.0,
        )
        if is_harsh and rng.random() < 0.5:
            options = tiny_edge_options(rng)
        self.edge = self.world.edge("edge", options)
        self.edge.checkpoint_records = rng.choice((1, 5, 30, 1000))
        self.edge.read_seconds = rng.choice((0.001, 0.1))
        self.edge.log.flush_seconds = rng.choice((0.002, 0.05))
        self.edge.log.options = replace(OPTIONS, segment_bytes=rng.choice((400, 64 * 1024)))
        self.clients = [self.world.client(f"client{number}", self.edge) for number in range(rng.randint(2, 5))]
        for client in self.clients:
            client.take_seconds = rng.choice((0.0, 0.0, 0.05, 0.5))
        self.receptions: list[tuple[SimulatedClient, Reception]] = []
        self.has_spark = rng.random() < 0.25 and not is_harsh
        self.topics = [topic for topic in TOPICS if topic != "spark" or self.has_spark]
        self.attached: set[str | None] = set()
        self.unsubscribed: set[str | None] = set()
        self.faults: list[faults.Fault] = []
        self.events = self.names = 0

    def run(self) -> None:
        """All of it."""
        for topic, offered in TOPICS.items():
            self.clients[0].declare(topic, offered, matching="spark" if topic == "spark" else "edge")
        self.world.run_for(2.0)
        for _ in range(self.rng.randint(2, 8)):
            self.subscribe()
        self.world.run_for(self.rng.choice((0.0, 1.0)))
        also = HARSH_KINDS if self.is_harsh else ()
        self.faults = faults.plan(self.rng, self.world, BUSY_SECONDS, self.rng.randint(0, 12), also=also)
        faults.inject(self.world, self.faults)
        clock = self.world.clock
        for fault in self.faults:  # they show most when something is just under way
            for _ in range(3):
                clock.after(fault.after_seconds - self.rng.uniform(0.0, 0.3), self.publish)
        for _ in range(self.rng.randint(1, 40)):
            clock.after(self.rng.uniform(0, BUSY_SECONDS), self.act)
        for _ in range(5):
            self.world.run_for(BUSY_SECONDS / 5)
            check_safety(self.world.history)
        for client in self.clients:
            client.take_seconds = 0.0
        self.world.run_for(QUIET_SECONDS)
        self.world.check()

    def act(self) -> None:
        """Something that a client does."""
        what = self.rng.random()
        if what < 0.8:
            self.publish()
        elif what < 0.93:
            self.subscribe()
        elif what < 0.97:
            self.attach()
        else:
            self.unsubscribe()

    def publish(self) -> None:
        client = self.rng.choice(self.clients)
        topic = self.rng.choice(self.topics)
        for number in range(self.rng.choice((1, 2, 10))):
            events = [self.event() for _ in range(self.rng.choice((1, 1, 3, 10)))]
            self.world.clock.after(number * 0.02, functools.partial(_publish, client, topic, events))

    def event(self) -> dict[str, object]:
        self.events += 1
        event: dict[str, object] = {"number": self.events, "speed": self.rng.randint(0, 100)}
        if self.rng.random() < 0.8:
            event["road"] = self.rng.choice(("A1", "A2", "B3"))
        if self.rng.random() < 0.5:
            event["lanes"] = self.rng.randint(1, 4)
        return event

    def subscribe(self) -> None:
        client = self.rng.choice(self.clients)
        topic = self.rng.choice(self.topics)
        qos = self.requested(TOPICS[topic])
        options: dict[str, Any] = {"qos": qos, "window": self.rng.choice((1, 4, 1024))}
        if self.rng.random() < 0.5 or (topic == "spark" and qos.reliability == "reliable"):
            self.names += 1
            options["name"] = f"named{self.names}"
            if self.rng.random() < 0.3:
                options["webhook"] = f"https://hook{self.names}.example"
                self.world.webhook(f"https://hook{self.names}.example", self.take)
        if client.is_up:
            self.receptions.append((client, client.subscribe(topic, self.rng.choice(CONDITIONS), **options)))

    def requested(self, offered: Offered) -> Requested:
        reliability = self.rng.choice(("best_effort", offered.reliability))
        durability = self.rng.choice(("volatile", offered.durability))
        return Requested(reliability, durability, keep_last=self.rng.choice((None, None, None, 3)))

    def take(self, _: Sequence[Delivery]) -> Failure | Hang | None:
        """A webhook: moody while much goes wrong, then reliable."""
        if self.world.clock.now < self.ends_at and self.rng.random() < 0.3:
            return self.rng.choice((Failure("busy", retry_after_seconds=0.5), Hang(), Failure("error")))
        return None

    @property
    def ends_at(self) -> float:
        """When all is well again."""
        return START + BUSY_SECONDS + 3.0

    def attach(self) -> None:
        """A client takes over what another subscribed by a name."""
        named = [
            reception.request.name
            for _, reception in self.receptions
            if isinstance(reception.request, Subscribe)
            and reception.request.name is not None
            and reception.request.webhook is None
            and reception.confirmed_at is not None
            and reception.request.name not in self.unsubscribed
        ]
        client = self.rng.choice(self.clients)
        if named and client.is_up:
            name = self.rng.choice(named)
            self.attached.add(name)
            client.attach(name, window=self.rng.choice((1, 4, 1024)))

    def unsubscribe(self) -> None:
        alive = [(client, each) for client, each in self.receptions if client.is_up and each.ended_at is None]
        if alive:
            client, reception = self.rng.choice(alive)
            if reception.name not in self.attached:
                self.unsubscribed.add(reception.name)
                client.unsubscribe(reception)


def _publish(client: SimulatedClient, topic: str, events: list[dict[str, object]]) -> None:
    if client.is_up:
        client.publish(topic, *events)
