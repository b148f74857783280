"""What functions of lists mean, for the oracle: on Python's own lists and dicts, where None is NULL."""

from __future__ import annotations

import itertools
from typing import Any

NAMES = {"array_contains", "array_position", "arrays_overlap", "array_except", "array_intersect", "array_union"}
NAMES |= {"array_distinct", "array_min", "array_max", "size", "cardinality", "array_size", "element_at", "get", "array"}
NAMES |= {"words"}


def _same(a: Any, b: Any) -> bool:
    """Whether two members are equal: of one type, where integers and floats are one."""
    if isinstance(a, bool) or isinstance(b, bool) or not isinstance(a, int | float) or not isinstance(b, int | float):
        if type(a) is not type(b):
            return False
        if isinstance(a, list):
            return len(a) == len(b) and all(map(_same, a, b))
        if isinstance(a, dict):
            return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return bool(a == b)


def _is_in(value: Any, some: list[Any]) -> bool:
    return any(_same(value, other) for other in some)


def _distinct(some: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for value in some:
        if not _is_in(value, kept):
            kept.append(value)
    return kept


def called(name: str, arguments: list[Any]) -> Any:
    """The value of a call; NaN counts as NULL, inside lists too."""
    if name == "array":
        return arguments
    if name == "words":
        return None if arguments[0] is None else _words(arguments[0])
    first, *others = arguments
    if not isinstance(first, list) or (others and others[0] is None):
        return None
    match name:
        case "size" | "cardinality" | "array_size":
            return len(first)
        case "array_contains":
            return True if _is_in(others[0], first) else None if None in first else False
        case "array_position":
            return next((place for place, member in enumerate(first, 1) if _same(member, others[0])), 0)
        case "array_distinct":
            return _distinct(first)
        case "array_min" | "array_max":
            known = [member for member in first if member is not None]
            if len({float if type(member) is int else type(member) for member in known}) != 1:
                return None
            return None if isinstance(known[0], list | dict) else min(known) if name == "array_min" else max(known)
        case "element_at" | "get":
            return _element(first, others[0], starts_at=1 if name == "element_at" else 0)
    return _of_two(name, first, others[0]) if isinstance(others[0], list) else None


def _element(some: list[Any], place: Any, *, starts_at: int) -> Any:
    if not isinstance(place, int) or isinstance(place, bool):
        return None
    numbered = dict(enumerate(some, starts_at))
    if starts_at == 1:
        numbered.update(dict(zip(itertools.count(-1, -1), some[::-1], strict=False)))
    return numbered.get(place)


def _of_two(name: str, one: list[Any], other: list[Any]) -> Any:
    match name:
        case "arrays_overlap":
            if any(member is not None and _is_in(member, other) for member in one):
                return True
            return None if one and other and (None in one or None in other) else False
        case "array_except":
            return _distinct([member for member in one if not _is_in(member, other)])
        case "array_intersect":
            return _distinct([member for member in one if _is_in(member, other)])
        case "array_union":
            return _distinct([*one, *other])
    raise ValueError(name)


def _words(text: str) -> list[str]:
    apart = "".join(character if character.isalnum() else " " for character in text.lower())
    return apart.split()
