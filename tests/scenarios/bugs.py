"""Bugs to plant, so that it is known that scenarios would find them: in this process, or in a service of its own.

As a program it is a service with a bug: `python bugs.py BUG python -m fieldfare serve ...`.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Raw

from fieldfare.routing import recovery
from fieldfare.routing.dead_letters import DeadLetters
from fieldfare.routing.publishers import Publishers
from fieldfare.routing.taker import Taker

Patch: TypeAlias = Callable[[Any, str, Any], None]  # such as setattr


def no_repetitions(patch: Patch) -> None:
    """The edge does not notice that a publication was sent again."""
    patch(Publishers, "repeated", lambda _self, _publisher, _sequence, _count: 0)


def hasty_cursor(patch: Patch) -> None:
    """The edge takes an event for acknowledged as soon as it has sent it."""
    take = Taker.take

    def hasty(taker: Taker, now: float, count_max: int, bytes_max: int) -> list[Raw]:
        taken = take(taker, now, count_max, bytes_max)
        if taker.in_flight:
            taker.cursor = max(taker.cursor, taker.in_flight[-1])
            taker.is_cursor_unwritten = True
        return taken

    patch(Taker, "take", hasty)


def forgotten_subscriptions(patch: Patch) -> None:
    """An edge that starts again does not know the durable subscriptions that it had."""
    patch(recovery, "_recover_subscription", lambda _edge, _record: None)


def no_dead_letters(patch: Patch) -> None:
    """Events that a webhook refuses are forgotten."""
    patch(DeadLetters, "bury", lambda _self, _key, _deliveries, _reason, _attempts, _now: None)


BUGS: dict[str, Callable[[Patch], None]] = {
    bug.__name__: bug for bug in (no_repetitions, hasty_cursor, forgotten_subscriptions, no_dead_letters)
}


def main() -> None:
    """Plant the bug that is named first, and run the module that the rest names."""
    bug, _python, _option, module, *arguments = sys.argv[1:]
    BUGS[bug](setattr)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__")


if __name__ == "__main__":
    main()
