"""Messages of the application on their way: the next hop, detours around nodes that do not answer, and the end.

A message is handed to the application at each node that it passes. Where the source asks for it, the last node confirms
the arrival, and the source routes the message again until then; the last node knows repeats by source and serial.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from fieldfare.errors import MessageTooLargeError
from fieldfare.messages import SendDatagram, SetTimer
from fieldfare.pastry.core import NodeCore
from fieldfare.pastry.ids import ID_BYTES
from fieldfare.pastry.pastry_frames import Arrived, Hop, Note, PastryTimer
from fieldfare.pastry.ports import MESSAGE_BYTES_MAX, Application, Assurance, Contact, Key, RoutedMessage, Undelivered
from fieldfare.pastry.recent import Recent

_TOO_MANY = "too many messages are under way, or wait until the node has joined"


class _Step(NamedTuple):
    """A message that has to leave this node, or to be delivered here."""

    key: Key
    message: bytes
    source: Contact
    previous: Contact
    hops: int
    serial: int
    assurance: Assurance


class _Unconfirmed:
    """A message whose arrival this node waits for."""

    __slots__ = ("attempts", "key", "message", "seconds")

    def __init__(self, key: Key, message: bytes, seconds: float) -> None:
        self.key, self.message, self.seconds = key, message, seconds
        self.attempts = 1


class Forwarding:
    """The messages of one node. It does its work when `work` is called; effects go to `out`."""

    def __init__(self, core: NodeCore, application: Application) -> None:
        self.is_open = False  # the node has joined: until then messages wait
        self.is_leaving = False
        self._me, self._place, self._courier, self._group = core.place.me, core.place, core.courier, core.group
        self._application, self._options, self._out = application, core.options, core.out
        self._steps: deque[_Step] = deque()
        self._notes: deque[tuple[Contact, bytes]] = deque()
        self._notices: deque[Undelivered] = deque()
        self._ended = Recent(core.options.arrival_seconds * 2**core.options.arrival_attempts)  # sources and serials
        self._unconfirmed: dict[int, _Unconfirmed] = {}
        self._due: list[tuple[float, int]] = []
        self._timer_at = inf

    # What the application asks for

    def route(self, key: Key, message: bytes, now: float, assurance: Assurance) -> None:
        """Bring a message to the node closest to a key."""
        _check_size(message)
        if not self.has_room():
            self._notices.append(Undelivered(message, None, key, _TOO_MANY))
            return
        serial = self._courier.next_number(now)
        if assurance is Assurance.END_TO_END:
            self._unconfirmed[serial] = _Unconfirmed(key, message, self._options.arrival_seconds)
            self._wait(now + self._options.arrival_seconds, serial)
        self._steps.append(_Step(key, message, self._me, self._me, 0, serial, assurance))

    def send(self, target: Contact, message: bytes, now: float, assurance: Assurance) -> None:
        """Bring a message to a node."""
        _check_size(message)
        if target.id == self._me.id:
            self._notes.append((self._me, message))
            return
        if not self.has_room():
            self._notices.append(Undelivered(message, target, None, _TOO_MANY))
            return
        card, is_acknowledged = self._me.card, assurance is not Assurance.NONE
        note = Note(card.name, card.life, self._courier.next_number(now), is_acknowledged, message)
        if is_acknowledged:
            self._courier.send(target, note, now)
        else:
            self._courier.send_once(target, note, now)

    # What comes

    def has_room(self) -> bool:
        """Whether another message can be taken now."""
        if not self.is_open:
            return len(self._steps) < self._options.waiting_max
        return len(self._courier) + len(self._unconfirmed) < self._options.under_way_max

    def take_hop(self, frame: Hop, sender: Contact) -> None:
        """A message has come from another node."""
        source = sender if frame.source.name == sender.card.name else self._group.contact(frame.source)
        key = int.from_bytes(frame.key, "big")
        step = _Step(key, frame.message, source, sender, frame.hops, frame.serial, frame.assurance)
        self._steps.append(step)

    def take_note(self, frame: Note, sender: Contact) -> None:
        """Another node has sent something to this one."""
        self._notes.append((sender, frame.message))

    def arrived(self, frame: Arrived) -> None:
        """A message of this node has come to its end."""
        self._unconfirmed.pop(frame.serial, None)

    def take_back(self, frame: Hop | Note, target: Contact, previous: Contact | None) -> None:
        """A node seems dead: route around it, or tell the application."""
        if isinstance(frame, Hop):
            self._steps.append(self._step_again(frame, previous))
        else:
            self._notices.append(Undelivered(frame.message, target, None, "the node does not answer"))

    def try_detour(self, frame: Hop, target: Contact, previous: Contact | None) -> bool:
        """Send a message another way, if there is one past a node that lets it wait."""
        self._place.suspected.add(target.id)
        other = self._place.next_hop(int.from_bytes(frame.key, "big"))
        if other is None or other.id == target.id:
            return False
        self._steps.append(self._step_again(frame, previous))
        return True

    def _step_again(self, frame: Hop, previous: Contact | None) -> _Step:
        source = self._me if frame.source.name == self._me.card.name else self._group.contact(frame.source)
        key, hops = int.from_bytes(frame.key, "big"), frame.hops - 1
        return _Step(key, frame.message, source, previous or self._me, hops, frame.serial, frame.assurance)

    # Work

    @property
    def has_work(self) -> bool:
        """Whether something has to be done before effects are returned."""
        return bool((self.is_open and self._steps) or self._notes or self._notices)

    def work(self, now: float) -> None:
        """Let messages take their next step, and hand over what is for the application."""
        while self._notices:
            self._application.undelivered(self._notices.popleft(), now)
        while self._notes:
            sender, message = self._notes.popleft()
            self._application.receive(sender, message, now)
        while self.is_open and self._steps:
            self._take_step(self._steps.popleft(), now)

    def _take_step(self, step: _Step, now: float) -> None:
        place = self._place
        target = place.closest_known(step.key) if self.is_leaving else place.next_hop(step.key)
        routed = RoutedMessage(step.key, step.message, step.source, step.previous, step.hops)
        if target is None:
            if self._ends_here(step, now):
                self._application.deliver(routed, now)
            return
        if step.hops >= self._options.hops_max:
            self._courier.counts.too_many_hops += 1
            return
        if (step.source.id, step.serial) in self._ended:  # it was stopped here before
            self._ends_here(step, now)
            return
        message = self._application.forward(routed, target, now)
        if message is None:
            self._ends_here(step, now)
        else:
            _check_size(message)
            self._pass_on(step, message, target, now)

    def _pass_on(self, step: _Step, message: bytes, target: Contact, now: float) -> None:
        card, key = self._me.card, step.key.to_bytes(ID_BYTES, "big")
        number, source = self._courier.next_number(now), step.source.card
        hop = Hop(card.name, card.life, number, key, source, step.serial, step.hops + 1, step.assurance, message)
        if step.assurance is Assurance.NONE:
            self._courier.send_once(target, hop, now)
        else:
            self._courier.send(target, hop, now, step.previous)

    def _ends_here(self, step: _Step, now: float) -> bool:
        """A message has come to its end; whether for the first time."""
        if step.assurance is Assurance.END_TO_END:
            if step.source.id == self._me.id:
                self._unconfirmed.pop(step.serial, None)
            else:
                card = self._me.card
                self._out.append(SendDatagram(step.source.card.address, Arrived(card.name, card.life, step.serial)))
        return self._ended.is_new((step.source.id, step.serial), now)

    # Arrivals

    def _wait(self, until: float, serial: int) -> None:
        heappush(self._due, (until, serial))
        if until < self._timer_at:
            self._timer_at = until
            self._out.append(SetTimer(PastryTimer.ARRIVAL, until))

    def timer_due(self, now: float) -> None:
        """Route again what has not arrived in time."""
        self._timer_at = inf
        options, due = self._options, self._due
        while due and (due[0][0] <= now or due[0][1] not in self._unconfirmed):
            _, serial = heappop(due)
            waiting = self._unconfirmed.get(serial)
            if waiting is None:
                continue
            if waiting.attempts >= options.arrival_attempts:
                del self._unconfirmed[serial]
                self._notices.append(Undelivered(waiting.message, None, waiting.key, "its arrival was not confirmed"))
                continue
            waiting.attempts += 1
            waiting.seconds *= 2
            heappush(due, (now + waiting.seconds, serial))
            step = _Step(waiting.key, waiting.message, self._me, self._me, 0, serial, Assurance.END_TO_END)
            if self.is_open:
                self._steps.append(step)
        if due:
            self._wait(*heappop(due))

    def waits(self) -> list[str]:
        """What is under way, for people who look at a failed run."""
        return [
            f"arrival of {len(self._unconfirmed)} messages",
            f"{len(self._steps)} messages that wait for the node to join",
        ]


def _check_size(message: bytes) -> None:
    if len(message) > MESSAGE_BYTES_MAX:
        raise MessageTooLargeError(len(message), MESSAGE_BYTES_MAX)
