"""A node's place: its leaf set, prefix table and neighbourhood, and which way a key lies from there.

Only nodes that have answered this one get in, so that tables fill neither with the dead nor with what others invent.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from fieldfare.pastry.ids import distance, is_closer, shared_digits
from fieldfare.pastry.leaf_set import LeafSet
from fieldfare.pastry.neighbourhood import Neighbourhood
from fieldfare.pastry.options import PastryOptions
from fieldfare.pastry.ports import Contact, Key, NodeId
from fieldfare.pastry.prefix_table import PrefixTable


class Place:
    """The three tables of one node. `suspected` are nodes that owe an answer: they are avoided where possible."""

    __slots__ = ("leaf_set", "me", "neighbourhood", "suspected", "table")

    def __init__(self, me: Contact, options: PastryOptions) -> None:
        self.me = me
        self.leaf_set = LeafSet(me, options.leaves_each_side)
        self.table = PrefixTable(me.id)
        self.neighbourhood = Neighbourhood(options.neighbourhood_size)
        self.suspected: set[NodeId] = set()

    def __contains__(self, node: NodeId) -> bool:
        return node in self.leaf_set or node in self.table or node in self.neighbourhood

    def contacts(self) -> Iterator[Contact]:
        """All nodes in the tables; some come twice or three times."""
        return chain(self.leaf_set, self.table, self.neighbourhood)

    # Changes

    def would_take(self, node: NodeId) -> bool:
        """Whether a node that is not here would be of use."""
        return node != self.me.id and (self.leaf_set.would_take(node) or self.table.is_free(node))

    def take(self, contact: Contact, seconds: float, seconds_of_holder: float | None) -> None:
        """A node has answered, with this round trip; it gets the places that it should have.

        `seconds_of_holder` is the round trip to the node that has its slot in the table, if that is known.
        """
        if contact.id == self.me.id:
            return
        if contact.id in self.leaf_set:
            self.leaf_set.replace(contact)
        else:
            self.leaf_set.insert(contact)
        self.table.offer(contact, seconds, seconds_of_holder)
        self.neighbourhood.offer(contact, seconds)

    def remove(self, node: NodeId) -> bool:
        """A node is gone; whether it was a leaf."""
        self.table.remove(node)
        self.neighbourhood.remove(node)
        self.suspected.discard(node)
        return self.leaf_set.remove(node)

    # Ways

    def next_hop(self, key: Key, without: NodeId | None = None) -> Contact | None:
        """The next node on the way to a key; None: no node that is known here is closer than this one.

        A node to pass over can be named. Each step ends closer to the key or with more digits in common with it, so
        that messages do not go in circles.
        """
        leaf_set = self.leaf_set
        if leaf_set.is_in_range(key):
            closest = leaf_set.closest(key)
            if without is None or closest is None or closest.id != without:
                return closest
            return next((each for each in leaf_set.closest_first(key, 2) if each.id not in (without, self.me.id)), None)
        step = self.table.toward(key)
        if step is not None and step.id not in self.suspected and step.id != without:
            return step
        return self._closer_node(key, without)

    def _closer_node(self, key: Key, without: NodeId | None) -> Contact | None:
        """The rare case: a node that shares as many digits with the key as this one, and is closer to it."""
        row, best = shared_digits(self.me.id, key), self.me
        suspected: Contact | None = None
        for contact in self.contacts():
            if contact.id == without or shared_digits(contact.id, key) < row or not is_closer(contact.id, best.id, key):
                continue
            if contact.id in self.suspected:
                suspected = contact
            else:
                best = contact
        if best is self.me:  # to ask one that owes an answer is better than to stop here
            return suspected
        return best

    def closest_known(self, key: Key) -> Contact | None:
        """The closest of all nodes but this one that are known; for a node that leaves."""
        return min(self.contacts(), key=lambda contact: distance(contact.id, key), default=None)
