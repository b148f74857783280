"""Attributes that conditions ask about, and that events of a known schema never have.

Without a schema such an attribute is NULL. With one, a name in another case is an error, for names are matched as they
are written; any other name is told, with the one that was probably meant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import pyarrow as pa

from fieldfare.errors import UnknownAttributeError
from fieldfare.language import compile_many
from fieldfare.language.hints import is_other_case, likely_name, position_of
from fieldfare.matching.passing import attributes_of, names_on


def names_of_schema(schema: pa.Schema) -> list[str]:
    """The attributes of events with a schema: its columns and, with dotted names, the fields of its structs."""
    return list(_names(schema, ""))


MAP_KEYS = ".*"  # stands behind the name of a map: it may have any key


def _names(fields: Iterable[pa.Field], prefix: str) -> Iterator[str]:
    for field in fields:
        yield prefix + field.name
        if pa.types.is_map(field.type):
            yield prefix + field.name + MAP_KEYS
        if pa.types.is_struct(field.type):
            yield from _names(field.type, f"{prefix}{field.name}.")


def told_unknown(attributes: Iterable[str], known: Collection[str]) -> list[str]:
    """A sentence about each attribute that is not known."""
    plain = [name for name in known if not name.endswith(MAP_KEYS)]
    return [_sentence(name, likely_name(name, plain)) for name in attributes if not is_known(name, known)]


def is_known(name: str, known: Collection[str]) -> bool:
    """Whether a schema has an attribute, perhaps as the key of a map."""
    parts = name.split(".")
    starts = (".".join(parts[:count]) + MAP_KEYS for count in range(1, len(parts)))
    return name in known or any(start in known for start in starts)


def _sentence(name: str, meant: str | None) -> str:
    if meant is None:
        return f"the events have no attribute {name!r}"
    if is_other_case(name, meant):
        return f"the events have no attribute {name!r}, but {meant!r}: names are matched as they are written"
    return f"the events have no attribute {name!r}; did you mean {meant!r}?"


def errors_of_case(
    conditions: Sequence[str], attributes: Iterable[str], known: Collection[str]
) -> dict[int, UnknownAttributeError]:
    """The conditions, by number, that write a known name in another case; `attributes` are those of them all."""
    meant = {name: likely_name(name, known) for name in attributes if not is_known(name, known)}
    wrong = {name: other for name, other in meant.items() if other is not None and is_other_case(name, other)}
    if not wrong:
        return {}
    table = compile_many(conditions).table
    errors: dict[int, UnknownAttributeError] = {}
    for name, other in wrong.items():
        boxes = [] if name not in table.axes else table.axes[name].boxes.tolist()
        boxes += [box for box, tests in table.tests.items() if name in attributes_of(tests)]
        boxes += [
            box for axis, column in table.derived.items() if name in names_on(axis) for box in column.boxes.tolist()
        ]
        boxes += [
            box for lists, some in table.members.items() if name in names_on(lists) for box in some.boxes.tolist()
        ]
        for number in {int(table.owners[box]) for box in boxes}:
            text = conditions[number]
            errors[number] = UnknownAttributeError(_sentence(name, other), text, position_of(name, text))
    return errors
