from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from tests.runtime.certificates import make_certificate
from typer.testing import CliRunner

from fieldfare.cli import app
from fieldfare.errors import ConfigError
from fieldfare.runtime.config import Server, Settings, load
from fieldfare.runtime.exposure import is_development, is_loopback
from fieldfare.runtime.service import serve
from fieldfare.runtime.startup import check_startup, is_schema

EXAMPLE = """
[server]
port = 0
data = "here"
origins = ["https://app.example.org"]

[log]
retention_bytes = 1048576

[webhooks]
allow = ["10.0.0.0/8", "hooks.internal"]

[topics.traffic]
reliability = "best_effort"
durability = "volatile"
lifespan_seconds = 60
tenant = "acme"

[topics."eu.quotes"]
matching = "spark"

[spark]
enabled = true
"""

runner = CliRunner()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "service.toml"
    path.write_text(EXAMPLE)
    return path


def wrong(settings: Settings) -> list[str]:
    """What stands against a start of the service."""
    try:
        check_startup(settings)
    except ConfigError as error:
        return list(error.problems)
    return []


def problems(text: str, folder: Path, environment: dict[str, str] | None = None) -> str:
    path = folder / "bad.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load(path, environment or {})
    return str(error.value).replace(f"{folder}/", "")


def test_without_a_file_the_defaults_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(None, {}) == Settings()


def test_a_file(file: Path) -> None:
    settings = load(file, {})
    assert settings.server.port == 0
    assert settings.server.origins == ("https://app.example.org",)
    assert settings.webhooks.allow == ("10.0.0.0/8", "hooks.internal")
    assert settings.topics["traffic"].offered.reliability == "best_effort"
    assert settings.topics["traffic"].offered.lifespan_seconds == 60
    assert settings.topics["traffic"].tenant == "acme"
    assert settings.topics["eu.quotes"].matching == "spark"


def test_the_default_file_is_read_if_it_is_there(file: Path) -> None:
    file.rename(file.with_name("fieldfare.toml"))
    assert load(None, {}).log.retention_bytes == 1048576


def test_the_environment_wins_over_the_file_and_the_command_line_over_both(file: Path) -> None:
    environment = {
        "FIELDFARE_SERVER_PORT": "81",
        "FIELDFARE_SERVER_BEHIND_PROXY": "true",
        "FIELDFARE_WEBHOOKS_ALLOW": "a.internal, 10.1.0.0/16",
        "FIELDFARE_STORE": "not a setting of the service",
        "FIELDFARE_TOKEN": "nor this",
    }
    settings = load(file, environment)
    assert settings.server.port == 81
    assert settings.server.behind_proxy
    assert settings.webhooks.allow == ("a.internal", "10.1.0.0/16")
    assert load(file, environment, {"server": {"port": 82, "host": None}}).server == Server(
        port=82, data=settings.server.data, origins=settings.server.origins, behind_proxy=True
    )


def test_paths_in_a_file_are_relative_to_its_folder(file: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    os.chdir(tmp_path_factory.mktemp("elsewhere"))  # the fixture brings the folder back
    assert load(file, {}).server.data == str(file.parent / "here")
    assert load(file, {"FIELDFARE_SERVER_DATA": "there"}).server.data == "there"


def test_limits_reach_the_broker(file: Path) -> None:
    file.write_text("[limits]\nwaiting_max = 7\n[webhooks]\nattempts_max = 3\n")
    options = load(file, {}).edge
    assert (options.waiting_max, options.webhook_attempts_max) == (7, 3)


def test_every_problem_is_told_with_its_place_and_what_is_allowed(tmp_path: Path) -> None:
    told = problems(
        """
        [server]
        port = "eighty"
        prot = 80
        log_format = "xml"
        origins = ["*"]
        [topics.traffic]
        reliability = "perfect"
        """,
        tmp_path,
        {"FIELDFARE_LIMITS_CONNECTIONS_MAX": "many", "FIELDFARE_LOG_COLOUR": "red"},
    ).splitlines()
    assert len(told) == 7
    assert told[0] == "bad.toml: server.port: Expected `int`, got `str`"
    assert told[1].startswith("bad.toml: server.prot: there is no such setting; allowed: host, port, data")
    assert told[2] == "bad.toml: server.log_format: allowed: json, text"
    assert told[3].startswith("bad.toml: server.origins: Expected `str` matching regex")
    assert "bad.toml: topics.traffic.reliability: allowed: best_effort, reliable" in told
    assert "FIELDFARE_LIMITS_CONNECTIONS_MAX: Expected `int`, got `str`" in told
    assert "FIELDFARE_LOG_COLOUR: there is no such setting; allowed: retention_bytes, segment_bytes" in told


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[server", "not TOML"),
        ("server = 3", "server: this is a section, [server], and not a value"),
        ("[sever]\nport = 1", "there is no section [sever]; allowed: server"),
        ("[topics]\ntraffic = 1", "topics.traffic: this is a section"),
        ('[topics."../x"]', "topics.../x: a name has letters"),
        ("[topics.t]\ntenant = ''", "topics.t.tenant: a name has letters"),
        ("[server]\nport = 65536", "server.port: Expected `int` <= 65535"),
        ("[log]\nretention_bytes = 5", "log.retention_bytes: Expected `int` >= 1048576"),
        ("[topics.t]\nlifespan_seconds = -1", "topics.t.lifespan_seconds: Expected `float` > 0"),
        ("[webhooks]\nallow = ['10.0.0.0/8/9']", "webhooks.allow: Expected `str` matching regex"),
    ],
)
def test_what_is_wrong(text: str, reason: str, tmp_path: Path) -> None:
    assert reason in problems(text, tmp_path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape("none.toml: cannot be read: No such file")):
        load(tmp_path / "none.toml", {})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost"])
def test_loopback_without_tokens_is_for_development(host: str) -> None:
    assert is_loopback(host)
    assert is_development(Server(host=host), has_tokens=False)
    assert not is_development(Server(host=host), has_tokens=True)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", "127.0.0.1.example.org", ""])  # noqa: S104
def test_other_addresses_need_tokens_and_tls(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(ConfigError) as error:
        is_development(Server(host=host), has_tokens=False)
    assert ["fieldfare tokens create" in error.value.problems[0], "tls_certificate" in error.value.problems[1]] == [
        True,
        True,
    ]
    with pytest.raises(ConfigError, match="TLS is needed"):
        is_development(Server(host=host), has_tokens=True)
    with pytest.raises(ConfigError, match="there are none"):
        is_development(Server(host=host, tls_certificate="c", tls_key="k"), has_tokens=False)
    assert not is_development(Server(host=host, tls_certificate="c", tls_key="k"), has_tokens=True)
    assert not is_development(Server(host=host, behind_proxy=True), has_tokens=True)


def test_a_proxy_on_the_same_machine_brings_the_world_so_tokens_are_needed() -> None:
    with pytest.raises(ConfigError, match="there are none"):
        is_development(Server(behind_proxy=True), has_tokens=False)


def test_certificates_are_loaded(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    other = make_certificate(tmp_path / "other")[1]
    data = str(tmp_path / "data")

    def told(certificate: Path, key: Path | None) -> list[str]:
        tls = Server(data=data, tls_certificate=str(certificate), tls_key=None if key is None else str(key))
        return wrong(Settings(server=tls))

    assert told(certificate, key) == []
    assert "go together" in told(certificate, None)[0]
    assert told(tmp_path / "none.pem", key) == [f"server.tls_certificate: there is no file {tmp_path}/none.pem"]
    assert "KEY_VALUES_MISMATCH" in told(certificate, other)[0]
    assert "cannot be loaded" in told(key, key)[0]
    locked = tmp_path / "locked.pem"
    command = ["openssl", "pkey", "-in", str(key), "-aes256", "-passout", "pass:secret", "-out", str(locked)]
    subprocess.run(command, check=True)
    assert "without a password" in told(certificate, locked)[0]


def test_a_data_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    for data in (tmp_path / "taken", tmp_path / "taken" / "below"):
        assert wrong(Settings(server=Server(data=str(data)))) == [f"server.data: {tmp_path}/taken is not a folder"]
    assert wrong(Settings(server=Server(data=str(tmp_path / "new" / "below")))) == []


def test_the_command_prints_settings_that_can_be_read_again(file: Path) -> None:
    ended = runner.invoke(app, ["config", "check", str(file)])
    assert ended.exit_code == 0
    assert tomllib.loads(ended.stdout)["topics"]["eu.quotes"]["matching"] == "spark"
    copy = file.with_name("copy.toml")
    copy.write_text(ended.stdout)
    assert load(copy, {}) == load(file, {})


def test_the_command_prints_every_problem_and_exits_with_1(file: Path) -> None:
    file.write_text("[server]\nport = 'x'\nhost = ''\n")
    ended = runner.invoke(app, ["config", "check", str(file)])
    assert ended.exit_code == 1
    assert ended.stdout == ""
    assert ended.stderr.count("Error: ") == 2
    (file.parent / "taken").touch()
    file.write_text("[server]\ndata = 'taken'\n")
    ended = runner.invoke(app, ["config", "check", str(file)])
    assert (ended.exit_code, "is not a folder" in ended.stderr) == (1, True)
    file.write_text("[webhooks]\nallow = ['10.0.0.1/8']\n")
    ended = runner.invoke(app, ["config", "check", str(file)])
    assert (ended.exit_code, "10.0.0.1/8" in ended.stderr) == (1, True)
    assert runner.invoke(app, ["config", "check", "--nonsense"]).exit_code == 2


def test_the_command_shows_no_secrets(file: Path) -> None:
    file.write_text(
        "[webhooks]\nsecret = 'canary-canary-canary'\n[webhooks.secrets]\nacme = 'canary of a tenant'\n[spark]\nstore = 'postgresql://me:canary@db.example.org/events'\n"
    )
    ended = runner.invoke(app, ["config", "check", str(file)])
    assert ended.exit_code == 0
    assert "postgresql://***@db.example.org/events" in ended.stdout
    assert "canary" not in ended.output


def test_quotas_are_printed_so_that_they_can_be_read_again(file: Path) -> None:
    file.write_text("[quotas.acme]\nevents_per_second = 5\n[quotas.'*']\nsubscriptions_max = 7\n")
    ended = runner.invoke(app, ["config", "check", str(file)])
    copy = file.with_name("copy.toml")
    copy.write_text(ended.stdout)
    assert load(copy, {}) == load(file, {})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[server]\nhost = '0.0.0.0'\nport = 0", ["server.host: others", "server.host: others"]),
        ("[server]\nhost = '192.0.2.1'\nbehind_proxy = true", ["server.host: others", "server.host: 192.0.2.1 is no"]),
        ("[server]\ntls_key = 'key.pem'\nport = 0", ["server: tls_certificate and tls_key go together"]),
        ("[topics.ticks]\nmatching = 'spark'", ["topics.ticks.matching: "]),
        ("[topics.ticks]\nschema = 'road STRNG'", ["topics.ticks.schema: "]),
        ("[webhooks]\nsecret = 'whsec_not base64 at all'", ["webhooks.secret: "]),
        ("[webhooks.secrets]\nacme = 'whsec_not base64 at all'", ["webhooks.secrets.acme: "]),
        ("[topics.a]\n[topics.b]\n[limits]\ntopics_max = 1", ["limits.topics_max: "]),
    ],
)
def test_what_serve_refuses_the_check_refuses_in_the_same_words(file: Path, text: str, told: list[str]) -> None:
    file.write_text(text)
    checked = runner.invoke(app, ["config", "check", str(file)])
    assert checked.exit_code == 1
    found = [line.removeprefix("Error: ") for line in checked.stderr.splitlines()]
    assert [line[: len(begin)] for line, begin in zip(found, told, strict=True)] == told
    with pytest.raises(ConfigError) as refused:
        serve(load(file, {}), lambda address: pytest.fail(f"it is ready at {address}"))
    assert list(refused.value.problems) == found


def test_a_damaged_file_of_tokens_is_found(file: Path) -> None:
    (file.parent / "here").mkdir()
    (file.parent / "here" / "tokens.json").write_text("{")
    ended = runner.invoke(app, ["config", "check", str(file)])
    assert (ended.exit_code, "damaged" in ended.stderr) == (1, True)


@pytest.mark.parametrize("text", ["a INT", "`a b` INT, p STRUCT<x: INT, y: ARRAY<STRING>>", "a: INT", "a INT NOT NULL"])
def test_schemas(text: str) -> None:
    assert is_schema(text)


@pytest.mark.parametrize("text", ["", "road", "road STRNG", "road STRING speed", "a INT); DROP TABLE (b INT"])
def test_what_is_no_schema(text: str) -> None:
    assert not is_schema(text)


def test_quotas_and_secrets_of_tenants(tmp_path: Path) -> None:
    file = tmp_path / "fieldfare.toml"
    file.write_text(
        "[quotas.acme]\nevents_per_second = 5\n[quotas.'*']\nsubscriptions_max = 7\n"
        "[webhooks.secrets]\nacme = 'sixteen characters'\n"
    )
    settings = load(file, {})
    assert settings.edge.quotas["acme"].events_per_second == 5
    assert settings.edge.quotas["*"].subscriptions_max == 7
    assert settings.webhooks.secrets == {"acme": "sixteen characters"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[quotas.acme]\nevents_per_second = 0", "quotas.acme.events_per_second"),
        ("[quotas.acme]\nevents = 5", "there is no such setting"),
        ("[quotas.'a b']\nsubscriptions_max = 5", "quotas.a b: a name has letters"),
        ("[webhooks.secrets]\nacme = 'short'", "webhooks.secrets"),
    ],
)
def test_wrong_quotas_and_secrets(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "fieldfare.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        load(file, {})
