"""The settings of a service: one TOML file, then environment variables, then the command line; the last one wins.

Each section is a frozen struct whose types say what is allowed. Every wrong setting is found, not only the first, and
named by its place: the file and the key, or the variable `FIELDFARE_<SECTION>_<KEY>`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from fieldfare.errors import ConfigError
from fieldfare.files.sections import Given, filled, one_of, read_toml
from fieldfare.messages import Name
from fieldfare.messages.wording import NAME_RULE, in_words
from fieldfare.qos import Matching, Offered
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.quotas import EVERY_TENANT, Quota
from fieldfare.runtime.broker_config import BROKER_PATHS, BrokerSettings
from fieldfare.runtime.kafka_config import KafkaLinks, with_paths
from fieldfare.runtime.peer_config import PEER_PATHS, PeerSettings
from fieldfare.runtime.placement_config import PlacementSettings
from fieldfare.runtime.socket_addresses import ADDRESS_PATTERN, ADDRESS_RULE

DEFAULT_FILE = Path("fieldfare.toml")
MEBIBYTE = 1024 * 1024
_EDGE = EdgeOptions()
_PATHS = {
    "server": ("data", "tls_certificate", "tls_key"),
    "audit": ("path",),
    "broker": BROKER_PATHS,
    "peers": PEER_PATHS,
}

Port: TypeAlias = Annotated[int, Meta(ge=0, le=65_535)]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Bytes: TypeAlias = Annotated[int, Meta(ge=MEBIBYTE, le=2**50)]
Origin: TypeAlias = Annotated[str, Meta(pattern=r"^https?://[^/?#\s,]+$")]
Network: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9A-Za-z._:\[\]-]+(/[0-9]{1,3})?$")]  # a host, address or network


Secret: TypeAlias = Annotated[str, Meta(min_length=16)]


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Server(_Section, frozen=True):
    """Where the service is, and who may reach it."""

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    port: Port = 7380  # 0 takes a free one
    data: Annotated[str, Meta(min_length=1)] = "fieldfare-data"
    tls_certificate: str | None = None
    tls_key: str | None = None
    behind_proxy: bool = False  # TLS ends at a proxy in front, which alone can reach this port
    origins: tuple[Origin, ...] = ()  # web pages that may connect, such as https://app.example.org
    log_format: Literal["text", "json"] = "text"
    shutdown_seconds: Annotated[float, Meta(gt=0, le=3600)] = 10.0  # what is in hand is given so long to finish
    auto_create: bool | None = None  # topics come by being used; none: if no token is needed, or among several edges
    url: Origin | None = None  # where clients reach it, if not at host and port; other edges send clients there


class Limits(_Section, frozen=True):
    """Bounds on what one service takes on. Those of a broker are explained with `EdgeOptions`."""

    connections_max: Count = 10_000
    metrics_subscriptions_max: Annotated[int, Meta(ge=0, le=10_000)] = 100  # the busiest have metrics of their own
    topics_max: Count = _EDGE.topics_max
    subscriptions_max: Count = _EDGE.subscriptions_max
    subscriptions_per_connection_max: Count = _EDGE.subscriptions_per_connection_max
    unstored_bytes_max: Bytes = _EDGE.unstored_bytes_max
    waiting_max: Count = _EDGE.waiting_max
    outstanding_max: Count = _EDGE.outstanding_max
    waiting_bytes_max: Bytes = _EDGE.waiting_bytes_max
    publishers_max: Count = _EDGE.publishers_max
    recent_ids_max: Count = _EDGE.recent_ids_max
    dead_letters_max: Count = _EDGE.dead_letters_max


class Log(_Section, frozen=True):
    """How much of the past is kept on disk."""

    retention_bytes: Bytes = 8 * 1024 * MEBIBYTE
    segment_bytes: Annotated[int, Meta(ge=64 * 1024, le=1024 * MEBIBYTE)] = 64 * MEBIBYTE


class AuditSettings(_Section, frozen=True):
    """Where it is noted who changed what, and how much of that is kept."""

    enabled: bool = True
    path: Annotated[str, Meta(min_length=1)] | None = None  # none: audit.jsonl in the data folder
    file_bytes_max: Annotated[int, Meta(ge=4096, le=2**40)] = 16 * MEBIBYTE
    files_max: Annotated[int, Meta(ge=2, le=1000)] = 8


class Webhooks(_Section, frozen=True):
    """Where webhooks may go beside the public internet, how often one is tried, and what signs its calls."""

    allow: tuple[Network, ...] = ()
    attempts_max: Annotated[int, Meta(ge=1, le=1000)] = _EDGE.webhook_attempts_max
    backoff_seconds: Annotated[float, Meta(gt=0, le=3600)] = _EDGE.webhook_backoff_seconds
    backoff_seconds_max: Annotated[float, Meta(gt=0, le=86_400)] = _EDGE.webhook_backoff_seconds_max
    secret: Secret | None = None
    secrets: dict[Name, Secret] = {}  # of tenants that have one of their own


class Spark(_Section, frozen=True):
    """The pipeline for topics with `matching = "spark"`."""

    enabled: bool = False
    runs_pipelines: bool = True  # false: `fieldfare pipeline run` is started elsewhere, on the folders of this service
    store: str | None = None  # of the subscriptions, such as postgresql://…; none: a file in the data folder
    master: str | None = None  # Spark's; none: this machine
    interval_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.2  # from one batch to the next


class Telemetry(_Section, frozen=True):
    """Traces and metrics for a collector of OpenTelemetry, which the extra `otel` sends."""

    endpoint: Annotated[str, Meta(pattern="^https?://")] | None = None  # as http://localhost:4318; none: there is none
    metrics_seconds: Annotated[float, Meta(ge=1, le=3600)] = 60.0  # from one time that metrics are sent to the next


class Dds(_Section, frozen=True):
    """The bridge to a DDS domain, which the extra `dds` brings."""

    domain: Annotated[int, Meta(ge=0, le=230)] | None = None  # none: there is no bridge
    name: Name | None = None  # unique among the bridges of a deployment; none: of the machine, and random
    deployment: Name = "fieldfare"  # bridges of one deployment in one domain stand by for each other
    topics: tuple[str, ...] = ("*",)  # which DDS topics are bridged: names, or patterns of them
    tenant: Name = "default"  # whose topics they are
    lease_seconds: Annotated[float, Meta(ge=0.5, le=3600)] = 5.0  # a killed bridge is replaced after so long


class TenantQuota(_Section, frozen=True):
    """What one tenant may use; what is left open, it may use as others do."""

    events_per_second: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    subscriptions_max: Count | None = None
    connections_max: Count | None = None
    kept_bytes_max: Bytes | None = None  # of events that have not expired


class Topic(Offered, frozen=True, forbid_unknown_fields=True, omit_defaults=False):
    """A topic that exists from the start."""

    matching: Matching = "edge"
    tenant: Name = "default"
    schema: str | None = None  # of the events, where Spark matches them: 'road STRING, speed DOUBLE'
    kafka: KafkaLinks = ()  # what feeds the topic, and what it feeds

    @property
    def offered(self) -> Offered:
        """What it promises."""
        return Offered(**{name: getattr(self, name) for name in Offered.__struct_fields__})


class Settings(_Section, frozen=True):
    """All of it."""

    server: Server = Server()
    limits: Limits = Limits()
    log: Log = Log()
    audit: AuditSettings = AuditSettings()
    webhooks: Webhooks = Webhooks()
    spark: Spark = Spark()
    broker: BrokerSettings = BrokerSettings()
    placement: PlacementSettings = PlacementSettings()
    telemetry: Telemetry = Telemetry()
    dds: Dds = Dds()
    peers: PeerSettings = PeerSettings()
    topics: dict[str, Topic] = {}
    quotas: dict[str, TenantQuota] = {}  # by tenant, where `*` stands for all that are not named

    @property
    def audit_path(self) -> Path:
        """The file of the audit log."""
        return Path(self.server.data) / "audit.jsonl" if self.audit.path is None else Path(self.audit.path)

    @property
    def edge(self) -> EdgeOptions:
        """What concerns the broker."""
        fields = EdgeOptions.__dataclass_fields__
        limits = {name: value for name, value in msgspec.structs.asdict(self.limits).items() if name in fields}
        webhooks = {f"webhook_{name}": value for name, value in msgspec.structs.asdict(self.webhooks).items()}
        return EdgeOptions(
            **limits,
            **{name: value for name, value in webhooks.items() if name in fields},
            audits=self.audit.enabled,
            has_pipeline=self.spark.enabled,
            has_traces=self.telemetry.endpoint is not None,
            quotas={name: Quota(**msgspec.structs.asdict(quota)) for name, quota in self.quotas.items()},
        )


_Tables: TypeAlias = dict[str, dict[str, Given]]  # by section and key; that of a topic is "topics.NAME"
_NAMED_SECTIONS: Mapping[str, type[msgspec.Struct]] = {"topics": Topic, "quotas": TenantQuota}
_SECTIONS: Mapping[str, type[msgspec.Struct]] = {
    "server": Server,
    "limits": Limits,
    "log": Log,
    "audit": AuditSettings,
    "webhooks": Webhooks,
    "spark": Spark,
    "broker": BrokerSettings,
    "placement": PlacementSettings,
    "telemetry": Telemetry,
    "dds": Dds,
    "peers": PeerSettings,
}


def load(
    file: Path | None, environment: Mapping[str, str], arguments: Mapping[str, Mapping[str, Any]] | None = None
) -> Settings:
    """The settings in force: those of the file, else of ./fieldfare.toml if there is one, and what wins over them."""
    if file is None and DEFAULT_FILE.exists():
        file = DEFAULT_FILE
    given: _Tables = {}
    for source in (_in_file(file) if file else {}, _in_environment(environment), _in_arguments(arguments or {})):
        for section, table in source.items():
            given.setdefault(section, {}).update(table)
    problems: list[str] = []
    sections: dict[str, Any] = {}
    for section, table in given.items():
        kind, _, name = section.partition(".")
        if name:
            sections.setdefault(kind, {})[name] = filled(_NAMED_SECTIONS[kind], table, problems, _why)
        else:
            sections[kind] = filled(_SECTIONS[kind], table, problems, _why)
    if problems:
        raise ConfigError(*problems)
    return Settings(**sections)


def _in_file(file: Path) -> _Tables:
    """What a file says. Its relative paths are relative to its folder, wherever the service is started."""
    document = read_toml(file)
    _check_tables(document, file)
    document.setdefault("server", {}).setdefault("data", Server().data)
    document["topics"] = {name: with_paths(table, file.parent) for name, table in document.get("topics", {}).items()}
    for section, keys in _PATHS.items():
        table = document.get(section, {})
        table.update({key: str(file.parent / table[key]) for key in keys if isinstance(table.get(key), str)})
    named = {f"{kind}.{name}": table for kind in _NAMED_SECTIONS for name, table in document.pop(kind, {}).items()}
    return {
        section: {key: Given(f"{file}: {section}.{key}", value) for key, value in table.items()}
        for section, table in (document | named).items()
    }


def is_name(text: str) -> bool:
    """Whether a topic, a subscription or a tenant can have this name."""
    try:
        msgspec.convert(text, Name)
    except msgspec.ValidationError:
        return False
    return True


def _check_tables(document: Mapping[str, Any], file: Path) -> None:
    """Raise if the sections of a file are not those there can be; what they hold is not looked at."""
    known = (*_SECTIONS, *_NAMED_SECTIONS)
    problems = [f"{file}: there is no section [{name}]; {one_of(known)}" for name in document if name not in known]
    tables = {name: table for name, table in document.items() if name in known}
    for kind in _NAMED_SECTIONS:
        if isinstance(named := tables.get(kind), dict):
            tables |= {f"{kind}.{name}": table for name, table in named.items()}
            problems += [
                f"{file}: {kind}.{name}: {NAME_RULE}"
                for name in named
                if not is_name(name) and (kind, name) != ("quotas", EVERY_TENANT)
            ]
    problems += [
        f"{file}: {name}: this is a section, [{name}], and not a value"
        for name, table in tables.items()
        if not isinstance(table, dict)
    ]
    if problems:
        raise ConfigError(*problems)


def _in_environment(environment: Mapping[str, str]) -> _Tables:
    tables: _Tables = {section: {} for section in _SECTIONS}
    for variable, text in environment.items():
        for section, table in tables.items():
            prefix = f"FIELDFARE_{section.upper()}_"
            if variable.startswith(prefix):
                table[variable.removeprefix(prefix).lower()] = Given(variable, text, is_text=True)
    return tables


def _in_arguments(arguments: Mapping[str, Mapping[str, Any]]) -> _Tables:
    return {
        section: {key: Given(f"--{key.replace('_', '-')}", value) for key, value in table.items() if value is not None}
        for section, table in arguments.items()
    }


def _why(error: msgspec.ValidationError) -> str:
    return in_words(error).replace(f"Expected `str` matching regex {ADDRESS_PATTERN!r}", ADDRESS_RULE)
