"""Every error that Fieldfare raises on purpose.

FieldfareError
├── ConditionError               a condition cannot be a subscription; carries the text and the place in it
│   ├── ConditionSyntaxError     it is not SQL
│   ├── UnsupportedConditionError  it is SQL, but not a condition over attributes: a function, a subquery, a regex
│   ├── ConditionTypeError       it compares things that can never compare
│   └── ConditionLimitError      it is longer, deeper or has more alternatives than allowed
├── SubscriptionError            a set of subscriptions is not sound
│   ├── InvalidIdError           an id is null, or is neither a string nor a 64-bit integer
│   ├── DuplicateIdError         an id stands twice
│   └── UnknownIdError           an id that was asked for, or is to be removed, is not there
├── EventError                   an event, or a column of events, cannot be read; carries the attribute
├── LayoutError                  a division of subscriptions among matchers is not sound
├── StoreError                   a subscription store cannot be used; says what to do
│   ├── StoreUnavailableError    it is locked, full or cannot be reached now: the same may work later
│   └── HistoryError             it does not know a version, not yet or not any more
├── SnapshotError                a saved index is missing, damaged or of another version
├── OutputError                  the pipeline's output cannot be written, or belongs to another pipeline
├── PipelineError                the streaming pipeline cannot begin, or cannot go on
├── InputError                   a file given to a command cannot be used
└── MissingDependencyError       an optional part is not installed; says what to install
"""

from __future__ import annotations


class FieldfareError(Exception):
    """The root: catch this to catch everything that Fieldfare raises on purpose."""


class ConditionError(FieldfareError):
    """A condition cannot become a subscription. `position` counts characters from 0, or is None."""

    def __init__(self, reason: str, condition: str, position: int | None = None) -> None:
        self.reason = reason
        self.condition = condition
        self.position = position
        super().__init__(reason)

    def __str__(self) -> str:
        if not self.condition.strip():
            return self.reason
        if self.position is None:
            return f"{self.reason}, in: {_excerpt(self.condition, 0)[0]}"
        text, column = _excerpt(self.condition, self.position)
        return f"{self.reason}, at character {self.position + 1}:\n  {text}\n  {' ' * column}^"

    def __reduce__(self) -> tuple[type[ConditionError], tuple[str, str, int | None]]:
        return type(self), (self.reason, self.condition, self.position)


class ConditionSyntaxError(ConditionError):
    """The text is not a SQL expression."""


class UnsupportedConditionError(ConditionError):
    """SQL that a condition cannot contain: a function, a subquery, a regular expression."""


class ConditionTypeError(ConditionError):
    """A comparison between types that can never compare."""


class ConditionLimitError(ConditionError):
    """Longer, deeper or with more alternatives than the limits allow."""


class SubscriptionError(FieldfareError):
    """A set of subscriptions is not sound."""


class InvalidIdError(SubscriptionError):
    """A subscription id is null, or neither a string nor a 64-bit integer."""


class DuplicateIdError(SubscriptionError):
    """The same subscription id stands twice."""

    def __init__(self, subscription_id: object) -> None:
        self.subscription_id = subscription_id
        super().__init__(f"subscription id {subscription_id!r} stands twice; every id must be unique")

    def __reduce__(self) -> tuple[type[DuplicateIdError], tuple[object]]:
        return type(self), (self.subscription_id,)


class UnknownIdError(SubscriptionError):
    """A subscription id that was asked for, or is to be removed, is not there."""

    def __init__(self, subscription_id: object) -> None:
        self.subscription_id = subscription_id
        super().__init__(f"there is no subscription {subscription_id!r}")

    def __reduce__(self) -> tuple[type[UnknownIdError], tuple[object]]:
        return type(self), (self.subscription_id,)


class EventError(FieldfareError):
    """An event's attribute, or a column of events, has a value that cannot be matched."""

    def __init__(self, attribute: str, reason: str) -> None:
        self.attribute = attribute
        self.reason = reason
        super().__init__(f"attribute {attribute!r}: {reason}")

    def __reduce__(self) -> tuple[type[EventError], tuple[str, str]]:
        return type(self), (self.attribute, self.reason)


class LayoutError(FieldfareError):
    """A division of subscriptions among matchers is not sound, or a change of it is not possible."""


class StoreError(FieldfareError):
    """A subscription store cannot be used: it is damaged, of another version, or no store at all."""


class StoreUnavailableError(StoreError):
    """A store is locked, out of space or cannot be reached now.

    A change that raised this was not acknowledged. Where the connection broke at its very end it may yet have
    happened; trying it again shows.
    """


class HistoryError(StoreError):
    """A version is later than the store's own, or its history has been forgotten."""


class SnapshotError(FieldfareError):
    """A saved index is missing, damaged or of another version."""


class OutputError(FieldfareError):
    """The pipeline's output cannot be written, is damaged, or belongs to another pipeline."""


class InputError(FieldfareError):
    """A file given to a command cannot be used."""


class PipelineError(FieldfareError):
    """The streaming pipeline cannot begin, or cannot go on."""


class MissingDependencyError(FieldfareError):
    """An optional part is not installed."""


_EXCERPT_CHARACTERS = 100


def _excerpt(condition: str, position: int) -> tuple[str, int]:
    """A single line of the condition around `position`, and the column of `position` in it."""
    flat = "".join(" " if character.isspace() else character for character in condition)
    start = max(0, min(position - _EXCERPT_CHARACTERS // 2, len(flat) - _EXCERPT_CHARACTERS))
    end = start + _EXCERPT_CHARACTERS
    prefix = "… " if start else ""
    suffix = " …" if end < len(flat) else ""
    shown = flat[start:end].encode("utf-8", "backslashreplace").decode("utf-8")
    return prefix + shown + suffix, len(prefix) + position - start
