"""The settings of a planned way, as the files that its commands read.

Addresses are of this machine and stand in one place each, so that a person can set those of other nodes.
"""

from __future__ import annotations

import json
import re

from fieldfare.planning.application import Application, Durability
from fieldfare.planning.choosing import Plan
from fieldfare.planning.ways import Way, WayKind

_ROOM = 2  # limits are set to so many times what is expected
_LINK_PORT, _HTTP_PORT = 7500, 7380
_COMMANDS = "commands.txt"


def settings_files(plan: Plan) -> dict[str, str]:
    """Contents by file name; `commands.txt` says what to run where."""
    application, way = plan.application, plan.recommended.way
    topic = topic_of(application)
    if way.kind is WayKind.PROCESS:
        return {_COMMANDS: f"# in the program that has the events; nothing is to be set\n{_LIBRARY}"}
    if way.kind is WayKind.PEERS:
        return {_COMMANDS: _peers(way)}
    if way.kind is WayKind.TREE:
        return {
            "tree.toml": _topology(way.nodes),
            "fieldfare.toml": _settings(application, topic),
            _COMMANDS: "".join(
                f"fieldfare broker --role tree --name b{number} --topology tree.toml --config fieldfare.toml\n"
                for number in range(1, way.nodes + 1)
            ),
        }
    files = {"fieldfare.toml": _settings(application, topic, has_spark=way.kind.is_spark)}
    if way.kind is WayKind.STAR:
        return files | {_COMMANDS: _star(way)}
    if way.kind is WayKind.EDGE:
        return files | {_COMMANDS: "fieldfare serve --config fieldfare.toml\n"}
    return files | {"pipelines.toml": _pipelines(way), _COMMANDS: _SPARK_COMMANDS}


def topic_of(application: Application) -> str:
    """The application's name as one of a topic."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", application.name).strip("-") or "events"


def _settings(application: Application, topic: str, *, has_spark: bool = False) -> str:
    is_kept = application.durability is Durability.DISK
    lines = [
        "[server]",
        f"port = {_HTTP_PORT}",
        "",
        "[limits]",
        f"connections_max = {_bounded(application.open_connections * _ROOM, 10_000)}",
        f"subscriptions_max = {_bounded(application.subscriptions * _ROOM, 1_000_000)}",
        f"subscriptions_per_connection_max = {_bounded(_per_connection(application) * _ROOM, 10_000)}",
        f"publishers_max = {_bounded(application.publishers * _ROOM, 100_000)}",
        "",
        f"[topics.{topic}]",
        f'reliability = "{"reliable" if is_kept else "best_effort"}"',
        f'durability = "{"transient" if is_kept else "volatile"}"',
    ]
    if has_spark:
        lines += ['matching = "spark"', "# schema = 'road STRING, speed DOUBLE'  # of your events, as in SQL", ""]
        lines += ["[spark]", "enabled = true", "runs_pipelines = true"]
    return "\n".join(lines) + "\n"


def _per_connection(application: Application) -> int:
    return -(-application.subscriptions // application.open_connections)


def _bounded(wanted: int, least: int) -> int:
    return min(max(wanted, least), 1_000_000_000)


def _star(way: Way) -> str:
    edges = "".join(
        f"fieldfare broker --role edge --config fieldfare.toml --name edge-{number} --network n{number} "
        f"--data edge-{number} --port {_HTTP_PORT + number - 1} --zookeeper ZOOKEEPER\n"
        for number in range(1, way.nodes + 1)
    )
    return f"# ZOOKEEPER is the address that the first command prints\nfieldfare broker --role routing\n{edges}"


def _topology(brokers: int) -> str:
    """A balanced tree with two branches at each broker."""
    sections = [
        f'[brokers.b{number}]\naddress = "127.0.0.1:{_LINK_PORT + number}"\n'
        f'http = "127.0.0.1:{_HTTP_PORT + number - 1}"\ndata = "b{number}"\n'
        for number in range(1, brokers + 1)
    ]
    links = ", ".join(f'["b{number // 2}", "b{number}"]' for number in range(2, brokers + 1))
    return f"links = [{links}]\n\n" + "\n".join(sections)


def _pipelines(way: Way) -> str:
    values: dict[str, str | int] = {
        "events": "in",
        "output": "out",
        "checkpoint": "state",
        "store": "fieldfare.db",
        "layout": str(way.kind),
        "matchers": way.nodes,
    }
    if way.kind is WayKind.CLUSTERS:
        values |= {"replicas": way.replicas, "hops": way.hops}
    written = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
    advice = '# matchers = "auto" has the pipeline measure, and take as many as the load needs\n'
    return f"[pipelines.planned]\n{written}{advice}"


def _peers(way: Way) -> str:
    first = f"127.0.0.1:{_LINK_PORT}"
    others = "".join(
        f"fieldfare peer --listen 127.0.0.1:{_LINK_PORT + number} --join {first}\n" for number in range(1, way.nodes)
    )
    return f"fieldfare peer --listen {first}\n{others}"


_LIBRARY = 'import fieldfare\n\nindex = fieldfare.Index({"id": "condition"})\nindex.match_rows([{"attribute": 1}])\n'
_SPARK_COMMANDS = (
    "# with clients: a service whose topic Spark matches\nfieldfare serve --config fieldfare.toml\n"
    "# without: a pipeline from a folder to a folder\nfieldfare pipeline run --config pipelines.toml\n"
)
