"""Tries a condition on sample events, with the engine that serves live ones, and says what stands against a match.

The parts of a condition that AND joins are conditions themselves, so an index of them tells which an event satisfies:
it satisfies the whole exactly when it satisfies every part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from sqlglot import Token, TokenType

from fieldfare.errors import ConditionError, EventError
from fieldfare.events import UnreadableError, attributes_of
from fieldfare.language import Limits, compile_many
from fieldfare.language import compile as compile_condition
from fieldfare.language.hints import in_quotes, likely_name, unquoted_words
from fieldfare.language.tokens import tokens_of
from fieldfare.matching.index import Index
from fieldfare.matching.passing import attributes_of as attributes_of_tests
from fieldfare.matching.passing import names_on
from fieldfare.model import NOW, Condition, Interval, Range, Section, section_start
from fieldfare.runtime.gateway.forms import FailedPart, Verdict
from fieldfare.runtime.gateway.problems import ProblemError, invalid

_NOUNS = {
    Section.NULL: "missing",
    Section.NAN: "a list",  # for JSON has no NaN
    Section.BOOLEAN: "a boolean",
    Section.NUMBER: "a number",
    Section.STRING: "a string",
    Section.TIME: "a date or timestamp",
}
_SHOWN_CHARACTERS = 80
_PARTS_MAX = 20  # that are told of one event: many parts times many events would make a small request a large answer


def try_condition(condition: str, events: Sequence[dict[str, Any]]) -> list[Verdict]:
    """For each event, whether it satisfies the condition, and if not, which parts it does not and why."""
    try:
        compile_condition(condition)
    except ConditionError as error:
        raise ProblemError(422, "condition", error.reason, position=error.position) from error
    spans = parts_of(condition)
    if compile_many([condition[start:end] for start, end in spans]).errors:  # a part alone can be over a limit
        spans = [(0, len(condition))]
    parts = [compile_condition(condition[start:end]) for start, end in spans]
    index = Index({number: part.text for number, part in enumerate(parts)})
    now = datetime.now(UTC)
    samples = [_sample(event, number, index, now) for number, event in enumerate(events)]
    hints = _hints(parts, {name for attributes, _ in samples for name in attributes})
    verdicts = []
    for attributes, held in samples:
        failed = (place for place in range(len(parts)) if place not in held)
        why = [
            FailedPart(_cut(parts[place].text), spans[place][0], _cut(_reason(parts[place], attributes, hints)))
            for place in islice(failed, _PARTS_MAX)
        ]
        verdicts.append(Verdict(not why, why))
    return verdicts


def _sample(event: dict[str, Any], number: int, index: Index, now: datetime) -> tuple[Mapping[str, Any], list[Any]]:
    """The attributes of a sample event, as if it were accepted now, and the parts that it satisfies."""
    try:
        attributes = attributes_of(event)
        return {**attributes, NOW: now}, index.match(attributes, now=now)
    except (EventError, UnreadableError) as error:
        raise invalid(f"event {number}: {error}") from error


def _hints(parts: Sequence[Condition], known: set[str]) -> dict[str, str]:
    """For each attribute that no sample event has, what may have been meant, if anything comes to mind."""
    hints = {}
    for part in parts:
        words = unquoted_words(part)
        for name in _names(part) - known:
            meant = likely_name(name, known)
            if meant is not None:
                hints[name] = f"did you mean {meant}?"
            elif name in words:
                hints[name] = in_quotes(name)
    return hints


def parts_of(condition: str) -> list[tuple[int, int]]:
    """Where the parts that AND joins begin and end in the text of a sound condition."""
    tokens = tokens_of(condition, Limits())
    while _is_enclosed(tokens):
        tokens = tokens[1:-1]
    groups: list[list[Token]] = [[]]
    depth = betweens = 0
    for token in tokens:
        depth += _level(token)
        is_name = token.token_type is TokenType.IDENTIFIER
        word = condition[token.start : token.end + 1].upper() if depth == 0 and not is_name else ""
        if word == "OR":
            return [(tokens[0].start, tokens[-1].end + 1)]
        if word == "AND" and betweens == 0:
            groups.append([])
        else:
            betweens += (word == "BETWEEN") - (word == "AND")
            groups[-1].append(token)
    return [(group[0].start, group[-1].end + 1) for group in groups]


_OPENING, _CLOSING = (TokenType.L_PAREN, TokenType.CASE), (TokenType.R_PAREN, TokenType.END)


def _level(token: Token) -> int:
    return (token.token_type in _OPENING) - (token.token_type in _CLOSING)


def _is_enclosed(tokens: Sequence[Token]) -> bool:
    """Whether one pair of parentheses is around everything."""
    depth = 0
    for token in tokens[:-1]:
        depth += _level(token)
        if depth == 0:
            return False
    return len(tokens) > 2


def _reason(part: Condition, attributes: Mapping[str, Any], hints: Mapping[str, str]) -> str:
    """Why a part does not hold: what its attributes are."""
    names = sorted(_names(part))
    reasons = [
        f"{_standing(part, name, attributes.get(name))}{': ' + hints[name] if name in hints else ''}" for name in names
    ]
    return "; ".join(reasons) or "no event satisfies it"


def _standing(part: Condition, name: str, value: object) -> str:
    wanted = {section for box in part.boxes if name in box.intervals for section in _sections(box.intervals[name])}
    given = _section_of(value)
    if given is Section.NULL:
        return f"{name} is missing"
    if given is None or not wanted or given in wanted:
        return f"{name} is {_shown(value)}"
    if wanted == {Section.NULL}:
        return f"{name} is {_shown(value)}, not missing"
    kinds = " or ".join(_NOUNS[section] for section in sorted(wanted - {Section.NULL}))
    return f"{name} is {_NOUNS[given]}, {_shown(value)}, and is compared with {kinds}"


def _sections(interval: Interval) -> Iterator[Section]:
    """The types of value that lie in an interval."""
    last = interval.high[0] if interval.high != section_start(interval.high[0]) else interval.high[0] - 1
    return (Section(number) for number in range(interval.low[0], last + 1))


def _section_of(value: object) -> Section | None:
    match value:
        case None:
            return Section.NULL
        case bool():
            return Section.BOOLEAN
        case int() | float():
            return Section.NUMBER
        case str():
            return Section.STRING
        case list():
            return Section.NAN
        case _:
            return None  # a range


def _shown(value: object) -> str:
    if isinstance(value, Range):
        return f"a range from {_shown(value.low)} to {_shown(value.high)}"
    text = (
        {None: "open", True: "true", False: "false"}[value] if value is None or isinstance(value, bool) else str(value)
    )
    text = f"'{text}'" if isinstance(value, str) else text
    return _cut(text, _SHOWN_CHARACTERS)


def _cut(text: str, characters_max: int = 4 * _SHOWN_CHARACTERS) -> str:
    return text if len(text) <= characters_max else f"{text[:characters_max]}…"


def _names(part: Condition) -> set[str]:
    """The attributes that a part asks about."""
    names: set[str] = set()
    for box in part.boxes:
        names |= box.intervals.keys()
        names |= attributes_of_tests(box.tests)
        names = names.union(*map(names_on, box.derived), *(names_on(member.lists) for member in box.members))
    return names
