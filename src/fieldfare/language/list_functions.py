"""Functions of lists, on single values: a list is a tuple of values, an object inside a list a dict of Python values.

A list stands in the section of NaN, for it is a value and compares with nothing. NULL members follow Spark: a list
that has one never surely lacks another value. A member equals a value of its own type only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fieldfare.language.kinds import NULL, Kind, Value, argument
from fieldfare.language.values import value_of
from fieldfare.model import Section

TRUE: Value = (Section.BOOLEAN, 1)
FALSE: Value = (Section.BOOLEAN, 0)
_NULL = Section.NULL
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class ListFunction:
    """A function with a list among its arguments or as its result."""

    call: Callable[..., Value]
    result: Kind | None  # None: whatever a member is
    least: int  # arguments
    most: int
    lists: int = 1  # so many of the first arguments are lists


def words_of(text: str) -> list[str]:
    """The words of a text: its longest runs of letters and digits, in lower case."""
    return _WORD.findall(text.lower())


def _members(value: Value) -> tuple[Value, ...] | None:
    content = value[1]
    return content if isinstance(content, tuple) else None


def _key(value: Value) -> Any:
    """What two members share if they are equal."""
    section, content = value
    return (section, _plain(content)) if isinstance(content, tuple | Mapping) else value


def _plain(content: Any) -> Any:
    if isinstance(content, tuple):
        return tuple(map(_key, content))
    return frozenset((name, _key(value_of(inner, name))) for name, inner in content.items())


def array(*values: Value) -> Value:
    """The list of some values."""
    return Section.NAN, values


def _words(text: Value) -> Value:
    content = argument(Kind.TEXT, text)
    return NULL if content is None else (Section.NAN, tuple((Section.STRING, word) for word in words_of(content)))


def _size(value: Value) -> Value:
    members = _members(value)
    return NULL if members is None else (Section.NUMBER, len(members))


def _contains(value: Value, wanted: Value) -> Value:
    members = _members(value)
    if members is None or wanted[0] is _NULL:
        return NULL
    if _key(wanted) in map(_key, members):
        return TRUE
    return NULL if NULL in members else FALSE


def _position(value: Value, wanted: Value) -> Value:
    members = _members(value)
    if members is None or wanted[0] is _NULL:
        return NULL
    key = _key(wanted)
    return Section.NUMBER, next((place for place, member in enumerate(members, 1) if _key(member) == key), 0)


def _overlap(left: Value, right: Value) -> Value:
    one, other = _members(left), _members(right)
    if one is None or other is None:
        return NULL
    if ({_key(member) for member in one} & {_key(member) for member in other}) - {NULL}:
        return TRUE
    return NULL if one and other and (NULL in one or NULL in other) else FALSE


def _distinct(value: Value) -> Value:
    members = _members(value)
    if members is None:
        return NULL
    first: dict[Any, Value] = {}
    for member in members:
        first.setdefault(_key(member), member)
    return Section.NAN, tuple(first.values())


def _combined(keeps: Callable[[bool], bool]) -> Callable[[Value, Value], Value]:
    def combined(left: Value, right: Value) -> Value:
        one, other = _members(left), _members(right)
        if one is None or other is None:
            return NULL
        keys = set(map(_key, other))
        return _distinct((Section.NAN, tuple(member for member in one if keeps(_key(member) in keys))))

    return combined


def _union(left: Value, right: Value) -> Value:
    one, other = _members(left), _members(right)
    return NULL if one is None or other is None else _distinct((Section.NAN, one + other))


def element(value: Value, place: Value) -> Value:
    """A member by its place, from 0; of an object, a field by its name."""
    members = _members(value)
    if members is None:
        return field(value, place)
    at = place[1] if isinstance(place[1], int) and place[0] is Section.NUMBER else -1
    return members[at] if 0 <= at < len(members) else NULL


def _element_at(value: Value, place: Value) -> Value:
    """A member by its place, from 1, or from the end, from -1."""
    members = _members(value)
    if members is None:
        return field(value, place)
    at = place[1] if isinstance(place[1], int) and place[0] is Section.NUMBER else 0
    return members[at - 1 if at > 0 else at] if at and -len(members) <= at <= len(members) else NULL


def field(value: Value, name: Value) -> Value:
    """A field of an object inside a list."""
    content = value[1]
    if not isinstance(content, Mapping) or name[0] is not Section.STRING:
        return NULL
    return value_of(content.get(name[1]), name[1])


def _extreme(choose: Callable[..., Value]) -> Callable[[Value], Value]:
    def extreme(value: Value) -> Value:
        present = [member for member in _members(value) or () if member[0] is not _NULL]
        is_ordered = len({section for section, _ in present}) == 1 and present[0][0] is not Section.NAN
        return choose(present) if is_ordered else NULL

    return extreme


LIST_FUNCTIONS: dict[str, ListFunction] = {
    "array": ListFunction(array, Kind.LIST, 0, 10_000, lists=0),
    "array_contains": ListFunction(_contains, Kind.BOOLEAN, 2, 2),
    "array_distinct": ListFunction(_distinct, Kind.LIST, 1, 1),
    "array_except": ListFunction(_combined(lambda found: not found), Kind.LIST, 2, 2, lists=2),
    "array_intersect": ListFunction(_combined(lambda found: found), Kind.LIST, 2, 2, lists=2),
    "array_max": ListFunction(_extreme(max), None, 1, 1),
    "array_min": ListFunction(_extreme(min), None, 1, 1),
    "array_position": ListFunction(_position, Kind.INTEGER, 2, 2),
    "array_union": ListFunction(_union, Kind.LIST, 2, 2, lists=2),
    "arrays_overlap": ListFunction(_overlap, Kind.BOOLEAN, 2, 2, lists=2),
    "element": ListFunction(element, None, 2, 2, lists=0),  # what items[0] becomes
    "element_at": ListFunction(_element_at, None, 2, 2, lists=0),
    "field": ListFunction(field, None, 2, 2, lists=0),  # what items[0].price becomes
    "size": ListFunction(_size, Kind.INTEGER, 1, 1),
    "words": ListFunction(_words, Kind.LIST, 1, 1, lists=0),
}
QUANTIFIERS = {"exists", "forall"}  # exists(list, variable -> condition)
LIST_SYNONYMS = {"cardinality": "size", "array_size": "size", "get": "element", "try_element_at": "element_at"}
LIST_INTERNAL = {"element", "field"}
LIST_CALLS = frozenset({*LIST_FUNCTIONS, *QUANTIFIERS})
