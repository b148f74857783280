from __future__ import annotations

import io
import json
import logging
import re
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fieldfare.cli import app
from fieldfare.errors import ConfigError, UnauthenticatedError
from fieldfare.messages import Right
from fieldfare.runtime import logs
from fieldfare.runtime.tokens import EVERYBODY, Authenticator, TokenFile

RIGHTS: dict[Right, tuple[str, ...]] = {"publish": ("quotes",), "subscribe": ("eu.*",)}
HERE = "127.0.0.1"
runner = CliRunner()


def test_a_token_says_who_its_owner_is(tmp_path: Path) -> None:
    token, secret = TokenFile(tmp_path).create("acme", RIGHTS, now=100.0)
    identity = Authenticator(tmp_path).identify(secret, "192.0.2.7")
    assert (identity.tenant, identity.rights) == ("acme", RIGHTS)
    assert identity.may("publish", "quotes")
    assert not identity.may("manage", "quotes")
    assert TokenFile(tmp_path).tokens() == [token]


def test_a_token_is_random_and_kept_as_a_hash_only(tmp_path: Path) -> None:
    secrets = [TokenFile(tmp_path).create("acme", RIGHTS, now=0.0)[1] for _ in range(3)]
    assert len(set(secrets)) == 3
    assert all(len(secret.removeprefix("ff_")) == 43 for secret in secrets)  # 256 bits in base64
    for file in tmp_path.iterdir():
        assert not any(secret in file.read_text() for secret in secrets)
    assert (tmp_path / "tokens.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("wrong", [None, "", "ff_", "nonsense", "\udc80", "ff_" + 43 * "A"])
def test_who_has_no_token_stays_outside(wrong: str | None, tmp_path: Path) -> None:
    _, secret = TokenFile(tmp_path).create("acme", RIGHTS, now=0.0)
    door = Authenticator(tmp_path)
    for token in (wrong, secret[:-1], secret.upper()):
        with pytest.raises(UnauthenticatedError) as error:
            door.identify(token, HERE)
        assert not token or token not in str(error.value)


def test_the_hash_is_not_a_token(tmp_path: Path) -> None:
    token, _ = TokenFile(tmp_path).create("acme", RIGHTS, now=0.0)
    with pytest.raises(UnauthenticatedError):
        Authenticator(tmp_path).identify(token.sha256, HERE)


def test_tokens_expire(tmp_path: Path) -> None:
    token, secret = TokenFile(tmp_path).create("acme", RIGHTS, now=1000.0, lifetime_seconds=60.0)
    clock = [1059.9]
    door = Authenticator(tmp_path, clock=lambda: clock[0])
    door.identify(secret, HERE)
    clock[0] = 1060.0
    with pytest.raises(UnauthenticatedError, match=f"{token.id} has expired"):
        door.identify(secret, HERE)


def test_a_running_service_sees_new_and_revoked_tokens(tmp_path: Path) -> None:
    file = TokenFile(tmp_path)
    first, first_secret = file.create("acme", RIGHTS, now=0.0)
    door = Authenticator(tmp_path)
    door.identify(first_secret, HERE)
    _, second_secret = file.create("other", RIGHTS, now=0.0)
    assert door.identify(second_secret, HERE).tenant == "other"
    file.revoke(first.id)
    with pytest.raises(UnauthenticatedError):
        door.identify(first_secret, HERE)
    with pytest.raises(ConfigError, match="there is no token"):
        file.revoke(first.id)


def test_development_mode_ends_with_the_first_token_for_good(tmp_path: Path) -> None:
    door = Authenticator(tmp_path, is_open=True)
    assert door.identify(None, HERE) == EVERYBODY
    with pytest.raises(UnauthenticatedError):
        door.identify(None, "192.0.2.7")
    file = TokenFile(tmp_path)
    file.create("acme", RIGHTS, now=0.0)
    with pytest.raises(UnauthenticatedError):
        door.identify(None, HERE)
    file.path.unlink()
    with pytest.raises(UnauthenticatedError):
        door.identify(None, HERE)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": 2, "tokens": []}', b'{"version": 1}', b"\xff"])
def test_a_damaged_file_lets_nobody_in(content: bytes, tmp_path: Path) -> None:
    file = TokenFile(tmp_path)
    _, secret = file.create("acme", RIGHTS, now=0.0)
    door, open_door = Authenticator(tmp_path), Authenticator(tmp_path, is_open=True)
    door.identify(secret, HERE)
    good = file.path.read_bytes()
    file.path.write_bytes(content)
    for each in (door, open_door):
        with pytest.raises(UnauthenticatedError):
            each.identify(secret, HERE)
    with pytest.raises(ConfigError, match=r"tokens\.json"):
        file.create("acme", RIGHTS, now=0.0)
    assert file.path.read_bytes() == content  # a damaged file is for people to look at
    file.path.write_bytes(good)
    door.identify(secret, HERE)


def test_tokens_made_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    threads = [threading.Thread(target=TokenFile(tmp_path).create, args=(f"t{n}", RIGHTS, 0.0)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(token.tenant for token in TokenFile(tmp_path).tokens()) == [f"t{n}" for n in range(8)]


def test_the_commands(tmp_path: Path) -> None:
    where = ["--data", str(tmp_path / "data")]
    made = runner.invoke(
        app,
        [
            "tokens",
            "create",
            "--tenant",
            "acme",
            "--publish",
            "quotes",
            "--subscribe",
            "*",
            "--expires-in",
            "2h",
            *where,
        ],
    )
    assert made.exit_code == 0
    secret = made.stdout.strip()
    assert re.fullmatch(r"ff_[A-Za-z0-9_-]{43}", secret)
    assert secret not in made.stderr
    identity = Authenticator(tmp_path / "data").identify(secret, None)
    assert identity.rights == {"publish": ("quotes",), "subscribe": ("*",)}
    (token,) = TokenFile(tmp_path / "data").tokens()
    assert token.expires == token.created + 7200
    shown = runner.invoke(app, ["tokens", "list", *where]).stdout
    assert token.id in shown
    assert "acme" in shown
    assert secret not in shown
    assert runner.invoke(app, ["tokens", "revoke", token.id, *where]).exit_code == 0
    assert TokenFile(tmp_path / "data").tokens() == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "give it a right"),
        (["--publish", "../etc"], "is not a topic"),
        (["--publish", "a*b"], "is not a topic"),
        (["--publish", "a", "--tenant", "a b"], "cannot be a tenant"),
        (["--publish", "a", "--expires-in", "soon"], "a number and s, m, h or d"),
        (["--publish", "a", "--expires-in", "0d"], "a number and s, m, h or d"),
    ],
)
def test_what_cannot_be_a_token(arguments: list[str], reason: str, tmp_path: Path) -> None:
    ended = runner.invoke(app, ["tokens", "create", "--data", str(tmp_path / "data"), *arguments])
    assert ended.exit_code == 2
    assert reason in " ".join(ended.stderr.replace("│", " ").split())
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_token_is_logged(log_format: logs.LogFormat, tmp_path: Path) -> None:
    _, canary = TokenFile(tmp_path).create("acme", RIGHTS, now=0.0)
    stream = io.StringIO()
    logger = logging.getLogger(f"fieldfare.test.{log_format}")
    logger.handlers = [logs.handler(log_format, stream)]
    logger.warning("message %s", canary)
    logger.warning("header {'authorization': 'Bearer not-one-of-ours'} and authorization: bearer not-one-of-ours")
    try:
        raise ValueError(f"url?token={canary}")
    except ValueError:
        logger.exception("an error with a trace")
    lines = stream.getvalue()
    assert "message ***" in lines
    assert "url?token=***" in lines
    assert canary not in lines
    assert canary[3:] not in lines
    assert "not-one-of-ours" not in lines
    if log_format == "json":
        assert [json.loads(line)["level"] for line in lines.splitlines()] == ["warning", "warning", "error"]
