"""The section [broker], and what keeps a broker from joining others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from fieldfare.cli import app
from fieldfare.errors import ConfigError
from fieldfare.experiments.certificates import Authority
from fieldfare.runtime.broker_config import BrokerSettings
from fieldfare.runtime.broker_startup import check_broker, link_security, zookeeper_credentials
from fieldfare.runtime.config import load
from fieldfare.runtime.link_security import LinkSecurity, TlsFiles

EXAMPLE = """
[broker]
name = "edge-1"
role = "edge"
network = "berlin"
listen = "0.0.0.0:7381"
advertise = "edge-1.example.org:7381"
tls_ca = "ca.crt"
tls_certificate = "/etc/fieldfare/edge-1.crt"
tls_key = "keys/edge-1.key"
zookeeper = ["zk-1.example.org:2181", "[2001:db8::1]:2181"]
zookeeper_acl_file = "zookeeper.acl"
"""


@pytest.fixture
def secret_file(tmp_path: Path) -> str:
    file = tmp_path / "secret"
    file.write_text("a secret of all brokers\n")
    return str(file)


def wrong(broker: BrokerSettings, **changes: Any) -> list[str]:
    try:
        check_broker(msgspec.structs.replace(broker, **changes))
    except ConfigError as error:
        return list(error.problems)
    return []


def test_a_file_and_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "fieldfare.toml"
    file.write_text(EXAMPLE)
    broker = load(file, {"FIELDFARE_BROKER_NETWORK": "paris", "FIELDFARE_BROKER_ZOOKEEPER": "a:1, b:2"}).broker
    assert (broker.name, broker.network, broker.zookeeper) == ("edge-1", "paris", ("a:1", "b:2"))
    assert broker.tls_ca == str(tmp_path / "ca.crt")  # relative to the file
    assert broker.tls_certificate == "/etc/fieldfare/edge-1.crt"
    assert broker.tls_key == str(tmp_path / "keys/edge-1.key")
    assert broker.zookeeper_acl_file == str(tmp_path / "zookeeper.acl")
    assert load(file, {}, {"broker": {"role": "routing", "name": None}}).broker.role == "routing"


def test_settings_are_printed_so_that_they_can_be_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file, copy = tmp_path / "fieldfare.toml", tmp_path / "copy.toml"
    file.write_text(EXAMPLE)
    ended = CliRunner().invoke(app, ["config", "check", str(file)])
    assert ended.exit_code == 0, ended.output
    copy.write_text(ended.stdout)
    assert load(copy, {}) == load(file, {})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name = 'a b'", "broker.name: a name has letters"),
        ("role = 'star'", "broker.role: allowed: edge, routing, tree"),
        ("listen = 'here'", "broker.listen: an address is host:port, such as"),
        ("listen = '10.0.0.1:65536'", "broker.listen: an address is host:port, such as"),
        ("zookeeper = ['a:1', 'b']", r"broker.zookeeper: an address is host:port, such as .* - at `\$\[1\]`"),
        ("zookeeper_chroot = 'fieldfare'", "broker.zookeeper_chroot: Expected `str` matching"),
        ("secret = 'canary'", "broker.secret: there is no such setting; allowed: name, role"),
    ],
)
def test_what_is_no_setting(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "fieldfare.toml"
    file.write_text(f"[broker]\n{text}\n")
    with pytest.raises(ConfigError, match=problem):
        load(file, {})


def test_a_broker_on_this_machine(secret_file: str) -> None:
    broker = BrokerSettings(name="r1", role="routing", listen="127.0.0.1:0", secret_file=secret_file)
    assert wrong(broker) == []
    assert link_security(broker) == LinkSecurity(b"a secret of all brokers")
    assert wrong(broker, role="edge", listen=None) == []


def test_a_broker_among_machines(tmp_path: Path) -> None:
    files = Authority(tmp_path).files_for("r1")
    broker = BrokerSettings(
        name="r1",
        role="routing",
        listen="0.0.0.0:7381",
        advertise="10.0.0.7:7381",
        tls_ca=str(files.authority),
        tls_certificate=str(files.certificate),
        tls_key=str(files.key),
        zookeeper=("10.0.0.1:2181",),
    )
    assert wrong(broker) == []
    assert link_security(broker) == LinkSecurity(tls=TlsFiles(files.authority, files.certificate, files.key))
    assert "is the certificate of 'r1', and this broker is 'r2'" in wrong(broker, name="r2")[0]


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        ({"name": None}, ["broker.name: every broker needs a name"]),
        ({"listen": None}, ["broker.listen: a routing broker needs an address"]),
        (
            {"listen": None, "role": "edge", "advertise": "a:1"},
            ["broker.advertise: nobody", "broker.advertise: a is not"],
        ),
        (
            {"listen": "0.0.0.0:1"},
            ["broker.listen: nobody can dial 0.0.0.0:1: set broker.advertise", "broker.listen: 0"],
        ),
        (
            {"listen": "[::]:1", "advertise": "[::1]:0"},
            ["broker.advertise: nobody can dial [::1]:0", "broker.listen: ::"],
        ),
        ({"listen": "10.0.0.7:1"}, ["broker.listen: 10.0.0.7 is not on this machine, and a secret alone"]),
        ({"secret_file": None}, ["brokers need a secret or certificates"]),
        ({"secret_file": "none"}, ["broker.secret_file: none cannot be read"]),
        ({"tls_ca": "ca.crt"}, ["broker: tls_ca, tls_certificate and tls_key go together"]),
        ({"tls_ca": "a", "tls_certificate": "b", "tls_key": "c"}, ["broker.tls_ca: there is no file a"]),
        ({"zookeeper": ("a:1",), "gossip_listen": "127.0.0.1:0"}, ["broker: brokers find each other by ZooKeeper or"]),
        ({"gossip_seeds": ("127.0.0.1:5",)}, ["broker.gossip_seeds: gossip comes back to an address"]),
        ({"zookeeper": ("a:0",)}, ["broker.zookeeper: a:0 has no port"]),
        ({"zookeeper_acl_file": "none"}, ["broker.zookeeper_acl_file: none cannot be read"]),
        ({"name": None, "listen": None}, ["broker.name", "broker.listen"]),
        ({"neighbours": ("127.0.0.1:7",)}, ["broker.neighbours: this is for brokers of a tree"]),
    ],
)
def test_what_does_not_fit_together(secret_file: str, changes: dict[str, Any], problems: list[str]) -> None:
    broker = BrokerSettings(name="r1", role="routing", listen="127.0.0.1:0", secret_file=secret_file)
    found = wrong(broker, **changes)
    assert [problem[: len(begin)] for problem, begin in zip(found, problems, strict=True)] == problems


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        ({}, []),
        ({"neighbours": ()}, []),
        ({"listen": None}, []),
        ({"listen": None, "neighbours": ()}, ["broker.neighbours: this broker dials nobody, and nobody can dial it"]),
        ({"zookeeper": ("a:1",)}, ["broker.zookeeper: brokers of a tree know each other by their links"]),
        ({"gossip_listen": "127.0.0.1:9"}, ["broker.gossip_listen: brokers of a tree"]),
        ({"gossip_seeds": ("127.0.0.1:9",)}, ["broker.gossip_seeds: brokers of a tree"]),
        ({"neighbours": ("127.0.0.1:0",)}, ["broker.neighbours: 127.0.0.1:0 has no port"]),
        ({"neighbours": ("127.0.0.1:6",)}, ["broker.neighbours: 127.0.0.1:6 is this broker itself"]),
        ({"advertise": "127.0.0.1:7"}, ["broker.neighbours: 127.0.0.1:7 is this broker itself"]),
        ({"neighbours": ("127.0.0.1:7", "127.0.0.1:7")}, ["broker.neighbours: 127.0.0.1:7 is named twice"]),
        (
            {"neighbours": ("127.0.0.1:7", "10.0.0.7:7")},
            ["broker.neighbours: 10.0.0.7 is not on this machine, and a secret alone"],
        ),
    ],
)
def test_what_does_not_fit_a_broker_of_a_tree(secret_file: str, changes: dict[str, Any], problems: list[str]) -> None:
    broker = BrokerSettings(
        name="b1", role="tree", listen="127.0.0.1:6", neighbours=("127.0.0.1:7",), secret_file=secret_file
    )
    found = wrong(broker, **changes)
    assert [problem[: len(begin)] for problem, begin in zip(found, problems, strict=True)] == problems


def test_a_neighbour_without_a_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(app, ["broker", "--role", "tree", "--neighbours", "127.0.0.1:7,elsewhere"])
    assert ended.exit_code != 0
    assert "--neighbours: an address is host:port" in str(ended.exception) + ended.output


def test_a_user_of_zookeeper(tmp_path: Path) -> None:
    file = tmp_path / "acl"
    broker = BrokerSettings(zookeeper_acl_file=str(file))
    assert zookeeper_credentials(BrokerSettings()) is None
    file.write_text("fieldfare:canary:1\n")
    assert zookeeper_credentials(broker) == "fieldfare:canary:1"
    for text in ("canary", ":canary", "canary:", "canary:1\ncanary:2"):
        file.write_text(text)
        with pytest.raises(ConfigError, match="must hold a user") as error:
            zookeeper_credentials(broker)
        assert "canary" not in str(error.value)
    file.write_bytes(b"\xff:\xff")
    with pytest.raises(ConfigError, match="it is not text"):
        zookeeper_credentials(broker)
