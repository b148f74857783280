"""The types of a DataFrame's columns, and the subscriptions that no event of these types can satisfy.

Without a schema a comparison with a value of another type just does not match. A DataFrame has one, so there it is an
error, found before any task starts: a condition is at fault if each of its boxes lies outside the sections where the
columns' values are.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.types import StructType

from fieldfare.boxes import AxisColumn, BoxTable
from fieldfare.errors import ConditionTypeError, EventError
from fieldfare.language import compile as compile_condition
from fieldfare.language import compile_many
from fieldfare.language.compiler import TYPE_NAMES
from fieldfare.language.expressions import functions_in, times_in
from fieldfare.matching.arrow import attribute_type, is_list
from fieldfare.matching.passing import names_on
from fieldfare.matching.unknown_names import errors_of_case, names_of_schema, told_unknown
from fieldfare.model import Section

_UTC = {"UTC", "Etc/UTC", "GMT", "Z", "+00:00", "UTC+00:00", "Etc/GMT", "Zulu"}
_LOCAL_TIMES = {"year", "quarter", "month", "day", "dayofyear", "dayofweek", "weekday", "hour", "minute", "date_trunc"}
_LOCAL_TIMES |= {
    "add_months",
    "date_add",
    "date_format",
    "date_sub",
    "datediff",
    "dayname",
    "last_day",
    "monthname",
    "trunc",
    "unix_date",
    "weekofyear",
    "add_microseconds",
    "cast date",
    "cast timestamp",
    "date_text",
    "from_utc_timestamp",
    "to_utc_timestamp",
}
_LOCAL_TIMES |= {"time_of", "date_of"}


def arrow_schema(spark: SparkSession, schema: StructType) -> pa.Schema:
    """The schema as Arrow has it. Asked of an empty list, it would take the start of Python workers to learn it."""
    nothing = [lit(None).cast(column.dataType).alias(column.name) for column in schema.fields]
    return spark.range(0).select(nothing).toArrow().schema


def attribute_names(schema: StructType, prefix: str = "") -> Iterator[str]:
    """The attributes of events with a schema: its columns and, with dotted names, the fields of its structs."""
    for column in schema.fields:
        yield prefix + column.name
        if isinstance(column.dataType, StructType):
            yield from attribute_names(column.dataType, f"{prefix}{column.name}.")


def check_types(subscriptions: pa.Table, schema: pa.Schema, zone: str = "UTC") -> None:
    """Raise a ConditionTypeError for the first subscription that events of this schema can never satisfy.

    Time functions mean UTC: in a session of another time zone, where Spark's own would differ, they are an error too.
    """
    conditions = subscriptions.column("condition").to_pylist()
    boxes = compile_many(conditions).table
    names = set(boxes.axes).union(*map(names_on, (*boxes.derived, *boxes.members)))
    if zone not in _UTC:
        _refuse_local_times(boxes, conditions, schema, zone)
    known = {name: section for name in names if (section := _section(attribute_type(schema, name))) is not None}
    sections = {name: section for name, section in known.items() if name in boxes.axes}
    types = {name: TYPE_NAMES[section] for name, section in known.items()}
    asked = [column.boxes for column in boxes.derived.values()] + [column.boxes for column in boxes.members.values()]
    expressive = [int(boxes.owners[some[0]]) for some in asked]  # one condition for each expression
    for number in np.unique([*_dead(boxes, sections, len(conditions)), *expressive]).tolist():
        try:
            compile_condition(conditions[number], types)
        except ConditionTypeError as error:
            error.add_note(f"in subscription {subscriptions.column('subscription_id')[number].as_py()!r}")
            raise


def _refuse_fields_of_lists(names: Collection[str], schema: pa.Schema) -> None:
    for name in sorted(names):
        root = name.partition(".")[0]
        if root != name and name not in schema.names and root in schema.names and is_list(schema.field(root).type):
            reason = f"{root} is a list, and {name} is no attribute: write exists({root}, member -> …), or {root}[0]"
            raise EventError(name, reason)


def _refuse_local_times(boxes: BoxTable, conditions: Sequence[str], schema: pa.Schema, zone: str) -> None:
    """Raise an error for a condition that Spark would read with the clocks of its session's zone, and we with UTC's."""
    for axis, column in boxes.derived.items():
        expression = axis.expression
        if _asks_for_times(column) or times_in(expression) or functions_in(expression) & _LOCAL_TIMES:
            _refuse_zone(conditions[int(boxes.owners[column.boxes[0]])], zone)
    for name, column in boxes.axes.items():
        kind = attribute_type(schema, name)
        if kind is not None and pa.types.is_timestamp(kind) and kind.tz is not None and _asks_for_times(column):
            _refuse_zone(conditions[int(boxes.owners[column.boxes[0]])], zone)


def _asks_for_times(column: AxisColumn) -> bool:
    return bool((column.low.sections == Section.TIME).any() or (column.high.sections == Section.TIME).any())


def _refuse_zone(condition: str, zone: str) -> None:
    raise ConditionTypeError(f"times mean UTC, but spark.sql.session.timeZone is {zone}: set it to UTC", condition)


def check_collations(events: StructType, attributes: Collection[str]) -> None:
    """Raise an EventError for a column that conditions ask about and that Spark would not compare by its bytes."""
    for column in events.fields:
        collation = getattr(column.dataType, "collation", "UTF8_BINARY")
        if collation != "UTF8_BINARY" and column.name in attributes:
            reason = (
                f"has the collation {collation}, and conditions compare bytes: cast it, or write lower({column.name})"
            )
            raise EventError(column.name, reason)


def check_names(subscriptions: pa.Table, attributes: Sequence[str], schema: pa.Schema) -> None:
    """Raise an UnknownAttributeError if a subscription names a column in another case; warn of other unknown names.

    `attributes` are those that the subscriptions ask about.
    """
    _refuse_fields_of_lists(attributes, schema)
    known = names_of_schema(schema)
    conditions = subscriptions.column("condition").to_pylist()
    for number, error in sorted(errors_of_case(conditions, attributes, known).items()):
        error.add_note(f"in subscription {subscriptions.column('subscription_id')[number].as_py()!r}")
        raise error
    for sentence in told_unknown(attributes, known):
        warnings.warn(sentence, stacklevel=3)


def _dead(boxes: BoxTable, sections: dict[str, Section], conditions: int) -> npt.NDArray[np.intp]:
    """The conditions that have boxes, but none that values in these sections can reach."""
    reachable = np.ones(len(boxes), np.bool_)
    for name, section in sections.items():
        axis = boxes.axes[name]
        reachable[axis.boxes] &= _reaches(axis, section)
    has_boxes, is_alive = np.zeros((2, conditions), np.bool_)
    has_boxes[boxes.owners] = True
    is_alive[boxes.owners[reachable]] = True
    return np.flatnonzero(has_boxes & ~is_alive)


def _reaches(axis: AxisColumn, section: Section) -> npt.NDArray[np.bool_]:
    """Whether each interval asks for NULL, or holds values of the section."""
    low, high = axis.low.sections, axis.high.sections
    reaches: npt.NDArray[np.bool_] = (low == Section.NULL) | (low == section) | ((low < section) & (high > section))
    return reaches


def _section(kind: pa.DataType | None) -> Section | None:
    """Where the values of a column lie; None where that is not known."""
    if kind is None:
        return None
    if pa.types.is_struct(kind) and kind.get_field_index("low") >= 0:
        return _section(kind.field("low").type)  # a range
    if pa.types.is_boolean(kind):
        return Section.BOOLEAN
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return Section.NUMBER
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return Section.STRING
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return Section.TIME
    return Section.NAN if is_list(kind) else None
