"""Members of lists as bits, for one event at a time: what masks.py is for intervals.

A box that asks for several members stands in as many *layers*, once in each; an event must satisfy it in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fieldfare.boxes import BoxTable
from fieldfare.language.scalars import evaluator
from fieldfare.language.values import value_of
from fieldfare.matching.passing import names_on
from fieldfare.matching.rows import Event, point_of
from fieldfare.model import Attribute, Cut, Derived, Member, Range, Section

_PLAIN = frozenset({str, int, float})


class _Layer:
    """For each list and member the boxes that ask for it, and all boxes that ask for anything here."""

    __slots__ = ("boxes", "by_list", "in_list")

    def __init__(self) -> None:
        self.by_list: dict[Derived, dict[Any, int]] = {}
        self.in_list: dict[Derived, int] = {}
        self.boxes = 0


class MaskedMembers:
    """The members that boxes ask for."""

    __slots__ = ("_layers",)

    def __init__(self) -> None:
        self._layers: list[_Layer] = []

    def __bool__(self) -> bool:
        return bool(self._layers)

    @staticmethod
    def of(table: BoxTable) -> MaskedMembers:
        """Those of a table; the box in row i is bit i."""
        masked = MaskedMembers()
        asked: dict[int, list[tuple[Derived, Cut]]] = {}
        for lists, column in table.members.items():
            for box, value in zip(column.boxes.tolist(), column.values.listed(), strict=True):
                asked.setdefault(box, []).append((lists, value))
        for box, members in asked.items():
            masked.insert((Member(*member) for member in members), 1 << box)
        return masked

    def insert(self, members: Iterable[Member], bit: int) -> None:
        """A new box asks for some members."""
        for number, member in enumerate(dict.fromkeys(members)):
            if number == len(self._layers):
                self._layers.append(_Layer())
            layer, key = self._layers[number], _key_of_cut(member.value)
            of_list = layer.by_list.setdefault(member.lists, {})
            of_list[key] = of_list.get(key, 0) | bit
            layer.in_list[member.lists] = layer.in_list.get(member.lists, 0) | bit
            layer.boxes |= bit

    def satisfied(self, found: int, event: Event) -> int:
        """Those of some boxes whose members an event has all."""
        keys: dict[Derived, set[Any] | None] = {}
        for layer in self._layers:
            if not found & layer.boxes:
                continue
            held = ~layer.boxes
            for lists, of_list in layer.by_list.items():
                if lists not in keys:
                    keys[lists] = _keys(lists, event)
                members = keys[lists]
                if members is None:
                    held |= layer.in_list[lists]
                else:
                    for key in of_list.keys() & members:
                        held |= of_list[key]
            found &= held
        return found


def _keys(lists: Derived, event: Event) -> set[Any] | None:
    """What stands for each member of a list; None where it may be anything, because an attribute is a range."""
    names = names_on(lists)
    if any(isinstance(event.get(name), Range) for name in names):
        return None
    expression = lists.expression
    if isinstance(expression, Attribute):
        given = event.get(expression.name)
        if not isinstance(given, list | tuple):
            return set()
        if _PLAIN.issuperset(map(type, given)):
            return set(given)
        members = value_of(given, expression.name)[1]
    else:
        members = evaluator(expression)({name: point_of(event.get(name), name) for name in names})[1]
    return {_key(section, content) for section, content in members} if isinstance(members, tuple) else set()


def _key(section: Section, content: Any) -> Any:
    """A text is itself, a number is itself, and all else has its section beside it; objects are nobody's member."""
    if section is Section.STRING or section is Section.NUMBER:
        return content
    return (section, 0 if isinstance(content, tuple | Mapping) else content)


def _key_of_cut(cut: Cut) -> Any:
    section, value = cut
    return _key(section, value.decode() if isinstance(value, bytes) else value)
