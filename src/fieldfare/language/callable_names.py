"""The names that a condition may call, and what to say of those that it may not."""

from __future__ import annotations

import difflib

from fieldfare.errors import ConditionError, UnsupportedConditionError
from fieldfare.language.functions import FUNCTIONS, INTERNAL, SYNONYMS
from fieldfare.language.kinds import CAST_TYPES
from fieldfare.language.list_functions import LIST_CALLS, LIST_INTERNAL, LIST_SYNONYMS
from fieldfare.language.place_calls import PLACE_NAMES

FORMS = {"case", "cast", "coalesce", "greatest", "if", "ifnull", "ip_in", "isnotnull", "isnull", "least", "mod"}
FORMS |= {"nullif", "nvl", "try_cast", "current_date", "curdate"}
FORMS |= {"btrim", "equal_null", "extract", "date_part", "datepart", "nvl2", "to_date", "to_timestamp"}
FORMS |= {"try_add", "try_subtract", "try_multiply", "try_divide", "try_mod", "try_to_date", "try_to_timestamp"}
FORMS |= PLACE_NAMES
CALLABLE = frozenset(
    {*FUNCTIONS, *SYNONYMS, *FORMS, *CAST_TYPES, *LIST_CALLS, *LIST_SYNONYMS} - INTERNAL - LIST_INTERNAL
)

_LIKE_RLIKE = "use RLIKE, LIKE, split_part, translate or replace"
_INSTEAD = {
    **dict.fromkeys(("all", "any", "some"), "use IN, or AND and OR; there are LIKE ANY and LIKE ALL"),
    "current_time": "a time of day is no type here: compare hour(current_timestamp()) and minute(current_timestamp())",
    **dict.fromkeys(("current_user", "session_user", "user"), "a condition knows the event only"),
    **dict.fromkeys(("rand", "random", "uuid"), "a condition means the same whenever an event is read"),
    **dict.fromkeys(("current_timezone", "convert_timezone"), "conditions are in UTC: write from_utc_timestamp"),
    **dict.fromkeys(("regexp_extract", "regexp_substr", "regexp_replace", "regexp_count"), _LIKE_RLIKE),
    **dict.fromkeys(("regexp_matches", "regexp_full_match"), "write RLIKE"),
    **dict.fromkeys(("dateadd", "timestampadd", "add_months"), "write at + INTERVAL 1 MONTH, or another unit"),
    "timestampdiff": "write unix_seconds(b) - unix_seconds(a), or datediff(b, a)",
    **dict.fromkeys(("to_char", "strftime"), "write date_format(at, 'yyyy-MM-dd'), year(at) or hour(at)"),
    "from_unixtime": "write cast(timestamp_seconds(x) AS string)",
    "epoch": "write unix_seconds(at)",
    **dict.fromkeys(("decimal", "numeric", "dec"), "numbers are 64 bits: use double or bigint"),
    **dict.fromkeys(("varchar", "char", "text"), "use string"),
    **dict.fromkeys(("nanvl", "isnan"), "NaN counts as NULL: write coalesce, or x + 0 IS NULL"),
    "concat_ws": "write concat or ||, with coalesce for what may be NULL",
    "decode": "write CASE",
    "xor": "write (a) != (b)",
    **dict.fromkeys(("strpos", "charindex"), "write instr(text, search)"),
    **dict.fromkeys(("list_contains", "array_has", "list_has", "has"), "write array_contains"),
    **dict.fromkeys(
        ("count", "sum", "avg", "min", "max"), "a condition sees one event: there are greatest, least and array_max"
    ),
    **dict.fromkeys(("get_json_object", "json_extract", "from_json"), "give the event an object, and write a.b"),
    **dict.fromkeys(
        ("filter", "transform", "aggregate", "reduce", "any_match"), "write exists(list, member -> condition)"
    ),
    **dict.fromkeys(("map_keys", "map_values", "map_contains_key"), "write map['key'], or map['key'] IS NOT NULL"),
    **dict.fromkeys(
        ("st_distance", "st_dwithin", "st_distancespheroid", "st_buffer"),
        "write ST_DistanceSphere(ST_Point(x, y), ST_Point(13.4, 52.5)) < 5000",
    ),
    "st_disjoint": "write NOT ST_Intersects",
    **dict.fromkeys(("st_geogfromtext", "st_geogfromwkt"), "write ST_GeomFromText"),
    **dict.fromkeys(("st_x", "st_y"), "give the event its longitude and latitude as attributes"),
    **dict.fromkeys(("split", "explode"), "write split_part(text, ',', 1) or words(text), or give the event a list"),
}


def unknown_function(name: str, text: str, position: int | None) -> ConditionError:
    """The error for a function that is not supported: it says what to write instead."""
    instead = _INSTEAD.get(name.lower())
    if instead is None:
        close = difflib.get_close_matches(name.lower(), CALLABLE, 1, 0.75)
        instead = f"did you mean {close[0]}?" if close else f"supported are {', '.join(sorted(CALLABLE))}"
    return UnsupportedConditionError(f"the function {name} is not supported: {instead}", text, position)
