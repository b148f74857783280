"""What a program gives its peer, looked at before anything of it happens: names, conditions, events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from fieldfare.client import wire
from fieldfare.errors import ConditionError, ConfigError, EventError, RefusedError
from fieldfare.events import UnreadableError, event_attributes
from fieldfare.language import compile  # noqa: A004 - see there
from fieldfare.matching.rows import check_event
from fieldfare.messages import CONDITION_CHARACTERS_MAX, EVENT_BYTES_MAX, EVENTS_MAX, Name
from fieldfare.messages.wording import NAME_RULE


def check_name(what: str, name: str, *, is_setting: bool = True) -> None:
    """Raise if this is no name: a ConfigError if it stands in settings."""
    try:
        msgspec.convert(name, Name)
    except msgspec.ValidationError as error:
        reason = f"{what} {name!r}: {NAME_RULE}"
        raise (ConfigError(reason) if is_setting else RefusedError("invalid", reason)) from error


def check_condition(condition: str) -> None:
    """Raise a RefusedError if this is no condition for peers."""
    if len(condition) > CONDITION_CHARACTERS_MAX:
        raise RefusedError(
            "invalid",
            f"a condition has at most {CONDITION_CHARACTERS_MAX:,} characters, not {len(condition):,}: "
            "split it into several subscriptions",
        )
    try:
        compile(condition)
    except ConditionError as error:
        raise RefusedError("condition", str(error)) from error


def checked_lines(events: Sequence[Any]) -> list[bytes]:
    """Events as JSON; a RefusedError if one of them is not sound, and none is published then."""
    if not 1 <= len(events) <= EVENTS_MAX:
        raise RefusedError("invalid", f"a publication has 1 to {EVENTS_MAX:,} events, not {len(events):,}: divide it")
    lines = [bytes(wire.raw(event)) for event in events]
    for number, line in enumerate(lines):
        if len(line) > EVENT_BYTES_MAX:
            raise RefusedError("invalid", f"an event has {len(line):,} bytes, but {EVENT_BYTES_MAX:,} are the most")
        try:
            check_event(event_attributes(line))
        except (EventError, UnreadableError) as error:
            raise RefusedError("invalid", f"event {number}: {error}") from error
    return lines
