"""What a pipeline is told, in words: by the options of a command, or by a section of a TOML file.

A file has a section `[pipelines.NAME]` for each pipeline, with the options of `fieldfare pipeline run` as its keys, and
perhaps `[defaults]` for what all of them share.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from fieldfare.errors import ConfigError, InputError
from fieldfare.files.sections import Given, filled, one_of, read_toml
from fieldfare.forwarding import Policy
from fieldfare.kafka.address import KafkaTopic, is_kafka, read_settings
from fieldfare.kafka.schema_registry import SchemaRegistry
from fieldfare.pipeline.backlog import Backlog, folder_backlog, topic_backlog
from fieldfare.pipeline.bucket.address import Bucket, is_bucket, is_url
from fieldfare.pipeline.kafka.sink import KafkaSink
from fieldfare.pipeline.output import WriteOptions
from fieldfare.pipeline.output_places import OutputPlace
from fieldfare.pipeline.run import AUTO, PipelineOptions
from fieldfare.pipeline.source import FolderSource, event_folder
from fieldfare.pipeline.sources import EventSource
from fieldfare.pipeline.tables.address import COMMIT_SECONDS, DELTA, ICEBERG, is_table, parse_table
from fieldfare.store.base import Scope

DEFAULT_STORE = "fieldfare.db"
DEFAULTS, PIPELINES = "defaults", "pipelines"
NAME_RULE = "a pipeline's name has letters, digits and . _ - only, at most 64, and begins with a letter or a digit"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NEEDED = ("events", "output", "checkpoint")

Text: TypeAlias = Annotated[str, Meta(min_length=1)]
Count: TypeAlias = Annotated[int, Meta(ge=1)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0)]


class PipelineSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One pipeline. `fieldfare pipeline run --help` says what each setting is."""

    events: Text = ""
    output: Text = ""
    checkpoint: Text = ""
    store: Text = DEFAULT_STORE
    tenant: Text | None = None
    topic: Text | None = None
    layout: Text = AUTO
    policy: Text = Policy.ADAPTIVE
    matchers: Count | Literal["auto"] = "auto"
    dimensions: tuple[Text, ...] = ()
    replicas: Count = 1
    hops: Count = 1
    format: Text | None = None
    schema: Text | None = None
    starting: Text = "earliest"
    events_config: Text | None = None
    output_config: Text | None = None
    commit_seconds: Seconds = COMMIT_SECONDS
    output_key: Text | None = None
    events_per_batch: Count = 500_000
    interval: Seconds = 0.5
    explode: bool = False
    only_matched: bool = False

    @property
    def state(self) -> Path:
        """The checkpoint's folder."""
        return Path(self.checkpoint)

    def options(self, *, until_idle: bool = False) -> PipelineOptions:
        """What the pipeline is run with."""
        return PipelineOptions(
            store=self.store,
            output=self._output(),
            checkpoint=self.state,
            scope=Scope(self.tenant, self.topic),
            layout=self.layout,
            policy=self.policy,
            matchers=None if self.matchers == "auto" else self.matchers,
            dimensions=self.dimensions,
            replicas=self.replicas,
            hops=self.hops,
            interval_seconds=self.interval,
            write=WriteOptions(explode=self.explode, only_matched=self.only_matched),
            until_idle=until_idle,
        )

    def source(self) -> EventSource:
        """Where events come from: a folder, or a Kafka topic."""
        if not is_kafka(self.events):
            return FolderSource(
                _folder(self.events, self.events_config),
                self._ledger,
                self.format,
                self.schema,
                events_per_batch_max=self.events_per_batch,
            )
        from fieldfare.pipeline.kafka.source import KafkaSource

        registry, settings = SchemaRegistry.taken_from(_settings_of(self.events_config))
        return KafkaSource(
            KafkaTopic.parse(self.events, settings),
            self._ledger,
            self.schema,
            self.starting,
            self.format or ("json" if registry is None else "avro"),
            registry,
            events_per_batch_max=self.events_per_batch,
        )

    def backlog(self) -> Backlog:
        """What waits for the pipeline."""
        if is_kafka(self.events):
            _, settings = SchemaRegistry.taken_from(_settings_of(self.events_config))
            return topic_backlog(KafkaTopic.parse(self.events, settings), self.state)
        folder = event_folder(_folder(self.events, self.events_config))
        return folder_backlog(folder, self.state, self._ledger, time.time())

    @property
    def _ledger(self) -> Path:
        return self.state / "fieldfare" / "ledger"

    def _output(self) -> OutputPlace:
        settings = _settings_of(self.output_config)
        if is_kafka(self.output):
            return KafkaSink(KafkaTopic.parse(self.output, settings), self.output_key)
        if is_table(self.output):
            return parse_table(self.output, settings, self.commit_seconds)
        return _folder(self.output, self.output_config)


def _folder(place: str, config: str | None) -> Path | Bucket:
    """A folder of this machine, or of an object store."""
    if is_bucket(place):
        return Bucket(place, _settings_of(config))
    if is_url(place):
        scheme = place.partition("://")[0]
        raise InputError(f"{scheme}://…: not known; a place is a folder, or begins with s3, gs, abfss or kafka")
    return Path(place)


def _settings_of(file: str | None) -> dict[str, str]:
    return read_settings(Path(file)) if file else {}


def read_pipelines(file: Path, store: str | None = None) -> dict[str, PipelineSettings]:
    """The pipelines of a file, by name. `store` is that of pipelines for which the file names none."""
    document = read_toml(file)
    problems = [
        f"{file}: there is no section [{name}]; {one_of((DEFAULTS, f'{PIPELINES}.NAME'))}"
        for name in document
        if name not in {DEFAULTS, PIPELINES}
    ]
    defaults = _table(document.get(DEFAULTS, {}), f"{file}: {DEFAULTS}", problems)
    shared = {"store": Given("--store", store)} if store else {}
    shared |= _given(defaults, file, DEFAULTS)
    found = {}
    for name, value in _table(document.get(PIPELINES, {}), f"{file}: {PIPELINES}", problems).items():
        where = f"{file}: {PIPELINES}.{name}"
        if not _NAME.fullmatch(name):
            problems.append(f"{where}: {NAME_RULE}")
        table = shared | _given(_table(value, where, problems), file, f"{PIPELINES}.{name}")
        problems += [f"{where}: {key} is missing" for key in _NEEDED if key not in table]
        found[name] = filled(PipelineSettings, table, problems)
    if not found and not problems:
        problems.append(f"{file}: there is no pipeline in it: a section [{PIPELINES}.NAME] is one")
    problems += _shared_places(file, found)
    if problems:
        raise ConfigError(*dict.fromkeys(problems))
    return found


def _table(value: Any, where: str, problems: list[str]) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    problems.append(f"{where}: this is a section, and not a value")
    return {}


def _given(table: Mapping[str, Any], file: Path, section: str) -> dict[str, Given]:
    """Settings as a file has them; relative paths are relative to its folder, wherever the command is started."""
    return {
        key: Given(f"{file}: {section}.{key}", _beside(file, value) if key in _PLACES else value)
        for key, value in table.items()
    }


_PLACES = {"events", "output", "checkpoint", "store", "events_config", "output_config"}


def _beside(file: Path, place: Any) -> Any:
    if not isinstance(place, str) or not place or "://" in place:
        return place
    for kind in (DELTA, ICEBERG):
        if place.startswith(kind):
            path = place.removeprefix(kind)
            in_own_catalog = kind == ICEBERG and "/" not in path
            return place if in_own_catalog or not path else f"{kind}{file.parent / path}"
    return str(file.parent / place)


def _shared_places(file: Path, found: Mapping[str, PipelineSettings]) -> Iterator[str]:
    """What two pipelines both write to, in words."""
    for key in ("checkpoint", "output"):
        first: dict[str, str] = {}
        for name, settings in found.items():
            place = getattr(settings, key)
            if place and (other := first.setdefault(_canonical(place), name)) != name:
                yield f"{file}: {PIPELINES}.{name}.{key}: {PIPELINES}.{other} has it too; each needs its own"


def _canonical(place: str) -> str:
    """The same text for every way to write a place."""
    if "://" in place:
        return place.rstrip("/")
    kind = next((kind for kind in (DELTA, ICEBERG) if place.startswith(kind)), "")
    path = place.removeprefix(kind)
    return place if kind == ICEBERG and "/" not in path else f"{kind}{os.path.abspath(path)}"  # noqa: PTH100 - links stay
