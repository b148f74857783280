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
FORMS |= PLACE_NAMES
CALLABLE = frozenset(
    {*FUNCTIONS, *SYNONYMS, *FORMS, *CAST_TYPES, *LIST_CALLS, *LIST_SYNONYMS} - INTERNAL - LIST_INTERNAL
)

_INSTEAD = {
    "all": "use IN, or AND and OR",
    "any": "use IN, or AND and OR",
    "some": "use IN, or AND and OR",
    "current_time": "a time of day is no type here: compare hour(current_timestamp()) and minute(current_timestamp())",
    **dict.fromkeys(("current_user", "session_user", "user"), "a condition knows the event only"),
    **dict.fromkeys(("current_timezone", "convert_timezone"), "conditions are in UTC: write from_utc_timestamp"),
    "regexp_extract": "use RLIKE, LIKE or substring",
    **dict.fromkeys(("date_add", "dateadd"), "write at + INTERVAL 1 DAY"),
    "date_sub": "write at - INTERVAL 1 DAY",
    "to_date": "write date(x)",
    "to_timestamp": "write cast(x AS timestamp)",
    "unix_timestamp": "write cast(at AS bigint)",
    "extract": "write year(at), month(at), day(at), hour(at), minute(at) or second(at)",
    "date_part": "write year(at), month(at), day(at), hour(at), minute(at) or second(at)",
    **dict.fromkeys(("decimal", "numeric", "dec"), "numbers are 64 bits: use double or bigint"),
    "datediff": "compare with at + INTERVAL 1 DAY",
    "nanvl": "NaN counts as NULL: write coalesce",
    "concat_ws": "write concat or ||",
    **dict.fromkeys(("filter", "transform", "aggregate", "any_match"), "write exists(list, member -> condition)"),
    **dict.fromkeys(("map_keys", "map_values", "map_contains_key"), "write map['key'], or map['key'] IS NOT NULL"),
    **dict.fromkeys(("split", "explode"), "write words(text), or give the event a list"),
}


def unknown_function(name: str, text: str, position: int | None) -> ConditionError:
    """The error for a function that is not supported: it says what to write instead."""
    instead = _INSTEAD.get(name.lower())
    if instead is None:
        close = difflib.get_close_matches(name.lower(), CALLABLE, 1, 0.75)
        instead = f"did you mean {close[0]}?" if close else f"supported are {', '.join(sorted(CALLABLE))}"
    return UnsupportedConditionError(f"the function {name} is not supported: {instead}", text, position)
