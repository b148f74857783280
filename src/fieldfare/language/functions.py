"""The functions that a condition may call: what they take, what they give, and how one value is computed.

An argument is converted to its parameter's kind as Spark converts it implicitly; where that is not possible, and where
an argument is NULL, the result is NULL. Where Spark would raise an error for an event, the result is NULL too.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fieldfare.language import day_functions as day
from fieldfare.language import network_functions as network
from fieldfare.language import number_functions as number
from fieldfare.language import places, regular_expressions
from fieldfare.language import text_functions as text
from fieldfare.language import time_functions as time
from fieldfare.language.kinds import Kind
from fieldfare.language.time_formats import date_format
from fieldfare.language.times import format_timestamp

BOOLEAN, INTEGER, NUMBER, TEXT, DATE, TIME = (
    Kind.BOOLEAN,
    Kind.INTEGER,
    Kind.NUMBER,
    Kind.TEXT,
    Kind.DATE,
    Kind.TIME,
)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of values: the kinds of its parameters, of which the last `optional` may be left out."""

    parameters: tuple[Kind, ...]
    result: Kind
    call: Callable[..., Any]
    optional: int = 0
    any_number: bool = False  # the last parameter may stand any number of times
    converts: bool = True  # a number, say, where a text is needed becomes one; else the result is NULL

    def takes(self, count: int) -> bool:
        """Whether it can be called with so many arguments."""
        most = len(self.parameters)
        return most - self.optional <= count and (self.any_number or count <= most)

    def parameter(self, number: int) -> Kind:
        """The kind of an argument, by its place."""
        return self.parameters[min(number, len(self.parameters) - 1)]


FUNCTIONS: dict[str, Function] = {
    "lower": Function((TEXT,), TEXT, str.lower),
    "upper": Function((TEXT,), TEXT, str.upper),
    "length": Function((TEXT,), INTEGER, len),
    "trim": Function((TEXT, TEXT), TEXT, text.trim, optional=1),
    "ltrim": Function((TEXT, TEXT), TEXT, text.ltrim, optional=1),
    "rtrim": Function((TEXT, TEXT), TEXT, text.rtrim, optional=1),
    "lpad": Function((TEXT, INTEGER, TEXT), TEXT, text.lpad, optional=1),
    "rpad": Function((TEXT, INTEGER, TEXT), TEXT, text.rpad, optional=1),
    "repeat": Function((TEXT, INTEGER), TEXT, text.repeat),
    "initcap": Function((TEXT,), TEXT, text.initcap),
    "substring_index": Function((TEXT, TEXT, INTEGER), TEXT, text.substring_index),
    "split_part": Function((TEXT, TEXT, INTEGER), TEXT, text.split_part),
    "translate": Function((TEXT, TEXT, TEXT), TEXT, text.translate),
    "ascii": Function((TEXT,), INTEGER, text.ascii_code),
    "octet_length": Function((TEXT,), INTEGER, text.octet_length),
    "left": Function((TEXT, INTEGER), TEXT, text.left),
    "right": Function((TEXT, INTEGER), TEXT, text.right),
    "substring": Function((TEXT, INTEGER, INTEGER), TEXT, text.substring, optional=1),
    "concat": Function((TEXT,), TEXT, text.concat, any_number=True),
    "replace": Function((TEXT, TEXT, TEXT), TEXT, text.replace, optional=1),
    "reverse": Function((TEXT,), TEXT, text.reverse),
    "startswith": Function((TEXT, TEXT), BOOLEAN, str.startswith),
    "endswith": Function((TEXT, TEXT), BOOLEAN, str.endswith),
    "contains": Function((TEXT, TEXT), BOOLEAN, str.__contains__),
    "locate": Function((TEXT, TEXT, INTEGER), INTEGER, text.locate, optional=1),
    "instr": Function((TEXT, TEXT), INTEGER, text.instr),
    "like": Function((TEXT, TEXT, TEXT), BOOLEAN, text.like, converts=False),
    "rlike": Function((TEXT, TEXT), BOOLEAN, regular_expressions.found, converts=False),
    "mirrored": Function((TEXT,), TEXT, text.reverse, converts=False),  # what LIKE '%end' looks at
    "abs": Function((NUMBER,), NUMBER, number.absolute),
    "ceil": Function((NUMBER,), INTEGER, number.ceil),
    "floor": Function((NUMBER,), INTEGER, number.floor),
    "round": Function((NUMBER, INTEGER), NUMBER, number.rounded, optional=1),
    "div": Function((NUMBER, NUMBER), INTEGER, number.div),
    "pmod": Function((NUMBER, NUMBER), NUMBER, number.pmod),
    "power": Function((NUMBER, NUMBER), NUMBER, number.power),
    "sqrt": Function((NUMBER,), NUMBER, number.sqrt),
    "sign": Function((NUMBER,), NUMBER, number.sign),
    "exp": Function((NUMBER,), NUMBER, number.exp),
    "ln": Function((NUMBER,), NUMBER, number.ln),
    "log": Function((NUMBER, NUMBER), NUMBER, number.log, optional=1),
    "log10": Function((NUMBER,), NUMBER, number.log10),
    "log2": Function((NUMBER,), NUMBER, number.log2),
    "bit_and": Function((INTEGER, INTEGER), INTEGER, operator.and_),  # what flags & 4 becomes
    "bit_or": Function((INTEGER, INTEGER), INTEGER, operator.or_),
    "bit_xor": Function((INTEGER, INTEGER), INTEGER, operator.xor),
    "bit_not": Function((INTEGER,), INTEGER, operator.invert),
    "year": Function((TIME,), INTEGER, time.year),
    "quarter": Function((TIME,), INTEGER, time.quarter),
    "month": Function((TIME,), INTEGER, time.month),
    "day": Function((TIME,), INTEGER, time.day),
    "dayofyear": Function((TIME,), INTEGER, time.day_of_year),
    "dayofweek": Function((TIME,), INTEGER, time.day_of_week),
    "weekday": Function((TIME,), INTEGER, time.weekday),
    "hour": Function((TIME,), INTEGER, time.hour),
    "minute": Function((TIME,), INTEGER, time.minute),
    "second": Function((TIME,), INTEGER, time.second),
    "date_trunc": Function((TEXT, TIME), TIME, time.truncated),
    "date_add": Function((DATE, INTEGER), DATE, day.date_add),
    "date_sub": Function((DATE, INTEGER), DATE, day.date_sub),
    "datediff": Function((DATE, DATE), INTEGER, day.datediff),
    "last_day": Function((DATE,), DATE, day.last_day),
    "trunc": Function((DATE, TEXT), DATE, day.trunc),
    "make_date": Function((INTEGER, INTEGER, INTEGER), DATE, day.make_date),
    "weekofyear": Function((DATE,), INTEGER, day.week_of_year),
    "date_format": Function((TIME, TEXT), TEXT, date_format),
    "dayname": Function((DATE,), TEXT, day.day_name),
    "monthname": Function((DATE,), TEXT, day.month_name),
    "unix_timestamp": Function((TIME,), INTEGER, day.unix_timestamp, optional=1),  # without it, of now
    "unix_seconds": Function((TIME,), INTEGER, day.unix_seconds),
    "unix_millis": Function((TIME,), INTEGER, day.unix_millis),
    "unix_micros": Function((TIME,), INTEGER, day.unix_micros),
    "unix_date": Function((DATE,), INTEGER, day.unix_date),
    "timestamp_seconds": Function((NUMBER,), TIME, day.timestamp_seconds),
    "timestamp_millis": Function((INTEGER,), TIME, day.timestamp_millis),
    "timestamp_micros": Function((INTEGER,), TIME, day.timestamp_micros),
    "current_timestamp": Function((), TIME, lambda: None),  # an attribute of the event: see model.NOW
    "from_utc_timestamp": Function((TIME, TEXT), TIME, time.from_utc),
    "to_utc_timestamp": Function((TIME, TEXT), TIME, time.to_utc),
    "add_microseconds": Function((TIME, INTEGER), TIME, time.plus_microseconds),  # what at + INTERVAL 1 HOUR becomes
    "add_months": Function((TIME, INTEGER), TIME, time.plus_months),  # what at + INTERVAL 1 MONTH becomes
    "time_of": Function((TIME,), TIME, lambda instant: instant),  # of a text where it is compared with a computed time
    "date_of": Function((DATE,), DATE, lambda instant: instant),  # the same where it is compared with a computed date
    "date_text": Function((TIME,), TEXT, format_timestamp),  # the text of a date, where a text is needed
    "st_covers": Function((TEXT, NUMBER, NUMBER), BOOLEAN, places.covers, converts=False),
    "st_contains": Function((TEXT, NUMBER, NUMBER), BOOLEAN, places.contains, converts=False),
    "st_distancesphere": Function((NUMBER, NUMBER, NUMBER, NUMBER), NUMBER, places.distance_sphere),
    "ip": Function((TEXT,), TEXT, network.sortable),  # what ip_in compares
}
SYNONYMS = {
    "lcase": "lower",
    "ucase": "upper",
    "char_length": "length",
    "character_length": "length",
    "len": "length",
    "substr": "substring",
    "position": "locate",
    "ceiling": "ceil",
    "pow": "power",
    "signum": "sign",
    "dayofmonth": "day",
    "regexp_like": "rlike",
    "regexp": "rlike",
    "date_diff": "datediff",
    "now": "current_timestamp",
    "localtimestamp": "current_timestamp",  # conditions are in UTC
}
INTERNAL = {"like", "mirrored", "add_microseconds", "add_months", "date_text", "ip"}  # not called by their names
INTERNAL |= {"time_of", "date_of", "bit_and", "bit_or", "bit_xor", "bit_not"}
