"""Finding the bad items of a batch that is only accepted or refused as a whole: by halving it."""

from __future__ import annotations

from collections.abc import Iterator


class Bisection:
    """The parts of a batch that are to be tried, in order: at first all of it, then the halves of each that failed.

    Whoever tries them says what failed::

        parts = Bisection(len(items))
        for part in parts:
            try:
                store(items[part])
            except BadItemError as error:
                if not parts.halve(part):
                    refuse(items[part.start], error)
    """

    def __init__(self, count: int) -> None:
        self._pending = [slice(0, count)]

    def __iter__(self) -> Iterator[slice]:
        while self._pending:
            yield self._pending.pop()

    def halve(self, failed: slice) -> bool:
        """Try the halves of a part next, unless it is one item alone: then that is a bad one, and this is False."""
        if failed.stop - failed.start <= 1:
            return False
        middle = (failed.start + failed.stop) // 2
        self._pending += [slice(middle, failed.stop), slice(failed.start, middle)]
        return True
