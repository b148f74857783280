"""An application as a typed description: what it subscribes to, what it publishes, and what it needs.

It is what Table 1 of "Revisiting CBPS" says of five applications, and what a prediction needs beyond that.
Stable: the names and units of the fields of `Application`, `load_application`, and that TOML and Python say the same.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from fieldfare.errors import ApplicationError

Count: TypeAlias = Annotated[int, Meta(ge=1, le=10_000_000_000)]
Rate: TypeAlias = Annotated[float, Meta(gt=0, le=1e9)]
ZeroOrMore: TypeAlias = Annotated[float, Meta(ge=0, le=1e9)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Seconds: TypeAlias = Annotated[float, Meta(ge=1e-6, le=86_400)]
Group: TypeAlias = Annotated[float, Meta(ge=1, le=1e6)]
Bytes: TypeAlias = Annotated[int, Meta(ge=1, le=2**30)]

_FILE_BYTES_MAX = 1024 * 1024


class Shape(StrEnum):
    """What conditions look like, which decides what it costs to match them; the paper calls it expressiveness."""

    RANGES = "ranges"  # intervals on a few numbers: BlueDove's workload
    QUOTES = "quotes"  # a string that must be equal, and rarely a range
    KEYWORDS = "keywords"  # words that a list must have
    SETS = "sets"  # set inclusion: several members that a list must all have
    PLACES = "places"  # circles and polygons on the earth


class Clustering(StrEnum):
    """How the interests of subscribers crowd."""

    UNIFORM = "uniform"
    MULTIMODAL = "multimodal"  # a few hot spots
    POWER_LAW = "power law"  # a few values that many want


class Durability(StrEnum):
    """What must survive a crash."""

    NONE = "none"  # a crash may lose what is on its way
    DISK = "disk"  # what was accepted is on disk


class Destination(StrEnum):
    """Where matches go."""

    CLIENTS = "clients"  # to subscribers over the network
    TABLE = "table"  # into files or a table, as the pipeline writes them
    PROCESS = "process"  # to the program that has the events


class Application(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that a prediction asks of an application. Rates are of all publishers together."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    subscriptions: Count
    events_per_second: Rate
    latency_seconds_max: Seconds  # for 99 of 100 events, from publishing to delivery
    shape: Shape = Shape.RANGES
    clustering: Clustering = Clustering.MULTIMODAL
    matches_per_event: ZeroOrMore = 1.0  # subscriptions that an event satisfies, on average
    subscribers: Count = 1
    connections: Count | None = None  # of subscribers at the brokers; none: one for each subscriber
    publishers: Count = 1
    peak_events_per_second: Rate | None = None  # of bursts that must be carried; none: there are none
    events_per_publication: Group = 1.0  # that a publisher sends together
    event_bytes: Bytes = 100
    changes_per_second: ZeroOrMore = 0.0  # subscriptions that come or go
    networks: Count = 1  # places that are far from each other
    network_seconds: ZeroOrMore = 0.0  # from one of them to another, one way
    locality: Share = 1.0  # of the deliveries, those in the network of the publisher
    durability: Durability = Durability.DISK
    delivery: Destination = Destination.CLIENTS
    assumptions: tuple[str, ...] = ()  # how the numbers were read, for people

    def __post_init__(self) -> None:
        problems = _problems(self) or list(_contradictions(self))
        if problems:
            raise ApplicationError(*problems)

    @property
    def carried_events_per_second(self) -> float:
        """What has to be carried: bursts, where there are any."""
        return self.peak_events_per_second or self.events_per_second

    @property
    def open_connections(self) -> int:
        """Connections of subscribers."""
        return self.connections or self.subscribers

    def part(self, parts: int) -> Application:
        """One of `parts` equal parts, each a topic with its own subscriptions, events and clients."""
        if parts == 1:
            return self
        peak = self.peak_events_per_second
        return msgspec.structs.replace(
            self,
            subscriptions=max(1, self.subscriptions // parts),
            events_per_second=self.events_per_second / parts,
            peak_events_per_second=None if peak is None else peak / parts,
            matches_per_event=min(self.matches_per_event, self.subscriptions // parts),
            subscribers=max(1, self.subscribers // parts),
            connections=max(1, self.open_connections // parts),
            publishers=max(1, self.publishers // parts),
            changes_per_second=self.changes_per_second / parts,
        )

    def to_toml(self) -> str:
        """As a file that `load_application` reads; what is as usual is written too, so that it can be changed."""
        lines = []
        for key, value in msgspec.to_builtins(self).items():
            if value is None:
                lines.append(f"# {key} is not set")
            elif isinstance(value, list | tuple):
                lines += [f"{key} = [", *(f"    {_text(item)}," for item in value), "]"]
            else:
                lines.append(f"{key} = {_text(value)}")
        return "\n".join(lines) + "\n"


def load_application(file: Path) -> Application:
    """The application that a TOML file describes; an ApplicationError says everything that is wrong with it."""
    try:
        if file.stat().st_size > _FILE_BYTES_MAX:
            raise ApplicationError(f"{file} is larger than a description of an application can be")
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ApplicationError(f"{file} cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ApplicationError(f"{file} is not TOML: {error}") from error
    except RecursionError as error:
        raise ApplicationError(f"{file} is nested too deeply") from error
    return application_from({"name": file.stem, **table}, str(file))


def application_from(table: dict[str, Any], where: str) -> Application:
    """The application that a table of settings describes; every wrong setting is named, not only the first."""
    fields = {field.name: field for field in msgspec.structs.fields(Application)}
    problems = [f"{where}: there is no setting {key!r}" for key in table if key not in fields]
    problems += [
        f"{where}: {name} is missing" for name, field in fields.items() if field.required and name not in table
    ]
    values = {key: value for key, value in table.items() if key in fields}
    problems += [f"{where}: {problem}" for problem in _wrong(values)]
    if problems:
        raise ApplicationError(*problems)
    try:
        return msgspec.convert(values, Application)
    except ApplicationError as error:
        raise ApplicationError(*(f"{where}: {problem}" for problem in error.problems)) from error


def _problems(application: Application) -> list[str]:
    """What no value of its field may be: msgspec looks at it only where it decodes."""
    return list(_wrong({name: getattr(application, name) for name in application.__struct_fields__}))


def _wrong(values: Mapping[str, Any]) -> Iterator[str]:
    for field in msgspec.structs.fields(Application):
        if field.name in values:
            try:
                msgspec.convert(msgspec.to_builtins(values[field.name]), field.type)
            except (msgspec.ValidationError, TypeError) as error:
                yield f"{field.name}: {error}"


def _contradictions(application: Application) -> Iterator[str]:
    """Numbers that cannot be true together."""
    if application.matches_per_event > application.subscriptions:
        yield "matches_per_event is more than there are subscriptions"
    if application.subscribers > application.subscriptions:
        yield "there are more subscribers than subscriptions; who subscribes to nothing does not count"
    if application.peak_events_per_second and application.peak_events_per_second < application.events_per_second:
        yield "peak_events_per_second is less than events_per_second"
    if application.networks == 1 and application.locality < 1.0:
        yield "locality is below 1, but there is only one network"


def _text(value: Any) -> str:
    """A value as TOML writes it, whose strings are those of JSON; large integers are grouped."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:_}"
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
