"""Moments as people write them: a time of the calendar, seconds since 1970, or how long ago."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated

import typer

Moment = Annotated[
    str | None,
    typer.Option("--time", metavar="TIME", help="Go on with what came then: 2026-03-01T12:00, or seconds since 1970."),
]
Ago = Annotated[str | None, typer.Option("--ago", metavar="2h", help="The same, as a number and s, m, h or d.")]
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(moment: str | None, ago: str | None, now: float) -> float | None:
    """Such a moment in seconds since 1970. Without a zone it is one of this machine's calendar."""
    if moment is not None and ago is not None:
        raise typer.BadParameter("give --time or --ago")
    if ago is not None:
        return now - duration(ago, "--ago")
    if moment is None:
        return None
    try:
        return float(moment)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(moment).timestamp()
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"--time is such as 2026-03-01T12:00 or 1772366400; not {moment!r}") from None


def duration(text: str, option: str) -> float:
    """A number and a unit, in seconds."""
    found = re.fullmatch(r"([1-9][0-9]{0,8})([smhd])", text)
    if not found:
        raise typer.BadParameter(f"{option} is a number and s, m, h or d, such as 30d; not {text!r}")
    return float(int(found[1]) * _SECONDS[found[2]])
