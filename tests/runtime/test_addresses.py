"""Webhooks reach public addresses only, however an address is spelled or wrapped, and whatever a name server says."""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fieldfare.errors import ConfigError, WebhookAddressError
from fieldfare.runtime.addresses import Address, Addresses, Endpoint, endpoint_of, is_public


def answers(*texts: str) -> Addresses:
    async def resolve(_host: str, _port: int) -> list[Address]:
        return [ip_address(text) for text in texts]

    return Addresses(resolve=resolve)


def refuses(addresses: Addresses, url: str) -> str:
    with pytest.raises(WebhookAddressError) as refused:
        asyncio.run(addresses.check_url(url))
    addresses.close()
    return str(refused.value)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.1", "127.0.1", "0x7f000001", "0x7f.1", "2130706433", "0177.0.0.1", "017700000001", "0",
        "0.0.0.0",  # noqa: S104 - nobody listens there
        "127.0.0.1.", "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "169.254.169.254", "192.0.0.8",
        "224.0.0.1", "255.255.255.255", "240.0.0.1", "168.63.129.16", "localhost", "localhost.", "LOCALHOST",
        "[::]", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[64:ff9b:1::8.8.8.8]", "[fe80::1]", "[fc00::1]", "[fd00:ec2::254]", "[fec0::1]", "[ff02::1]", "[2001::1]",
    ],
)  # fmt: skip
def test_an_internal_address_is_refused_in_every_spelling(host: str) -> None:
    assert "not public" in refuses(Addresses(), f"http://{host}/hook")


@pytest.mark.parametrize(
    "url",
    [
        "", "hooks.example.com/a", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "http://", "http:///a",
        "http://user@example.com/", "http://user:pass@example.com/", "http://example.com\\@127.0.0.1/", "http://a b/",
        "http://example.com/\r\nX: y", "http://example.com:99999/", "http://example.com:x/", "http://[::1/", "http://[v1.a]/",
        "http://[fe80::1%25eth0]/", "http://-a.example/", "http://a..example/", "http://ex%61mple.com/",
        "http://bücher.example/",
        "http://example.com/" + 2048 * "a", "\thttp://example.com/", "http://exa\tmple.com/",
    ],
)  # fmt: skip
def test_what_is_no_url_of_a_webhook_is_refused_without_a_look_at_its_address(url: str) -> None:
    with pytest.raises(WebhookAddressError):
        endpoint_of(url)


def test_the_parts_of_a_url() -> None:
    assert endpoint_of("https://Example.COM./a/b?c=d#e") == Endpoint("https", "example.com", 443, "/a/b?c=d")
    assert endpoint_of("http://[2001:4860:4860::8888]:8080") == Endpoint("http", "2001:4860:4860::8888", 8080, "/")
    assert endpoint_of("http://[2001:4860:4860::8888]:8080").authority == "[2001:4860:4860::8888]:8080"
    assert endpoint_of("http://example.com?x=1").target == "/?x=1"


def test_every_answer_of_a_name_server_has_to_be_public() -> None:
    asyncio.run(answers("8.8.8.8", "2001:4860:4860::8888").check_url("https://hooks.example/"))
    for inside in ("10.0.0.1", "::1", "::ffff:10.0.0.1"):
        assert "not public" in refuses(answers("8.8.8.8", inside), "https://hooks.example/")


def test_a_name_without_an_address_is_refused() -> None:
    assert "no address" in refuses(answers(), "https://hooks.example/")
    assert "no address" in refuses(Addresses(), "https://does-not-exist.invalid/")


def test_ports_that_are_not_for_http_are_refused() -> None:
    assert "port" in refuses(answers("8.8.8.8"), "http://hooks.example:25/")
    for url in ("http://hooks.example:443/", "https://hooks.example:80/", "https://hooks.example:8443/"):
        asyncio.run(answers("8.8.8.8").check_url(url))


@pytest.mark.parametrize(
    ("allowed", "url", "is_allowed"),
    [
        ("127.0.0.1", "http://127.0.0.1:25/", True),
        ("127.0.0.0/8", "http://127.1.2.3:8000/", True),
        ("127.0.0.1:8000", "http://127.0.0.1:8000/", True),
        ("127.0.0.1:8000", "http://127.0.0.1:8001/", False),
        ("127.0.0.1", "http://127.0.0.2:8000/", False),
        ("[::1]:8000", "http://[::1]:8000/", True),
        ("::1", "http://127.0.0.1:8000/", False),
        ("LocalHost.", "http://localhost:8000/", True),
        ("localhost:8000", "http://localhost:8000/", True),
        ("localhost", "http://127.0.0.1:8000/", False),
        ("10.0.0.0/8", "http://127.0.0.1:8000/", False),
    ],
)
def test_the_operator_may_allow_more(allowed: str, url: str, is_allowed: bool) -> None:
    addresses = Addresses([allowed])
    if is_allowed:
        asyncio.run(addresses.check_url(url))
        addresses.close()
    else:
        refuses(addresses, url)


@pytest.mark.parametrize("text", ["", "300.0.0.1/8", "a b", "http://localhost", "localhost:port"])
def test_an_allow_list_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Addresses([text])


@given(st.ip_addresses(v=4))
@example(IPv4Address("127.0.0.1"))
@example(IPv4Address("8.8.8.8"))
def test_wrapping_an_address_does_not_change_what_it_is(address: IPv4Address) -> None:
    mapped = IPv6Address(f"::ffff:{address}")
    nat64 = IPv6Address(int(IPv6Address("64:ff9b::")) + int(address))
    six_to_four = IPv6Address((0x2002 << 112) + (int(address) << 80) + 1)
    assert {is_public(wrapped) for wrapped in (mapped, nat64, six_to_four)} == {is_public(address)}
    assert not is_public(address) or (address.is_global and not address.is_multicast)


@given(st.ip_addresses(v=6))
def test_no_ipv6_address_is_public_that_is_not_handed_out(address: IPv6Address) -> None:
    if is_public(address) and address.ipv4_mapped is None and not str(address).startswith("64:ff9b::"):
        assert int(address) >> 125 == 1
        assert address.is_global
