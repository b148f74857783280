"""Who does not answer: one member is pinged in each round, and if it is silent, others are asked to ping it.

This is SWIM's failure detector (Das, Gupta, Motivala: "SWIM", 4.1 and 4.3). Members are pinged in a random order in
which each has its turn, so a crash is noticed within a bounded time; that others ping too keeps a lossy way between
two members from looking like a crash.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from fieldfare.coordination.gossip_messages import Ping, PingFor, Pong
from fieldfare.coordination.member_table import MemberState
from fieldfare.messages import SendDatagram

_PINGS_FOR_OTHERS_MAX = 256  # in one round


@dataclass(slots=True)
class _Probe:
    name: str
    address: str
    number: int
    is_answered: bool = False


class Prober:
    """The pings of one member. `name` is its own."""

    def __init__(self, name: str, rng: random.Random) -> None:
        self._name = name
        self._rng = rng
        self._turns: list[str] = []  # who is pinged next, from the end
        self._probe: _Probe | None = None
        self._number = rng.getrandbits(40)  # an old pong, sent again by somebody, must not fit
        self._for_others: dict[int, tuple[str, int]] = {}  # the address and number of who asked, by our own number
        self._for_others_before: dict[int, tuple[str, int]] = {}  # those of the last round

    # Our own question

    def begin(self, candidates: dict[str, MemberState]) -> list[SendDatagram]:
        """Ping the next member."""
        self._for_others, self._for_others_before = {}, self._for_others
        state = self._next(candidates)
        if state is None:
            self._probe = None
            return []
        self._probe = _Probe(state.name, state.address, self._next_number())
        return [SendDatagram(state.address, Ping(self._name, state.name, self._probe.number))]

    def ask_helpers(self, candidates: dict[str, MemberState], helpers: int) -> list[SendDatagram]:
        """No pong has come in time: have others ping."""
        probe = self._probe
        if probe is None or probe.is_answered:
            return []
        names = [name for name in candidates if name != probe.name]
        chosen = self._rng.sample(names, min(helpers, len(names)))
        message = PingFor(self._name, probe.name, probe.address, probe.number)
        return [SendDatagram(candidates[name].address, message) for name in chosen]

    def end(self) -> str | None:
        """Who did not answer at all."""
        probe, self._probe = self._probe, None
        return None if probe is None or probe.is_answered else probe.name

    def cancel(self) -> None:
        """We were not there to hear an answer."""
        self._probe = None

    def _next(self, candidates: dict[str, MemberState]) -> MemberState | None:
        for _ in range(2):
            while self._turns:
                if (state := candidates.get(self._turns.pop())) is not None:
                    return state
            self._turns = sorted(candidates)
            self._rng.shuffle(self._turns)
        return None

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    # What others ask

    def ping_for(self, address: str, message: PingFor) -> Sequence[SendDatagram]:
        """Somebody has no answer from a member: ping it for them."""
        if len(self._for_others) >= _PINGS_FOR_OTHERS_MAX:
            return ()
        number = self._next_number()
        self._for_others[number] = (address, message.number)
        return (SendDatagram(message.address, Ping(self._name, message.name, number)),)

    def pong(self, message: Pong) -> Sequence[SendDatagram]:
        """A member answers: us, or somebody for whom it was pinged."""
        probe, number = self._probe, message.number
        if probe is not None and number == probe.number:
            probe.is_answered = True
            return ()
        asked = self._for_others.pop(number, None) or self._for_others_before.pop(number, None)
        return () if asked is None else (SendDatagram(asked[0], Pong(self._name, asked[1])),)
