"""What can be known to be wrong before a service listens. `fieldfare serve` and `fieldfare config check` both ask here.

So settings that pass the check are settings with which the service starts, unless another program has its port or its
data folder at that moment.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from sqlglot import parse_one
from sqlglot.errors import SqlglotError
from sqlglot.expressions import ColumnDef

from fieldfare.errors import ConfigError, PortTakenError, ServiceError
from fieldfare.runtime.addresses import Addresses
from fieldfare.runtime.config import Settings
from fieldfare.runtime.exposure import check_certificate, check_data_folder, is_development
from fieldfare.runtime.kafka.options import InflowOptions, OutflowOptions
from fieldfare.runtime.kafka_config import has_client, kafka_options
from fieldfare.runtime.listening import bound
from fieldfare.runtime.peer_config import PeerSettings
from fieldfare.runtime.tokens import TokenFile
from fieldfare.runtime.webhook_secrets import signing_key

_BAD_SECRET = "what follows whsec_ must be base64, as in Standard Webhooks"  # noqa: S105 - not one


def check_startup(settings: Settings) -> None:
    """Raise a ConfigError with everything that is wrong; return if a service can start with these settings."""
    problems: list[str] = []
    for check in (_check_server, _check_address, _check_webhooks, _check_spark, _check_dds, _check_kafka, _check_peers):
        try:
            check(settings)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(*problems)


def is_open(settings: Settings) -> bool:
    """Whether the service lets everybody in: on this machine alone, and without tokens."""
    return is_development(settings.server, has_tokens=bool(TokenFile(Path(settings.server.data)).tokens()))


def _check_server(settings: Settings) -> None:
    problems: list[str] = []
    try:
        check_certificate(settings.server)
    except ConfigError as error:
        problems += error.problems
    try:
        check_data_folder(settings.server)
        is_open(settings)  # the tokens are in the data folder
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(*problems)


def _check_address(settings: Settings) -> None:
    try:
        bound(settings.server).close()
    except PortTakenError:
        return  # by this very service, perhaps, whose next settings these are
    except ServiceError as error:
        raise ConfigError(str(error)) from error


def _check_webhooks(settings: Settings) -> None:
    Addresses(settings.webhooks.allow)
    named = {"secret": settings.webhooks.secret} | {
        f"secrets.{tenant}": secret for tenant, secret in settings.webhooks.secrets.items()
    }
    problems = []
    for name, secret in named.items():
        try:
            signing_key(secret)
        except ValueError:
            problems.append(f"webhooks.{name}: {_BAD_SECRET}")
    if problems:
        raise ConfigError(*problems)


def _check_spark(settings: Settings) -> None:
    problems = list(_topic_problems(settings))
    if settings.spark.enabled and importlib.util.find_spec("pyspark") is None:
        problems.append("spark.enabled: the Spark pipeline needs PySpark: pip install 'fieldfare[spark]'")
    if problems:
        raise ConfigError(*problems)


def _check_dds(settings: Settings) -> None:
    if settings.dds.domain is not None and importlib.util.find_spec("cyclonedds") is None:
        raise ConfigError("dds.domain: the bridge needs Cyclone DDS: pip install 'fieldfare[dds]'")


def _check_kafka(settings: Settings) -> None:
    if not any(topic.kafka for topic in settings.topics.values()):
        return
    problems = [] if has_client() else ["topics: a link to Kafka needs its client: pip install 'fieldfare[kafka]'"]
    kafka_links(settings, problems)
    if problems:
        raise ConfigError(*problems)


def kafka_links(settings: Settings, problems: list[str]) -> list[InflowOptions | OutflowOptions]:
    """The links to Kafka of all topics; what is wrong with them goes to the problems."""
    links: list[InflowOptions | OutflowOptions] = []
    for name, topic in settings.topics.items():
        links += kafka_options(topic.tenant, name, topic.kafka, problems, is_kept=topic.offered.is_kept)
    names = Counter((link.tenant, link.subscription) for link in links if isinstance(link, OutflowOptions))
    names.update((link.tenant, f"{link.topic} from {link.source}") for link in links if isinstance(link, InflowOptions))
    problems += [f"topics: the link {name} to Kafka is there twice" for (_, name), count in names.items() if count > 1]
    return links


def _check_peers(settings: Settings) -> None:
    if settings.peers.listen is None and settings.peers != PeerSettings():
        raise ConfigError("peers.listen: a bridge to peers needs an address for them, such as 192.0.2.7:7400")
    if settings.peers.listen is not None and not settings.peers.topics:
        raise ConfigError("peers.topics: a bridge to peers carries topics by their names: name one at least")


def _topic_problems(settings: Settings) -> Iterator[str]:
    for name, topic in settings.topics.items():
        if topic.matching == "spark" and not settings.spark.enabled:
            yield (
                f'topics.{name}.matching: "spark" needs the pipeline: set spark.enabled = true, which is also --spark '
                "and FIELDFARE_SPARK_ENABLED=true"
            )
        if topic.schema is not None and not is_schema(topic.schema):
            yield f"topics.{name}.schema: {topic.schema!r} is no list of columns, such as 'road STRING, speed DOUBLE'"
    if len(settings.topics) > settings.limits.topics_max:
        yield f"limits.topics_max: there are {len(settings.topics):,} topics in the settings alone"


def is_schema(text: str) -> bool:
    """Whether a text lists columns and their types as Spark's SQL does, as far as one can tell without Spark."""
    try:
        columns = parse_one(f"CREATE TABLE events ({text})", read="spark").this.expressions
    except SqlglotError:
        return False
    has_colons = ":" in text  # 'road: STRING', which Spark takes too, and which this parser does not look into
    return bool(columns) and all(isinstance(column, ColumnDef) or has_colons for column in columns)
