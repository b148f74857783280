"""Frames that are acknowledged: numbered, sent again after a while, and given up when a node seems dead.

Waiting times follow measured round trips and double with each attempt. One timer serves all frames of a node. A routed
message does not wait for the end: after a few attempts it goes another way, if there is one.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import Protocol

from fieldfare.messages import Effect, SendDatagram, SetTimer
from fieldfare.pastry.acquaintances import Acquaintances
from fieldfare.pastry.admission import Ids
from fieldfare.pastry.fragments import WINDOW, Transfer
from fieldfare.pastry.options import PastryOptions
from fieldfare.pastry.pastry_frames import Acknowledge, Hop, Join, Note, NumberedFrame, PastryFrame, PastryTimer, Piece
from fieldfare.pastry.ports import Card, Contact, NodeId
from fieldfare.pastry.statistics import PastryCounts


class CourierListener(Protocol):
    """Who is told of answers, and of answers that do not come."""

    def answered(self, contact: Contact, seconds: float, now: float) -> None:
        """A node has answered that is watched, or was not known, or not in this life or at this address."""
        ...

    def is_no_member(self, node: NodeId, life: int, now: float) -> None:
        """A node has answered that is not on the ring: it has not joined yet, or has left."""
        ...

    def fell_silent(self, target: Contact, now: float) -> None:
        """A node has not acknowledged a frame however often it was sent."""
        ...

    def take_back(self, frame: Hop | Note | Join, target: Contact, previous: Contact | None, now: float) -> None:
        """A message could not be brought to a node."""
        ...

    def try_detour(self, frame: Hop, target: Contact, previous: Contact | None, now: float) -> bool:
        """A node lets a routed message wait; whether it was sent another way."""
        ...


class _Unacknowledged:
    __slots__ = ("attempts", "frame", "previous", "sent_at", "target", "timeout_seconds", "transfer")

    def __init__(
        self, target: Contact, frame: NumberedFrame, previous: Contact | None, transfer: Transfer | None, now: float
    ) -> None:
        self.target, self.frame, self.previous, self.transfer = target, frame, previous, transfer
        self.attempts = 1
        self.sent_at = now
        self.timeout_seconds = 0.0


class Courier:
    """The frames of one node that wait for an acknowledgement. Effects go to `out`."""

    def __init__(
        self,
        me: Contact,
        group: Ids,
        acquaintances: Acquaintances,
        options: PastryOptions,
        out: list[Effect],
    ) -> None:
        self.counts = PastryCounts()
        self.watched: set[NodeId] = set()  # nodes of whose next answer the listener is told, though they are known
        self._name, self._life = me.card.name, me.card.life
        self._group, self._acquaintances, self._options, self._out = group, acquaintances, options, out
        self.out = out
        self._number = 0
        self._waiting: dict[int, _Unacknowledged] = {}
        self._due: list[tuple[float, int]] = []  # a heap: when a frame is sent again; some have been acknowledged
        self._timer_at = inf

    def listen(self, listener: CourierListener) -> None:
        """Tell this one of answers and of silence."""
        self._listener = listener

    def __len__(self) -> int:
        return len(self._waiting)

    def next_number(self, now: float) -> int:
        """A number that this node has not used, in this life or another. It holds the time in milliseconds."""
        number = self._number = max(self._number + 1, int(now * 1000) << 20)
        return number

    # Sending

    def send(self, target: Contact, frame: NumberedFrame, now: float, previous: Contact | None = None) -> None:
        """Send a frame until it is acknowledged. `previous` is given back with a message that is taken back."""
        if isinstance(frame, Hop | Note) and Transfer.is_needed(frame):
            self._send_pieces(Transfer(target, frame, previous), now)
        else:
            self._send(_Unacknowledged(target, frame, previous, None, now), now)

    def send_once(self, target: Contact, frame: Hop | Note, now: float) -> None:
        """Send a message without an acknowledgement; but the pieces of a large one are acknowledged."""
        if Transfer.is_needed(frame):
            self._send_pieces(Transfer(target, frame, None), now)
        else:
            self._out.append(SendDatagram(target.card.address, frame))

    def _send(self, entry: _Unacknowledged, now: float) -> None:
        target, frame = entry.target, entry.frame
        seconds = entry.timeout_seconds = self._acquaintances.timeout_seconds(target.id)
        self._waiting[frame.number] = entry
        self._out.append(SendDatagram(target.card.address, frame))
        self._wait(now + seconds, frame.number)

    def _wait(self, until: float, number: int) -> None:
        heappush(self._due, (until, number))
        if until < self._timer_at:
            self._timer_at = until
            self._out.append(SetTimer(PastryTimer.RESEND, until))

    def _send_pieces(self, transfer: Transfer, now: float) -> None:
        """Send pieces of a frame, as many as may be under way."""
        count = transfer.count
        while transfer.unsent and len(transfer.numbers) < WINDOW:
            index = count - len(transfer.unsent)
            number = self.next_number(now)
            transfer.numbers.add(number)
            piece = Piece(
                self._name, self._life, number, transfer.frame.number, index, count, transfer.unsent.popleft()
            )
            self._send(_Unacknowledged(transfer.target, piece, None, transfer, now), now)

    # Answers

    def acknowledged(self, frame: Acknowledge, now: float) -> NodeId | None:
        """An acknowledgement has come; who has answered, if we waited for it."""
        return self.answered(frame, frame.number, now, is_joined=frame.is_joined)

    def answered(self, by: PastryFrame, number: int, now: float, *, is_joined: bool) -> NodeId | None:
        """A frame has been acknowledged, by an Acknowledge or by an answer. Who has not joined does not get known."""
        entry = self._waiting.get(number)
        if entry is None:
            return None
        target, name, life = entry.target, by.name, by.life
        if target.card.name != name:
            self.counts.false_answers += 1
            return None
        del self._waiting[number]
        if is_joined:
            self._note_answer(entry, name, life, now)
        else:
            self._listener.is_no_member(target.id, life, now)
        if (transfer := entry.transfer) is not None:
            transfer.numbers.discard(number)
            self._send_pieces(transfer, now)
        return target.id

    def _note_answer(self, entry: _Unacknowledged, name: str, life: int, now: float) -> None:
        target = entry.target
        if target.card.life != life:  # it has started again
            target = self._group.contact(Card(name, target.card.address, life))
        known, seconds = self._acquaintances.get(target.id), now - entry.sent_at
        if known is not None and known.contact.card == target.card:
            known.heard_at = now
            if entry.attempts == 1:  # else it is not known which transmission was answered
                known.measured(seconds)
            if self.watched and target.id in self.watched:
                self.watched.discard(target.id)
                self._listener.answered(target, seconds, now)
        else:
            known = self._acquaintances.add(target, now)
            known.measured(seconds)
            self._listener.answered(target, seconds, now)

    # Silence

    def timer_due(self, now: float) -> None:
        """Send again what has waited for long enough."""
        self._timer_at = inf
        due, waiting = self._due, self._waiting
        while due and due[0][0] <= now:
            _, number = heappop(due)
            entry = waiting.get(number)
            if entry is not None:
                self._overdue(number, entry, now)
        while due and due[0][1] not in waiting:
            heappop(due)
        if due and due[0][0] < self._timer_at:
            self._timer_at = due[0][0]
            self._out.append(SetTimer(PastryTimer.RESEND, self._timer_at))

    def _overdue(self, number: int, entry: _Unacknowledged, now: float) -> None:
        options, target = self._options, entry.target
        if entry.attempts >= options.attempts_max:
            self.counts.given_up += 1
            self._listener.fell_silent(target, now)  # it takes the node out of the tables first, then gives it up
            self._waiting.pop(number, None)
            return
        if entry.attempts >= options.detour_attempts and isinstance(entry.frame, Hop):
            del self._waiting[number]
            if self._listener.try_detour(entry.frame, target, entry.previous, now):
                return
            self._waiting[number] = entry
        entry.attempts += 1
        entry.timeout_seconds = min(2 * entry.timeout_seconds, options.timeout_seconds_max)
        self.counts.retransmissions += 1
        self._out.append(SendDatagram(target.card.address, entry.frame))
        self._wait(now + entry.timeout_seconds, number)

    def give_up(self, node: NodeId, now: float) -> None:
        """Send nothing more to a node; the listener takes back the messages that it has not acknowledged."""
        self.watched.discard(node)
        entries = [entry for entry in self._waiting.values() if entry.target.id == node]
        transfers: set[Transfer] = set()
        for entry in entries:
            del self._waiting[entry.frame.number]
        for entry in entries:
            if (transfer := entry.transfer) is not None:
                if transfer not in transfers:
                    transfers.add(transfer)
                    self._listener.take_back(transfer.frame, entry.target, transfer.previous, now)
            elif isinstance(entry.frame, Hop | Note | Join):
                self._listener.take_back(entry.frame, entry.target, entry.previous, now)

    def waits(self) -> list[str]:
        """What has not been acknowledged, for people who look at a failed run."""
        return [f"{type(entry.frame).__name__} to {entry.target.name}" for entry in self._waiting.values()]
