"""Files that describe a whole tree: what a broker finds in one, and what is refused."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fieldfare.cli import app
from fieldfare.errors import ConfigError, TopologyError
from fieldfare.routing.tree.neighbours import Neighbour
from fieldfare.routing.tree.topology_file import read_topology
from fieldfare.runtime.broker_config import BrokerSettings
from fieldfare.runtime.broker_startup import check_broker
from fieldfare.runtime.tree_startup import settings_in_topology, tree_options

EXAMPLE = """
links = [["b1", "b2"], ["b2", "b3"], ["b4", "b2"]]
bridge_after_seconds = 3

[brokers.b1]
address = "127.0.0.1:1"

[brokers.b2]
address = "127.0.0.1:2"
listen = "127.0.0.1:22"
http = "127.0.0.1:80"
url = "https://b2.example.org"
data = "b2-data"
may_be_bridged = true

[brokers.b3]
address = "127.0.0.1:3"

[brokers.b4]
address = "127.0.0.1:4"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tree.toml"
    path.write_text(EXAMPLE)
    return path


def test_each_broker_finds_its_neighbours(file: Path) -> None:
    topology = read_topology(file)
    assert topology.neighbours_of("b1") == (Neighbour("b2", ""),)  # which dials it
    assert topology.neighbours_of("b2") == (
        Neighbour("b1", "127.0.0.1:1"),
        Neighbour("b3", ""),
        Neighbour("b4", ""),
    )
    assert topology.neighbours_of("b3") == (Neighbour("b2", "127.0.0.1:2", {"b1": "127.0.0.1:1"}),)
    (neighbour,) = topology.neighbours_of("b4")
    assert list(neighbour.bridges.items()) == [("b1", "127.0.0.1:1"), ("b3", "127.0.0.1:3")]
    options = tree_options(BrokerSettings(name="b4", role="tree", topology=str(file)))
    assert (options.neighbours, options.bridge_seconds) == ((neighbour,), 3.0)


def test_a_broker_finds_its_own_settings(file: Path) -> None:
    assert settings_in_topology(BrokerSettings(name="b2", role="tree", topology=str(file))) == {
        "server": {
            "host": "127.0.0.1",
            "port": 80,
            "url": "https://b2.example.org",
            "data": str(file.parent / "b2-data"),
        },
        "broker": {"listen": "127.0.0.1:22", "advertise": "127.0.0.1:2"},
    }
    assert settings_in_topology(BrokerSettings(name="b1", topology=str(file)))["broker"]["listen"] == "127.0.0.1:1"
    assert settings_in_topology(BrokerSettings()) == {}
    with pytest.raises(TopologyError, match="there is no broker 'b9'; there are b1, b2, b3, b4"):
        settings_in_topology(BrokerSettings(name="b9", topology=str(file)))
    with pytest.raises(ConfigError, match="say which one this is"):
        settings_in_topology(BrokerSettings(topology=str(file)))


def test_what_does_not_fit_beside_it(file: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret of all brokers\n")
    given: dict[str, Any] = {"name": "b2", "topology": str(file), "secret_file": str(secret), "listen": "127.0.0.1:2"}
    check_broker(BrokerSettings(role="tree", **given))
    with pytest.raises(ConfigError, match="set one of them, and not both"):
        check_broker(BrokerSettings(role="tree", neighbours=("127.0.0.1:3",), **given))
    with pytest.raises(ConfigError, match=r"broker.topology: this is for brokers of a tree"):
        check_broker(BrokerSettings(role="edge", **given))
    file.write_text(EXAMPLE.replace("127.0.0.1:1", "10.0.0.1:1"))
    with pytest.raises(ConfigError, match=r"broker.neighbours: 10.0.0.1 is not on this machine"):
        check_broker(BrokerSettings(role="tree", **given))


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ('["b2", "b3"]', '["b2", "b5"]', "links: there is no broker 'b5'; there are b1, b2, b3, b4"),
        ('["b2", "b3"]', '["b2", "b2"]', "links: b2 is linked with itself"),
        ('["b2", "b3"]', '["b2", "b3"], ["b3", "b2"]', "links: b3 and b2 are linked twice"),
        ('["b2", "b3"]', '["b2", "b3"], ["b3", "b1"]', r"links: b1 - b2 - b3 - b1 is a ring"),
        (', ["b2", "b3"]', "", "links: b3 cannot be reached from b1"),
        ("[[", "[[[", "not TOML"),
        ('"127.0.0.1:3"', '"127.0.0.1:1"', r"brokers.b3.address: b1 has the same"),
        ('"127.0.0.1:3"', '"elsewhere"', r"brokers.b3.address: 'elsewhere' is no address, which is host:port"),
        ('"127.0.0.1:3"', '"127.0.0.1:0"', r"brokers.b3.address: '127.0.0.1:0' is no address"),
        ("[brokers.b3]", "[brokers.b2]", "not TOML: Cannot declare"),
        ("may_be_bridged = true", "may_be_bridged = 1", "Expected `bool`"),
        ("may_be_bridged = true", "bridged = true", "unknown field `bridged`"),
        ("bridge_after_seconds = 3", "bridge_after_seconds = 0", "Expected `float` > 0"),
    ],
)
def test_what_is_wrong_with_a_file(file: Path, before: str, after: str, problem: str) -> None:
    assert before in EXAMPLE
    file.write_text(EXAMPLE.replace(before, after, 1))
    with pytest.raises(TopologyError, match=problem):
        read_topology(file)
    ended = CliRunner().invoke(app, ["config", "topology", str(file)])
    assert ended.exit_code == 1
    assert ended.output.startswith(f"Error: {file}: ")


def test_a_file_that_is_right_is_shown(file: Path) -> None:
    ended = CliRunner().invoke(app, ["config", "topology", str(file)])
    assert (ended.exit_code, ended.output.splitlines()[1]) == (
        0,
        "b2 at 127.0.0.1:2: linked with b1, b3, b4, bridged over after 3 s",
    )


@pytest.mark.parametrize("seed", range(20))
def test_random_trees_are_taken_and_one_more_link_is_a_ring(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    names = [f"n{number}" for number in range(rng.randint(3, 40))]
    links = {(names[at], names[rng.randrange(at)]) for at in range(1, len(names))}
    more = rng.choice([(a, b) for a in names for b in names if a < b and not {(a, b), (b, a)} & links])
    file = tmp_path / "tree.toml"

    def write(links: set[tuple[str, str]]) -> None:
        brokers = "".join(f'[brokers.{name}]\naddress = "h:{at + 1}"\n' for at, name in enumerate(names))
        file.write_text(f"links = {[list(link) for link in rng.sample(sorted(links), len(links))]}\n{brokers}")

    write(links)
    read_topology(file)
    write(links | {more})
    with pytest.raises(TopologyError, match="is a ring") as error:
        read_topology(file)
    (problem,) = error.value.problems
    ring = problem.partition("links: ")[2].partition(" is a ring")[0].split(" - ")
    assert ring[0] == ring[-1]
    assert len(set(ring)) == len(ring) - 1 >= 3
    linked = {frozenset(link) for link in links | {more}}
    assert all({one, other} in linked for one, other in pairwise(ring))
    write(links - {rng.choice(sorted(links))})
    with pytest.raises(TopologyError, match="cannot be reached"):
        read_topology(file)
