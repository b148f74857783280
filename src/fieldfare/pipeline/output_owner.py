"""Whose output a place is: one checkpoint's, because batch ids count within it. A small file there says so."""

from __future__ import annotations

import msgspec

from fieldfare.errors import OutputError

OWNER = "_fieldfare.json"
FORMAT = 1


class Owner(msgspec.Struct, frozen=True):
    """An output's owner, and what its rows are: pairs (`explode`) or events."""

    format: int
    owner: str
    explode: bool


def owner_of(checkpoint: str, *, explode: bool) -> Owner:
    """How a checkpoint of this version says that an output is its own."""
    return Owner(FORMAT, checkpoint, explode)


def require_owner(place: object, content: bytes, expected: Owner) -> None:
    """Raise an error if the place, where this content was found, is not this checkpoint's, or has other rows."""
    try:
        found = msgspec.json.decode(content, type=Owner)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise OutputError(f"{place}/{OWNER} is damaged ({error}): restore it, or use an empty folder") from error
    if found.format != expected.format:
        raise OutputError(
            f"{place} has format {found.format}; this version writes format {expected.format}: use an empty folder"
        )
    if found.owner != expected.owner:
        raise OutputError(
            f"{place} is the output of another checkpoint, whose batches have the same ids: "
            "use its checkpoint, or another output folder"
        )
    if found.explode != expected.explode:
        kind = "pair" if found.explode else "event"
        raise OutputError(f"{place} has one row per {kind}: go on like that, or use another output folder")
