"""Every error that Fieldfare raises on purpose.

FieldfareError
├── ConditionError               a condition cannot be a subscription; carries the text and the place in it
│   ├── ConditionSyntaxError     it is not SQL
│   ├── UnsupportedConditionError  it is SQL, but not a condition over attributes: a function, a subquery, a regex
│   ├── ConditionTypeError       it compares things that can never compare
│   ├── UnknownAttributeError    it names an attribute that the events, whose schema is known, have in another case
│   └── ConditionLimitError      it is longer or deeper than allowed
├── SubscriptionError            a set of subscriptions is not sound
│   ├── InvalidIdError           an id is null, or is neither a string nor a 64-bit integer
│   ├── DuplicateIdError         an id stands twice
│   └── UnknownIdError           an id that was asked for, or is to be removed, is not there
├── EventError                   an event, or a column of events, cannot be read; carries the attribute
├── LayoutError                  a division of subscriptions among matchers is not sound
├── StoreError                   a subscription store cannot be used; says what to do
│   ├── StoreUnavailableError    it is locked, full or cannot be reached now: the same may work later
│   └── HistoryError             it does not know a version, not yet or not any more
├── JournalError                 a log of events cannot be used: another process has it, or it is of another version
│   ├── JournalFullError         there is no space: nothing was written, and the same may work later
│   └── JournalFailedError       a flush failed, or the log is damaged; says what to do
├── AxisDomainError              a declared domain of an attribute is empty, or has too many steps
├── CoveringError                what another broker says is wanted there cannot be read
├── SnapshotError                a saved index is missing, damaged or of another version
├── OutputError                  the pipeline's output cannot be written, or belongs to another pipeline
├── KafkaTopicError              a Kafka topic cannot be read or written: it is gone, made anew or forbidden
│   ├── KafkaUnavailableError    its brokers cannot be reached, or do not answer: the same may work later
│   ├── UnknownSchemaError       a schema registry has no such schema, or one that cannot be used
│   └── FencedError              another driver has taken the output over: this one has to end
├── TableError                   a table cannot be the pipeline's output: it does not fit, or is another's
│   ├── TableUnavailableError    it cannot be reached, or others hold it: the same may work later
│   └── TableChangedError        somebody else's commit was faster: look at the table again
├── BucketError                  a place in an object store cannot be used: it is not there, or access is denied
│   └── BucketUnavailableError   the object store cannot be reached, or does not answer: the same may work later
├── BrokenPromiseError           a simulated run delivered something wrong, or not everything; carries what
├── PipelineError                the streaming pipeline cannot begin, or cannot go on
├── InputError                   a file given to a command cannot be used
├── ConfigError                  settings are wrong; carries every problem, each with its place
│   ├── TopologyError            the file of a tree of brokers is wrong: a name, an address, a link, or a ring of them
│   ├── ApplicationError         the description of an application is wrong; says every setting that is
│   └── NodesError               nodes that an application could run on are described wrongly
├── CostsError                   measured costs cannot be read, or are of another version; says what to do
├── WebhookAddressError          a webhook may not be called at its URL; says why, and what would be allowed
├── ServiceError                 the service cannot start: a port or a folder is taken, a certificate is bad
│   └── PortTakenError           another program listens on its port
├── NetworkUnavailableError      a network of an experiment cannot be made here, for lack of rights; says what to do
├── LinkSecurityError            a broker's own secret or certificate cannot be used for links; says what to do
├── LinkRefusedError             two brokers cannot be linked: other versions, names or secrets; says why
├── CoordinationError            the coordination service cannot be reached, or refuses; says what to do
├── MessageTooLargeError         a message between peers is larger than they take; carries its size and the limit
├── UnauthenticatedError         a client has not proved who it is: its token is missing, wrong or expired
├── RefusedError                 a broker refused a request; carries its code and its reason
│   ├── IncompatibleQosError     more is requested of a topic than it offers
│   ├── ForbiddenError           the token does not give the right
│   ├── NotFoundError            there is no such topic or subscription, or it is another's
│   ├── NotAdvertisedError       an event is not what its publisher advertised
│   └── MovedError               another edge has the subscription, or the publisher; carries its URL
├── NotConnectedError            a client has no connection to the service, and gives up
│   └── EdgeFullError            an edge has no place for another client; carries the URLs of others
├── UnknownOutcomeError          a publication may have been accepted, or not; says what to do
├── DetachedError                a subscription is delivered to another client now
├── HandlerError                 a handler cannot be called: its parameter, its name or its options; says what to do
├── AppImportError               `fieldfare run` finds no application there; says what it looked for
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


class UnknownAttributeError(ConditionError):
    """The events have a schema, and the condition names one of its columns in another case."""


class ConditionLimitError(ConditionError):
    """Longer or deeper than the limits allow."""


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


class JournalError(FieldfareError):
    """A log of events cannot be used: another process has it, or another version wrote it."""


class JournalFullError(JournalError):
    """There is no space. Nothing was written, and the same may work later."""


class JournalFailedError(JournalError):
    """A flush failed, or the log is damaged. Nothing can be stored in it until it is opened again."""


class AxisDomainError(FieldfareError):
    """A domain that is declared for an attribute is empty, or has too many steps; says what to do."""


class CoveringError(FieldfareError):
    """What another broker says is wanted there cannot be read: it is damaged, too large or of another version."""


class SnapshotError(FieldfareError):
    """A saved index is missing, damaged or of another version."""


class OutputError(FieldfareError):
    """The pipeline's output cannot be written, is damaged, or belongs to another pipeline."""


class KafkaTopicError(FieldfareError):
    """A Kafka topic cannot be read or written: it is gone, was made anew, or access is denied. Says what to do."""


class KafkaUnavailableError(KafkaTopicError):
    """Kafka's brokers cannot be reached, or do not answer. The same may work later."""


class UnknownSchemaError(KafkaTopicError):
    """A schema registry has no schema of this id, or for this topic, or it cannot be used. Says what to do."""


class FencedError(KafkaTopicError):
    """Another driver writes the same output now. This one must end, and never try again."""


class TableError(FieldfareError):
    """A table cannot be the output of a pipeline: its columns do not fit, or another pipeline writes it."""


class TableUnavailableError(TableError):
    """A table's store, catalog or database cannot be reached, or has no room. The same may work later."""


class TableChangedError(TableError):
    """A table is not as it was when it was looked at, and nothing was added to it. Looking again helps."""


class BucketError(FieldfareError):
    """A place in an object store cannot be read or written. Says what to do; never has a secret of its settings."""


class BucketUnavailableError(BucketError):
    """An object store cannot be reached, or does not answer. The same may work later."""


class InputError(FieldfareError):
    """A file given to a command cannot be used."""


class ConfigError(FieldfareError):
    """Settings are wrong. Each problem names its place, and what is allowed there."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, ...]]:
        return type(self), self.problems


class TopologyError(ConfigError):
    """The file that describes a tree of brokers is wrong: a name, an address, a link, or links that make a ring."""


class ApplicationError(ConfigError):
    """The description of an application, from which its costs are predicted, is wrong."""


class NodesError(ConfigError):
    """The description of the nodes that an application could run on is wrong."""


class CostsError(FieldfareError):
    """Saved costs cannot be read, or were measured by another version."""


class WebhookAddressError(FieldfareError):
    """A webhook may not be called at its URL: it is not one, or it leads to an address that is not public."""


class ServiceError(FieldfareError):
    """The service cannot start: a port or a folder is taken, a certificate is bad."""


class PortTakenError(ServiceError):
    """Another program listens on the port of the service."""


class NetworkUnavailableError(FieldfareError):
    """The networks of an experiment cannot be made on this machine, or not by this user."""


class LinkSecurityError(FieldfareError):
    """A broker's own secret or certificate cannot be used for links to other brokers. The message holds no secret."""


class LinkRefusedError(FieldfareError):
    """Two brokers cannot be linked, or no longer: versions, names or secrets differ, or what came is no message."""


class CoordinationError(FieldfareError):
    """The coordination service cannot be reached, or refuses what is asked of it."""


class MessageTooLargeError(FieldfareError):
    """A message between peers is larger than they take."""

    def __init__(self, size_bytes: int, bytes_max: int) -> None:
        self.size_bytes = size_bytes
        self.bytes_max = bytes_max
        super().__init__(
            f"a message of {size_bytes:,} bytes is too large for the ring: send several, of at most {bytes_max:,} bytes"
        )

    def __reduce__(self) -> tuple[type[MessageTooLargeError], tuple[int, int]]:
        return type(self), (self.size_bytes, self.bytes_max)


class UnauthenticatedError(FieldfareError):
    """A client has not proved who it is. The message never holds what it sent."""


class RefusedError(FieldfareError):
    """A broker refused a request, and nothing of it has happened. `code` is one of `fieldfare.messages.RefusalCode`."""

    def __init__(self, code: str, reason: str) -> None:
        self.code = code
        self.reason = reason
        super().__init__(reason)

    def __reduce__(self) -> tuple[type[RefusedError], tuple[str, str]]:
        return type(self), (self.code, self.reason)


class IncompatibleQosError(RefusedError):
    """More is requested of a topic than it offers. The reason says what to change."""


class ForbiddenError(RefusedError):
    """The token does not give the right to do this."""


class NotFoundError(RefusedError):
    """There is no such topic or subscription, or it is another's."""


class NotAdvertisedError(RefusedError):
    """An event is not what its publisher advertised: advertise it before."""


class MovedError(RefusedError):
    """A durable subscription has its home at another edge, or a publisher has moved there.

    `home` is the URL of that edge, if it has one for clients.
    """

    def __init__(self, reason: str, home: str | None) -> None:
        super().__init__("moved", reason)
        self.home = home

    def __reduce__(self) -> tuple[type[MovedError], tuple[str, str | None]]:  # type: ignore[override]
        return type(self), (self.reason, self.home)


_REFUSALS = {
    "qos": IncompatibleQosError,
    "forbidden": ForbiddenError,
    "unknown": NotFoundError,
    "unadvertised": NotAdvertisedError,
}


def refusal(code: str, reason: str) -> RefusedError:
    """The error for a code of refusal."""
    return _REFUSALS.get(code, RefusedError)(code, reason)


class NotConnectedError(FieldfareError):
    """A client has no connection to the service, and gives up: it was closed, or the service cannot be reached."""


class EdgeFullError(NotConnectedError):
    """An edge has no place for another client. `edges` are the URLs of others that may have room."""

    def __init__(self, reason: str, edges: tuple[str, ...]) -> None:
        self.reason = reason
        self.edges = edges
        super().__init__(reason)

    def __reduce__(self) -> tuple[type[EdgeFullError], tuple[str, tuple[str, ...]]]:
        return type(self), (self.reason, self.edges)


class UnknownOutcomeError(FieldfareError):
    """Whether a publication was accepted is not known: its answer was lost, and its edge could not be reached again."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(
            f"whether events of topic {topic!r} were accepted is not known: the edge that they were sent to did not "
            "answer, and cannot be reached. Look whether they have come; or publish them again with ids of your own, "
            "by which those who get an event twice know it"
        )

    def __reduce__(self) -> tuple[type[UnknownOutcomeError], tuple[str]]:
        return type(self), (self.topic,)


class DetachedError(FieldfareError):
    """A durable subscription is delivered to another client now, which attached to it later."""

    def __init__(self, subscription: str, reason: str) -> None:
        self.subscription = subscription
        self.reason = reason
        super().__init__(f"subscription {subscription!r} is no longer delivered here: {reason}")

    def __reduce__(self) -> tuple[type[DetachedError], tuple[str, str]]:
        return type(self), (self.subscription, self.reason)


class HandlerError(FieldfareError):
    """A handler cannot be called as it is written: its parameter, its name or its options; says what to do."""


class AppImportError(FieldfareError):
    """There is no application at an import path such as `module:app`."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")

    def __reduce__(self) -> tuple[type[AppImportError], tuple[str, str]]:
        return type(self), (self.path, self.reason)


class PipelineError(FieldfareError):
    """The streaming pipeline cannot begin, or cannot go on."""


class BrokenPromiseError(FieldfareError):
    """A simulated run broke a promise: an event was lost, duplicated, reordered or unexpected."""

    def __init__(self, kind: str, client: str, detail: str) -> None:
        self.kind = kind
        self.client = client
        self.detail = detail
        super().__init__(f"{kind}, at client {client!r}: {detail}")

    def __reduce__(self) -> tuple[type[BrokenPromiseError], tuple[str, str, str]]:
        return type(self), (self.kind, self.client, self.detail)


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
