"""Coordination without a server: brokers that tell each other what they know, and find out who is gone.

In each round a member sends what is new to it to about log2 N random others, with a hash of all that it knows; whoever
knows something else compares notes with it (`comparing.py`). It pings one other (`prober.py`): a member that answers
nobody is suspected, and if it does not object, dead (`membership.py`). A dead incarnation never returns; its broker
does, with a higher one (`myself.py`). Who owns a topic follows from who is seen (`topic_board.py`).

    BlueDove III-C   tables that are exchanged with log N random members
    SWIM             pings, pings over others, suspicion, incarnations
    Scuttlebutt      each member numbers what it says; others ask for what comes after what they have
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Sequence
from typing import cast

from fieldfare.coordination.comparing import Comparing
from fieldfare.coordination.gossip_messages import (
    Announcement,
    AnyGossipMessage,
    Compare,
    Digest,
    EndpointCount,
    Fact,
    Health,
    News,
    OfferNews,
    Ping,
    PingFor,
    Pong,
    PongDue,
    RoundDue,
    Tell,
)
from fieldfare.coordination.gossip_options import GossipOptions
from fieldfare.coordination.member_table import MemberState, MemberTable
from fieldfare.coordination.membership import Membership
from fieldfare.coordination.myself import Myself, Stamps
from fieldfare.coordination.packing import PART_BYTES, news_of, size_of
from fieldfare.coordination.prober import Prober
from fieldfare.coordination.worth_telling import is_count_worth_telling, is_member_worth_telling
from fieldfare.messages import CountEndpoints, Effect, Input, Member, OfferAnswered, OfferTopic, SendDatagram, SetTimer

_DEFAULT_OPTIONS = GossipOptions()
_FORGETTING_ROUNDS = 60


class Gossip:
    """One member. `take_told` gives what its broker is to be told, `take_effects` what its host is to do.

    `address` is where others reach it with datagrams; if it is empty, they tell. `seeds` are addresses through which it
    joins: any members that are commonly there.
    """

    def __init__(
        self,
        name: str,
        rng: random.Random,
        seeds: Sequence[str] = (),
        address: str = "",
        options: GossipOptions = _DEFAULT_OPTIONS,
    ) -> None:
        self.name = name
        self.table = MemberTable(options.members_max, options.topics_max)
        self._options, self._rng, self._seeds = options, rng, tuple(seeds)
        self._stamps = Stamps(rng)
        self.myself = Myself(name, address, self.table, self._stamps)
        self.membership = Membership(name, self.table, self._stamps, options)
        self._prober = Prober(name, rng)
        self._comparing = Comparing(name, self.table, rng)
        self._round = 0
        self._round_at = 0.0  # when the next round is due
        self._has_started = self._has_left = False
        self._effects: list[Effect] = []

    # For the node around it

    def start(self, now: float) -> None:
        """Begin a life, and join."""
        self.myself.begin(now)
        self._spread_about_me()
        self._has_started = True
        self._greet(self._seeds)
        self._round_at = now + self._options.round_seconds * self._rng.random()
        self._effects.append(SetTimer(RoundDue(), self._round_at))

    def take_effects(self) -> list[Effect]:
        """What the host is to do."""
        taken, self._effects = self._effects, []
        return taken

    def take_told(self) -> deque[Input]:
        """What the broker is to be told."""
        taken = self.membership.told
        taken += self.membership.topics.news()
        self.membership.told = deque()
        return taken

    def waits(self) -> list[str]:
        """What is waited for, for people who look at a failed run."""
        return [*self.membership.view.waits(), f"{len(self.membership.rumours)} rumours to spread"]

    # What the broker and its operator say

    def announce(self, member: Member) -> None:
        """The broker is such; a change of its load is passed on if it is worth it."""
        said = self.myself.state.member
        self.membership.topics.announce(member)
        if said is None or is_member_worth_telling(said, member):
            self._say(Announcement(self.myself.address, member))

    def count_endpoints(self, effect: CountEndpoints) -> None:
        """The broker has so many endpoints of a topic."""
        topic, facts = effect.topic, self.myself.state.facts
        count = EndpointCount(topic, effect.publishers, effect.subscribers, effect.is_owed)
        _, said = facts.get(topic, (0, EndpointCount(topic, 0, 0)))
        if not is_count_worth_telling(cast("EndpointCount", said), count):
            return
        if topic not in facts and len(facts) > self._options.topics_max:
            self.table.refused_count += 1
            return
        self._say(count)
        self.membership.topics.counts_changed(self.myself.state, [topic])

    def offer_topic(self, effect: OfferTopic) -> None:
        """Change what a topic offers, if nobody else has, as far as is known here.

        Where nothing is known, any version is taken: after all have stopped, a broker may bring what it has stored.
        """
        known, offer = self.table.offers.get(effect.topic), effect.offer
        failure = None
        if known is not None and known != offer and known.version + 1 != offer.version:
            failure = f"its offer has version {known.version} by now, so a change has to be version {known.version + 1}"
        elif known != offer and not self.membership.hear_offer(OfferNews(effect.topic, offer)):
            failure = f"there are {self._options.topics_max:,} topics already, which is the most"
        self.membership.told.append(OfferAnswered(effect.number, failure))

    def retire(self, name: str, now: float) -> None:
        """Nothing is owed to this member any more, and nobody waits for it. If it lives after all, it returns."""
        state = self.table.members.get(name)
        if state is not None and state is not self.myself.state:
            self.membership.claim(state, Health.RETIRED, now)

    def depart(self, now: float) -> None:
        """Say goodbye, and nothing after that."""
        if self._has_started and not self._has_left:
            self._has_left = True
            self.myself.leave(now)
            self._spread_about_me()
            self._tell_some()

    # What comes

    def receive(self, address: str, message: AnyGossipMessage, now: float) -> None:
        """A datagram has come."""
        if not self._has_started or self._has_left:
            return
        match message:
            case Tell():
                self._hear(address, message, now)
            case Compare():
                self._effects += self._comparing.digests(address, message)
            case Digest():
                self._effects += self._comparing.answer(address, message)
            case Ping():
                if message.name == self.name:  # else its address is ours now: it must not seem to live
                    self._effects.append(SendDatagram(address, Pong(self.name, message.number)))
            case PingFor():
                self._effects += self._prober.ping_for(address, message)
            case Pong():
                self._effects += self._prober.pong(message)

    def timer_due(self, key: RoundDue | PongDue, now: float) -> None:
        """A timer of ours is due."""
        if self._has_left:
            return
        if isinstance(key, PongDue):
            self._effects += self._prober.ask_helpers(self.membership.candidates, self._options.helpers)
        else:
            self._do_round(now)

    # Rounds

    def _do_round(self, now: float) -> None:
        late_seconds = now - self._round_at
        if late_seconds > self._options.round_seconds:  # we were paused, and may not have heard what was answered
            self.membership.view.slept(late_seconds)
            self._prober.cancel()
        elif (silent := self._prober.end()) is not None:
            self.membership.suspect(silent, now)
        self.membership.bury_overdue(now)
        self._round += 1
        if self._round % _FORGETTING_ROUNDS == 0:
            self.membership.forget_long_gone(now)
        self._comparing.round_begins()
        self._tell_some()
        self._try_lost_ones()
        self._effects += self._prober.begin(self.membership.candidates)
        self._round_at = now + self._options.round_seconds * (0.9 + 0.2 * self._rng.random())
        self._effects.append(SetTimer(PongDue(), now + self._options.pong_seconds))
        self._effects.append(SetTimer(RoundDue(), self._round_at))

    def _tell_some(self) -> None:
        candidates = self.membership.candidates
        if candidates:
            for name in self._rng.sample(list(candidates), self._options.fanout(self.membership.count)):
                self._tell(candidates[name])

    def _tell(self, state: MemberState) -> None:
        """News to a member; first of all, if it is not believed to live, that: it may object."""
        about_it = [] if state.claim.health is Health.ALIVE else [News(state.name, state.claim)]
        news, offers = self.membership.rumours.pick(PART_BYTES - sum(map(size_of, about_it)))
        self._send(state.address, Tell(self.name, about_it + news, offers, self._comparing.hash))

    def _try_lost_ones(self) -> None:
        """Now and then, and while there is nobody else: somebody who seems dead, or a seed. So partitions heal."""
        is_alone = not self.membership.candidates
        if not is_alone and (self._round + len(self.name)) % self._options.healing_rounds:
            return
        known = {state.address for state in self.membership.candidates.values()} | {self.myself.state.address}
        seeds = [seed for seed in self._seeds if seed not in known]
        if is_alone:
            self._greet(seeds)
        if hopeful := [*(state.address for state in self.membership.lost()), *seeds]:
            self._greet([self._rng.choice(hopeful)])

    def _greet(self, addresses: Iterable[str]) -> None:
        """Introduce ourselves to whoever is there, and say what we believe of it."""
        me = self.myself.state
        believed = {state.address: News(state.name, state.claim) for state in self.table.members.values()}
        for address in addresses:
            about_it = [believed[address]] if address in believed and address != me.address else []
            self._send(address, Tell(self.name, [*about_it, *news_of(me, 0, 1)], [], self._comparing.hash, address))

    # Hearing

    def _hear(self, address: str, message: Tell, now: float) -> None:
        if message.receiver_address and not self.myself.address:
            self.myself.address = message.receiver_address
            self._say(Announcement(message.receiver_address, self.myself.state.member))
        is_stranger, old_hash = message.sender not in self.table.members, self._comparing.hash
        is_rumour = message.hash != 0
        incomplete = [news.name for news in message.news if self._hear_news(news, now, is_rumour=is_rumour)]
        for offer in message.offers:
            self.membership.hear_offer(offer)
        if incomplete:
            self._effects += self._comparing.ask(address, incomplete)
        if not is_rumour and self._comparing.hash != old_hash:
            self._comparing.was_useful()
        if message.hash == self._comparing.hash:
            self.membership.rumours.all_came_again()
        sender = self.table.members.get(message.sender)
        if sender is None or sender is self.myself.state:
            return
        if sender.claim.health is not Health.ALIVE or not sender.address:  # it may object, or learn where it is
            self._send(address, Tell(self.name, [News(sender.name, sender.claim)], receiver_address=address))
        self._effects += self._comparing.compare(address, message.hash, is_stranger=is_stranger)

    def _hear_news(self, news: News, now: float, *, is_rumour: bool) -> bool:
        """Whether there is more to ask for."""
        self._stamps.saw(news.claim)
        if news.name == self.name:
            if self.myself.object(news, now):
                self._spread_about_me()
            return False
        if self.myself.meet(now):
            self._spread_about_me()
        return self.membership.hear(news, now, is_rumour=is_rumour)

    # Speaking

    def _say(self, fact: Fact) -> None:
        self._spread_about_me(self.myself.say(fact))

    def _spread_about_me(self, after: int = 0) -> None:
        self.membership.rumours.add(self.name, self.membership.sends, after)

    def _send(self, address: str, message: AnyGossipMessage) -> None:
        self._effects.append(SendDatagram(address, message))
