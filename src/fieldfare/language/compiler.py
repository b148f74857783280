"""Conditions in text -> compiled conditions, one at a time or in bulk.

Most subscriptions share few shapes. A condition of a known shape is not parsed again: its literals are put into the
shape's tree. In bulk, all conditions of one shape are compiled at once, in columns.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fieldfare.boxes import BoxTable
from fieldfare.errors import ConditionError, ConditionLimitError, ConditionSyntaxError, ConditionTypeError
from fieldfare.language import tree
from fieldfare.language.column_leaves import may_be_time
from fieldfare.language.columns import UnfitShapeError, fill
from fieldfare.language.limits import Limits
from fieldfare.language.literals import LiteralRangeError, MalformedLiteralError, read_literal
from fieldfare.language.normal_form import normal_form
from fieldfare.language.parse import parse
from fieldfare.language.shapes import Shape, Shapes, finer_hint, hint, is_small, matcher, scan
from fieldfare.model import Condition, Literal, Section

_TYPES = {section.name.lower(): section for section in (Section.BOOLEAN, Section.NUMBER, Section.STRING, Section.TIME)}
_TYPES["list"] = Section.NAN  # where lists lie
TYPE_NAMES = {section: name for name, section in _TYPES.items()}
_COLUMN_ROWS_MIN = 8  # fewer conditions of a shape are compiled faster singly
_HINTS_MAX = 65_536
_LONG_LITERAL = 20  # characters of a polygon's text that take 10 µs to read and check; other texts take less
_DEFAULTS = Limits()


@dataclass(frozen=True, slots=True)
class Compiled:
    """Many conditions, compiled: their boxes, owned by the conditions' numbers, and the conditions that have errors."""

    table: BoxTable
    errors: list[tuple[int, ConditionError]]


def compile(  # noqa: A001 - the word that SQL and regular expressions have for it
    condition: str, types: Mapping[str, str] | None = None, limits: Limits = _DEFAULTS
) -> Condition:
    """The boxes and residual tests of a condition.

    `types` says what is known of attributes: boolean, number, string, time or list. A comparison that can never hold
    for an attribute's type is then an error.
    """
    sections = _sections(types or {})
    known = _known(condition, limits)
    if known is not None:
        return _compiled_known(condition, *known, sections, limits)
    return _compiled_text(condition, sections, limits)


def compile_many(conditions: Sequence[str], limits: Limits = _DEFAULTS) -> Compiled:
    """The boxes of many conditions. An error concerns its own condition only, which then has no boxes."""
    tables: list[BoxTable] = []
    groups, rest = _grouped(conditions, limits)
    for group in groups:
        try:
            table, aside = _filled(group, conditions, limits)
        except UnfitShapeError:
            rest += group.members
        else:
            tables.append(table)
            rest += aside
    compiled, owners, errors = [], [], []
    for index in sorted(rest):
        try:
            compiled.append(compile(conditions[index], limits=limits))
            owners.append(index)
        except ConditionError as error:
            errors.append((index, error))
    tables.append(BoxTable.from_conditions(compiled, owners))
    return Compiled(BoxTable.concatenated(tables), errors)


def effort(conditions: Iterable[object], limits: Limits = _DEFAULTS) -> int | None:
    """How much work compiling takes, without doing it: up to 10 µs for each unit; None where a shape is not known."""
    units = 0
    for condition in conditions:
        scanned = scan(condition) if isinstance(condition, str) and len(condition) <= limits.characters_max else None
        known = None if scanned is None else _shapes(limits).known(scanned[0])
        if scanned is None or known is None or known.node is None:
            return None
        literals = scanned[1]
        boxes = known.boxes_max << sum(map(may_be_time, literals))
        units += 1 + len(literals) * (1 + boxes)
        units += sum(len(literal) // _LONG_LITERAL for literal in literals)
    return units


@dataclass(slots=True)
class _Group:
    """Conditions of one shape."""

    shape: Shape
    members: list[int] = field(default_factory=list)
    literals: list[str] = field(default_factory=list)  # of all members, one after the other
    match: Callable[[str], re.Match[str] | None] = field(default=lambda _: None)


def _grouped(conditions: Sequence[object], limits: Limits) -> tuple[Iterable[_Group], list[int]]:
    """The conditions by their shape, and those that have none."""
    groups: dict[Shape, _Group] = {}
    hinted: dict[bytes | str, _Group] = {}
    ambiguous: set[bytes | str] = set()
    rest: list[int] = []
    for index, text in enumerate(conditions):
        if not isinstance(text, str) or len(text) > limits.characters_max:
            rest.append(index)
            continue
        key: bytes | str = hint(text)
        if key in ambiguous and len(hinted) < _HINTS_MAX:
            key = finer_hint(text)
        group = hinted.get(key)
        if group is not None:
            found = group.match(text)
            if found is not None:
                group.members.append(index)
                group.literals.extend(found.groups())
                continue
        scanned = scan(text)
        if scanned is None:
            rest.append(index)
            continue
        if group is not None and group.shape != scanned[0]:
            ambiguous.add(key)
        group = hinted[key] = groups.setdefault(scanned[0], _Group(scanned[0]))
        group.members.append(index)
        group.literals.extend(scanned[1])
        if len(group.members) == _COLUMN_ROWS_MIN and is_small(group.shape):
            group.match = matcher(group.shape)
    return groups.values(), rest


def _filled(group: _Group, conditions: Sequence[str], limits: Limits) -> tuple[BoxTable, list[int]]:
    """The boxes of a group, and the members that must be compiled singly."""
    if len(group.members) < _COLUMN_ROWS_MIN:
        raise UnfitShapeError
    node = _shapes(limits).tree_of(group.shape, conditions[group.members[0]])
    if node is None:
        raise UnfitShapeError
    count = len(group.shape) // 2
    columns = [group.literals[at::count] for at in range(count)]
    members = np.array(group.members, np.int32)
    table, aside = fill(node, columns, members, limits.boxes_max)
    return table, members[aside].tolist()


@functools.lru_cache(maxsize=8)
def _shapes(limits: Limits) -> Shapes:
    return Shapes(limits)


def _known(condition: object, limits: Limits) -> tuple[tree.Node, list[str]] | None:
    """The tree of a condition's shape, and its literals; None where it must be parsed."""
    if not isinstance(condition, str) or len(condition) > limits.characters_max:
        return None
    scanned = scan(condition)
    if scanned is None:
        return None
    shape, literals = scanned
    node = _shapes(limits).tree_of(shape, condition)
    return None if node is None else (node, literals)


def _compiled_known(
    text: str, node: tree.Node, texts: list[str], types: Mapping[str, Section], limits: Limits
) -> Condition:
    try:
        text.encode()
        return normal_form(text, node, [read_literal(literal) for literal in texts], types, limits)
    except ConditionLimitError:
        raise
    except (ConditionError, ValueError):
        # The tree's places are those of another condition of the same shape: find the error's own place.
        return _compiled_text(text, types, limits)


def _compiled_text(text: str, types: Mapping[str, Section], limits: Limits) -> Condition:
    parsed = parse(text, limits)
    literals = [_literal(text, *span) for span in parsed.spans]
    return normal_form(text, parsed.tree, literals, types, limits)


def _literal(text: str, start: int, end: int) -> Literal:
    try:
        return read_literal(text[start:end])
    except MalformedLiteralError as error:
        raise ConditionSyntaxError(str(error), text, start) from error
    except LiteralRangeError as error:
        raise ConditionTypeError(str(error), text, start) from error


def _sections(types: Mapping[str, str]) -> dict[str, Section]:
    unknown = set(types.values()) - _TYPES.keys()
    if unknown:
        raise ValueError(f"unknown types {sorted(map(str, unknown))}: a type is one of {', '.join(_TYPES)}")
    return {name: _TYPES[kind] for name, kind in types.items()}
