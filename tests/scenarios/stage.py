"""Where scenarios are played: what a stage has to offer, and how a scenario is played on any of them and judged.

Every stage writes the same history, and the same checkers judge it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec
from msgspec import Raw
from tests.scenarios.scenario import (
    AttachStep,
    ChurnStep,
    ClientCrash,
    ClientPause,
    Complete,
    ConnectionCut,
    DiskFull,
    EdgeCrash,
    LostAnswers,
    Moment,
    Mood,
    PublishStep,
    Scenario,
    Settle,
    StillWaiting,
    SubscribeStep,
    UnsubscribeStep,
    WebhookTrouble,
    timeline,
)

from fieldfare.errors import BrokenPromiseError
from fieldfare.messages import Attach, Delivery, Subscribe
from fieldfare.qos import Offered
from fieldfare.simulation.checkers import check_liveness, check_safety, check_standing
from fieldfare.simulation.client import ListedKind
from fieldfare.simulation.history import History, Publication, Reception, Standing


class StageClient(Protocol):
    """A client. `fieldfare.simulation.client.SimulatedClient` is one."""

    answers_to_lose: int

    @property
    def is_up(self) -> bool: ...
    def declare(self, topic: str, offered: Offered) -> None: ...
    def publish(self, topic: str, *events: Any) -> Publication: ...
    def subscribe(self, topic: str, condition: str, **options: Any) -> Reception: ...
    def attach(self, subscription: str, **options: Any) -> Reception: ...
    def unsubscribe(self, reception: Reception) -> None: ...
    def start(self) -> None: ...
    def crash(self) -> None: ...
    def cut(self) -> None: ...
    def pause(self) -> None: ...
    def go_on(self) -> None: ...


class Stage(Protocol):
    """One edge, its clients and its webhooks, simulated or real."""

    history: History
    prefix: str  # of the names of topics and durable subscriptions, where scenarios share an edge

    @property
    def now(self) -> float:
        """The time by which the history is written."""
        ...

    @property
    def clients(self) -> Mapping[str, StageClient]: ...
    def add_client(self, name: str, tenant: str) -> StageClient: ...
    def webhook(self, name: str) -> str:
        """The URL of a webhook, which takes what comes."""
        ...

    async def set_mood(self, webhook: str, mood: Mood) -> None: ...
    async def pass_time(self, seconds: float) -> None:
        """Let seconds of a scenario pass."""
        ...

    async def wait_until(self, is_so: Callable[[], bool]) -> bool:
        """Let time pass until something is so; False if it will not become so."""
        ...

    async def crash_edge(self) -> None: ...
    async def restart_edge(self) -> None: ...
    def fill_disk(self) -> None: ...
    def free_disk(self) -> None: ...
    async def ask_list(self, tenant: str, what: ListedKind, subscription: str | None = None) -> list[dict[str, Any]]:
        """What the edge lists for a tenant."""
        ...


@dataclass
class _Play:
    """A scenario while it is played."""

    stage: Stage
    subscribed: dict[str, tuple[str, Subscribe | Attach]] = field(default_factory=dict)  # client and request, by label
    churned: list[tuple[StageClient, Reception]] = field(default_factory=list)

    def receptions(self, label: str) -> list[Reception]:
        """All lives of a subscription in its client, the last one at the end."""
        client, request = self.subscribed[label]
        return [each for each in self.stage.history.receptions if each.client == client and each.request == request]

    def receptions_anywhere(self, label: str) -> list[Reception]:
        """The same, but of a durable one in all clients."""
        found = self.receptions(label)
        names = {(each.tenant, each.name) for each in found if each.name is not None}
        return found if not names else [e for e in self.stage.history.receptions if (e.tenant, e.name) in names]


async def play(scenario: Scenario, stage: Stage) -> None:
    """Play a scenario to its end; raise if a promise was broken."""
    playing = _Play(stage)
    for participant in scenario.participants:
        stage.add_client(participant.name, participant.tenant)
    for topic in scenario.topics:
        declarer = next(each.name for each in scenario.participants if each.tenant == topic.tenant)
        stage.clients[declarer].declare(stage.prefix + topic.name, topic.offered)
    await stage.pass_time(2.0)
    at_seconds = checked_at_seconds = 0.0
    for moment in timeline(scenario):
        await stage.pass_time(moment.at_seconds - at_seconds)
        at_seconds = moment.at_seconds
        if at_seconds > checked_at_seconds + 1.0:
            checked_at_seconds = at_seconds
            check_safety(stage.history)
        await _perform(playing, moment)
    await judge(stage, {participant.tenant for participant in scenario.participants})


def check_worth(stage: Stage) -> None:
    """Raise if what was played proves nothing. Random scenarios may."""
    assert any(each.outcome == "accepted" for each in stage.history.publications), "nothing was accepted"
    assert any(each.events for each in stage.history.receptions) or stage.history.called, "nothing was delivered"
    assert not any(each.outcome == "refused" for each in stage.history.publications), "something was refused"
    unlost = sum(client.answers_to_lose for client in stage.clients.values())
    assert not unlost, f"{unlost} answers did not get lost"


async def judge(stage: Stage, tenants: Iterable[str]) -> None:
    """Wait for all that is promised, and a little longer, for what is not; then hold it against the promises."""
    history = stage.history
    await stage.wait_until(lambda: _is_fulfilled(stage, history))
    await stage.pass_time(3.0)
    history.standing, history.dead_letters = [], {}
    for tenant in tenants:
        for item in await stage.ask_list(tenant, "subscriptions"):
            if item["topic"].startswith(stage.prefix):
                await _note(stage, Standing(tenant, item["topic"], item["subscription"], item["is_durable"]))
    check_safety(history)
    check_liveness(history, stage.now)
    check_standing(history)


async def _note(stage: Stage, standing: Standing) -> None:
    """Write into the history that the edge has a subscription, and its dead letters."""
    letters = (
        await stage.ask_list(standing.tenant, "dead_letters", standing.subscription) if standing.is_durable else []
    )
    history = stage.history
    assert history.standing is not None
    assert history.dead_letters is not None
    history.standing.append(standing)
    history.dead_letters[standing.tenant, standing.subscription] = [_delivery(letter["event"]) for letter in letters]


def _delivery(item: dict[str, Any]) -> Delivery:
    """An event as it was delivered, out of what is listed."""
    return Delivery(**{**item, "event": Raw(msgspec.json.encode(item["event"]))})


def _is_fulfilled(stage: Stage, history: History) -> bool:
    try:
        check_liveness(history, stage.now)
    except BrokenPromiseError:
        return False
    return True


def _is_settled(history: History) -> bool:
    return not (
        any(each.outcome == "waiting" for each in history.publications)
        or any(each.confirmed_at is None and each.ended_at is None for each in history.receptions)
        or any(each.unsubscription == "waiting" for each in history.receptions)
    )


async def _perform(playing: _Play, moment: Moment) -> None:
    stage, step = playing.stage, moment.step
    match step:
        case Settle():
            assert await stage.wait_until(lambda: _is_settled(stage.history)), "something is not answered"
        case Complete():
            receptions = [reception for label in step.labels for reception in playing.receptions_anywhere(label)]
            part = replace(stage.history, receptions=receptions)
            if not await stage.wait_until(lambda: _is_fulfilled(stage, part)):
                check_liveness(part, stage.now)
        case StillWaiting():
            waiting = [each for each in stage.history.publications if each.outcome == "waiting"]
            assert any(each.publisher.startswith(step.client) for each in waiting), "the fault has had no effect"
        case EdgeCrash():
            await (stage.restart_edge() if moment.is_end else stage.crash_edge())
        case DiskFull():
            (stage.free_disk if moment.is_end else stage.fill_disk)()
        case WebhookTrouble():
            await stage.set_mood(step.webhook, "takes" if moment.is_end else step.mood)
        case _:
            _perform_at_client(playing, moment)


def _perform_at_client(playing: _Play, moment: Moment) -> None:
    stage, step = playing.stage, moment.step
    match step:
        case UnsubscribeStep():
            if step.label not in playing.subscribed:  # its client was down
                return
            client = stage.clients[playing.subscribed[step.label][0]]
        case (
            PublishStep()
            | SubscribeStep()
            | AttachStep()
            | ChurnStep()
            | ClientCrash()
            | ConnectionCut()
            | LostAnswers()
            | ClientPause()
        ):
            client = stage.clients[step.client]
        case _:
            raise TypeError(f"no stage can do this: {step}")
    if isinstance(step, ClientCrash):
        _crash(client, is_end=moment.is_end)
    elif client.is_up:
        _act(playing, client, moment)


def _crash(client: StageClient, *, is_end: bool) -> None:
    if client.is_up and not is_end:
        client.crash()
    elif is_end and not client.is_up:
        client.start()


def _act(playing: _Play, client: StageClient, moment: Moment) -> None:
    step, prefix = moment.step, playing.stage.prefix
    match step:
        case PublishStep():
            client.publish(prefix + step.topic, *moment.events)
        case SubscribeStep():
            _subscribe(playing, client, step)
        case AttachStep():
            reception = client.attach(prefix + step.name, window=step.window)
            playing.subscribed[step.label] = step.client, reception.request
        case UnsubscribeStep():
            for reception in playing.receptions(step.label)[-1:]:
                if reception.ended_at is None:
                    client.unsubscribe(reception)
        case ChurnStep():
            _churn(playing, client, step)
        case ConnectionCut() if not moment.is_end:
            client.cut()
        case LostAnswers() if not moment.is_end:
            client.answers_to_lose += step.count
        case ClientPause():
            (client.go_on if moment.is_end else client.pause)()


def _subscribe(playing: _Play, client: StageClient, step: SubscribeStep) -> None:
    options: dict[str, Any] = {"qos": step.qos, "window": step.window}
    if step.name is not None:
        options["name"] = playing.stage.prefix + step.name
    if step.webhook is not None:
        options["webhook"] = playing.stage.webhook(step.webhook)
    reception = client.subscribe(playing.stage.prefix + step.topic, step.condition, **options)
    playing.subscribed[step.label] = step.client, reception.request


def _churn(playing: _Play, client: StageClient, step: ChurnStep) -> None:
    """End what the round before has made, and make new ones."""
    for owner, reception in playing.churned:
        owner.unsubscribe(reception)
    conditions = [f"number = {step.round * step.count + place} AND road = 'nowhere'" for place in range(step.count)]
    topic = playing.stage.prefix + step.topic
    playing.churned = [(client, client.subscribe(topic, condition)) for condition in conditions]
