"""What Pastry and the application above it ask of each other: the narrow door between the two.

An application (DMM, Scribe, a key-value store) is an object with the methods of `Application`. It is given to a
`PastryNode`, which a host runs; on the start the node hands it a `Ring`. All calls are synchronous and nothing blocks:

    class Echo:
        def started(self, ring, now):            # the node is about to join; keep the ring
            self.ring = ring

        def joined(self, now):                   # the leaf set is complete: from now on this node is responsible
            self.ring.route(key_of("greetings"), b"hello", now)

        def deliver(self, routed, now):          # this node is the closest to routed.key
            self.ring.send(routed.source, b"got it", now)

        def forward(self, routed, next_hop, now):  # on the way, the source included, but not at the end
            return routed.message                # it goes on, changed or not; None: it stops here

        def receive(self, source, message, now):  # what another node sent to this one
            ...

        def neighbours_changed(self, change, now):  # the leaf set is another one: replicas have to move
            ...

        def undelivered(self, notice, now):      # nobody took a message in time
            ...

        def handle(self, message, now):          # timers that it has set, and every other input of its host
            ...

Messages are bytes, at most `MESSAGE_BYTES_MAX` of them: an application encodes its own (msgspec does it in a
microsecond), so that sizes are known, a node on the way copies rather than decodes, and no two simulated nodes share an
object. Beyond about 1,200 bytes Pastry cuts them into datagrams and joins them at every hop.

What an application can rely on, and what not:

- A message that is routed ends at the live node whose id is closest to the key, as far as the last node can know.
  Where a node has just come, gone, or lies beyond a partition, two nodes may each believe that they are the closest.
- A message comes once for each call to one node, but a message that was sent around a node that seemed dead may be
  delivered at two nodes. Messages may overtake each other.
- How hard Pastry tries is `Assurance`. With `EACH_HOP` a message is lost only if a node crashes between taking
  and passing it on; with `END_TO_END` the source hears of its arrival and repeats it until then.
- A `Contact` is how a node is reached. What an application keeps or sends on is its `Card`, without the id:
  `ring.contact(card)` gives the contact again, with the id that admission gives to that name. A contact whose node
  started again has another `life`; the id stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated, Any, Protocol, TypeAlias, runtime_checkable

import msgspec
from msgspec import Meta

from fieldfare.messages import Effect, Input

NodeId: TypeAlias = int  # of 128 bits, on a ring
Key: TypeAlias = int  # likewise
MESSAGE_BYTES_MAX = 1 << 20


class Card(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How a node is told of to others, on the wire. It has no id: everybody finds that out from the name."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    address: Annotated[str, Meta(max_length=300)]
    life: Annotated[int, Meta(ge=0, le=2**42)]  # milliseconds since 1970 at its start; a later life replaces an earlier


class Contact(msgspec.Struct, frozen=True, gc=False):
    """A node that can be reached: its id, and its card."""

    id: NodeId
    card: Card

    @property
    def name(self) -> str:
        """What it is called; its id follows from it."""
        return self.card.name

    @property
    def address(self) -> str:
        """Where it takes datagrams."""
        return self.card.address


class Assurance(IntEnum):
    """How hard Pastry tries to bring a message to its end."""

    NONE = 0  # one datagram for each hop, without acknowledgements: what the network loses is lost
    EACH_HOP = 1  # each hop is acknowledged, repeated, and routed around if the next node seems dead
    END_TO_END = 2  # and the last node tells the source, which routes the message again until it hears that


class RoutedMessage(msgspec.Struct, frozen=True, gc=False):
    """A message on its way to a key, as a node on that way sees it."""

    key: Key
    message: bytes
    source: Contact  # the node that called `route`
    previous: Contact  # the node that it came from just now: of the source itself, the source
    hops: int  # how often it was sent from one node to another so far


class Leaves(msgspec.Struct, frozen=True, gc=False):
    """The nodes around a node on the ring, the nearest first; in a small ring a node may stand on both sides."""

    before: tuple[Contact, ...]  # counterclockwise: smaller ids
    after: tuple[Contact, ...]  # clockwise: greater ids


class NeighboursChanged(msgspec.Struct, frozen=True, gc=False):
    """The leaf set is another one now, and who came and went."""

    leaves: Leaves
    came: tuple[Contact, ...]
    gone: tuple[Contact, ...]  # dead, left, or no longer among the nearest


class Undelivered(msgspec.Struct, frozen=True, gc=False):
    """A message that nobody confirmed in time. It may have arrived all the same."""

    message: bytes
    target: Contact | None  # the node that it was sent to; None: it was routed
    key: Key | None  # the key that it was routed to; None: it was sent to a node
    reason: str


class Ring(Protocol):
    """What an application asks of Pastry. Whatever it causes is done when the call of the application has returned."""

    @property
    def me(self) -> Contact:
        """How others reach this node."""
        ...

    @property
    def leaves(self) -> Leaves:
        """The nodes around this one."""
        ...

    @property
    def is_joined(self) -> bool:
        """Whether this node has its place on the ring. Until then what is routed waits."""
        ...

    def contact(self, card: Card) -> Contact:
        """How the node of a card is reached."""
        ...

    def route(self, key: Key, message: bytes, now: float, assurance: Assurance = Assurance.EACH_HOP) -> None:
        """Bring a message to the node closest to a key, perhaps this one: then it is delivered in the same round.

        A MessageTooLargeError if it is larger than MESSAGE_BYTES_MAX.
        """
        ...

    def send(self, target: Contact, message: bytes, now: float, assurance: Assurance = Assurance.EACH_HOP) -> None:
        """Bring a message to a node that is known; END_TO_END is the same as EACH_HOP. It may be this node itself."""
        ...

    def next_hop(self, key: Key) -> Contact | None:
        """Where a message to this key would go now; None: it would be delivered here."""
        ...

    def closest(self, key: Key, count: int) -> list[Contact]:
        """Of this node and its leaf set the nodes closest to a key, the closest first: where replicas belong.

        Only for keys near this node on the ring: about others a leaf set knows nothing.
        """
        ...

    def perform(self, effect: Effect) -> None:
        """Have the host do something else: set a timer (with a key of the application's own), append to a log."""
        ...


class Application(Protocol):
    """What Pastry calls. No method raises for what others have sent: bad bytes are the application's to count."""

    def started(self, ring: Ring, now: float) -> None:
        """The node begins to join the ring."""
        ...

    def joined(self, now: float) -> None:
        """The node has its place on the ring; called once in a life."""
        ...

    def deliver(self, routed: RoutedMessage, now: float) -> None:
        """A message for a key to which no node is closer than this one."""
        ...

    def forward(self, routed: RoutedMessage, next_hop: Contact, now: float) -> bytes | None:
        """A message is about to go to the next node. Returns what goes on; None stops it: it counts as arrived.

        It is called again for a message that has to be sent around a dead node.
        """
        ...

    def receive(self, source: Contact, message: bytes, now: float) -> None:
        """A message that another node, or this one, sent to this node."""
        ...

    def neighbours_changed(self, change: NeighboursChanged, now: float) -> None:
        """Nodes have come into the leaf set or gone from it. Called at most once for each input of the host."""
        ...

    def undelivered(self, notice: Undelivered, now: float) -> None:
        """A message was given up; with assurance NONE nobody notices that."""
        ...

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        """Every input that is not Pastry's own."""
        ...


@runtime_checkable
class LoggingApplication(Application, Protocol):
    """An application that keeps a log, and comes back from it. `node_for` makes a node for it that does, too."""

    def recover(self, record: Any) -> None:
        """Take up a record of the checkpoint or the log, in order, before `started`."""
        ...

    def checkpoint(self) -> Sequence[Any]:
        """Records that stand for all that were stored so far."""
        ...
