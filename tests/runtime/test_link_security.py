from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fieldfare.errors import LinkSecurityError
from fieldfare.experiments.certificates import Authority
from fieldfare.runtime.link_security import LinkSecurity, TlsContexts, TlsFiles, read_secret
from fieldfare.runtime.socket_addresses import SocketAddress


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def test_something_must_prove_who_a_broker_is() -> None:
    with pytest.raises(LinkSecurityError, match="a secret or certificates"):
        LinkSecurity()
    with pytest.raises(LinkSecurityError, match="has 5 bytes, and 16 are the least: make one with `openssl rand"):
        LinkSecurity(b"short")


def test_a_secret_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("canary canary canary\n")
    secret = read_secret(file)
    assert secret == b"canary canary canary"
    assert "canary" not in repr(LinkSecurity(secret))


def test_a_secret_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(LinkSecurityError, match=r"broker.secret_file: .*none cannot be read: No such file"):
        read_secret(tmp_path / "none")
    (tmp_path / "large").write_bytes(b"x" * 10_000)
    with pytest.raises(LinkSecurityError, match="more than 4,096 bytes"):
        read_secret(tmp_path / "large")


def test_a_secret_alone_is_for_this_machine(authority: Authority) -> None:
    alone = LinkSecurity(b"a secret of all brokers")
    assert [alone.why_not(host) for host in ("127.0.0.1", "::1", "localhost", "127.9.9.9")] == [None] * 4
    assert all(alone.why_not(host) for host in ("0.0.0.0", "::", "192.0.2.1", "broker.example.org"))  # noqa: S104
    assert LinkSecurity(tls=authority.files_for("one")).why_not("192.0.2.1") is None


def test_the_certificate_of_a_broker(authority: Authority) -> None:
    TlsContexts(authority.files_for("edge-1.example")).check("edge-1.example")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"uri": "urn:fieldfare:broker:else"}, "is the certificate of 'else', and this broker is 'one'"),
        ({"uri": "https://one.example.org"}, "names 0 brokers, and must name one"),
        ({"uri": "urn:fieldfare:broker:one,URI:urn:fieldfare:broker:two"}, "names 2 brokers"),
        ({"uses": "serverAuth"}, "for serverAuth and clientAuth"),
        ({"uses": "clientAuth"}, "for serverAuth and clientAuth"),
        ({"days": -1}, "certificate has expired"),
    ],
)
def test_certificates_that_others_would_refuse_are_found_at_the_start(
    authority: Authority, wrong: dict[str, str], reason: str
) -> None:
    contexts = TlsContexts(authority.files_for("one", **wrong))  # type: ignore[arg-type]
    with pytest.raises(LinkSecurityError, match=reason):
        contexts.check("one")


def test_a_certificate_of_another_authority(authority: Authority, tmp_path: Path) -> None:
    files = Authority(tmp_path).files_for("one")
    contexts = TlsContexts(TlsFiles(authority.certificate, files.certificate, files.key))
    with pytest.raises(LinkSecurityError, match="signed by"):
        contexts.check("one")


def test_files_that_cannot_be_loaded(authority: Authority, tmp_path: Path) -> None:
    files, other = authority.files_for("one"), authority.files_for("two")
    ca, certificate, key = files.authority, files.certificate, files.key
    locked = tmp_path / "locked.pem"
    command = ["openssl", "pkey", "-in", str(key), "-aes256", "-passout", "pass:secret", "-out", str(locked)]
    subprocess.run(command, check=True)
    for wrong, reason in (
        (TlsFiles(tmp_path / "none", certificate, key), "broker.tls_ca: there is no file"),
        (TlsFiles(key, certificate, key), "broker.tls_ca: .* cannot be loaded"),
        (TlsFiles(ca, certificate, tmp_path / "none"), "broker.tls_key: there is no file"),
        (TlsFiles(ca, certificate, other.key), "KEY_VALUES_MISMATCH"),
        (TlsFiles(ca, certificate, locked), "without a password"),
    ):
        with pytest.raises(LinkSecurityError, match=reason):
            TlsContexts(wrong)


@pytest.mark.parametrize("text", ["127.0.0.1:0", "broker.example.org:7381", "[::1]:7381", "[fe80::1%eth0]:1"])
def test_addresses(text: str) -> None:
    assert str(SocketAddress.parse(text)) == text


@pytest.mark.parametrize("text", ["", ":1", "host", "host:", "host:http", "host:65536", "::1:80", "a b:1", "h:1\n"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="an address is host:port"):
        SocketAddress.parse(text)
