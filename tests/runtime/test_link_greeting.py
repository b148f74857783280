"""The greeting without sockets: every message may be anybody's."""

from __future__ import annotations

from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldfare.errors import LinkRefusedError
from fieldfare.runtime.link_greeting import GREETING_BYTES_MAX, Greeting, Hello, Proof, readable

SECRET = b"a secret of all brokers"


def dialling(name: str = "one", secret: bytes | None = SECRET, protocol: str = "p/1") -> Greeting:
    return Greeting(protocol, name, secret, is_dialling=True)


def listening(name: str = "other", secret: bytes | None = SECRET, protocol: str = "p/1") -> Greeting:
    return Greeting(protocol, name, secret, is_dialling=False)


def greet(one: Greeting, other: Greeting) -> None:
    """Pass on what each says, until nobody says anything more."""
    proof = one.receive(other.hello())
    assert other.receive(one.hello()) is None
    assert proof is not None
    answer = other.receive(proof)
    assert answer is not None
    assert one.name is None
    assert one.receive(answer) is None


@pytest.mark.parametrize("secret", [SECRET, None])
def test_both_ends_know_each_other(secret: bytes | None) -> None:
    one, other = dialling(secret=secret), listening(secret=secret)
    greet(one, other)
    assert (one.name, other.name) == ("other", "one")


@pytest.mark.parametrize("secret", [b"another secret of brokers", None])
def test_who_has_another_secret_or_none_is_refused_by_both(secret: bytes | None) -> None:
    one, other = dialling(), listening(secret=secret)
    proof = one.receive(other.hello())
    other.receive(one.hello())
    assert proof is not None
    with pytest.raises(LinkRefusedError, match="different secrets"):
        other.receive(proof)
    assert other.name is None
    forged = msgspec.json.encode(Proof(b""))
    with pytest.raises(LinkRefusedError, match="different secrets"):
        one.receive(forged)
    assert one.name is None


def test_what_an_end_says_is_no_answer_to_itself() -> None:
    """A stranger without the secret sends back what it hears, under another name where names must differ."""
    for victim in (dialling(), listening()):
        mirrored = msgspec.json.decode(victim.hello(), type=Hello)
        proof = victim.receive(msgspec.json.encode(msgspec.structs.replace(mirrored, name="mirror")))
        with pytest.raises(LinkRefusedError):
            victim.receive(proof or msgspec.json.encode(Proof(b"x" * 32)))
        assert victim.name is None


def test_a_proof_counts_for_one_side_of_one_connection_between_two_names() -> None:
    """A stranger that listens to many greetings can use no proof of one of them in another."""
    proofs = []
    for _ in range(3):
        one, other = dialling(), listening()
        proof = one.receive(other.hello())
        other.receive(one.hello())
        assert proof is not None
        proofs += [proof, other.receive(proof)]
    for used, is_dialling, name in product(proofs, [True, False], ["one", "other", "third"]):
        assert used is not None
        victim = Greeting("p/1", "victim", SECRET, is_dialling=is_dialling)
        victim.receive(msgspec.json.encode(Hello("p/1", name, b"n" * 32)))
        with pytest.raises(LinkRefusedError):
            victim.receive(used)


@pytest.mark.parametrize("field", ["protocol", "name", "nonce", "mac"])
def test_a_stranger_in_the_middle_can_change_nothing(field: str) -> None:
    one, other = dialling(), listening()

    def changed(message: bytes, kind: type[Hello | Proof], place: str) -> bytes:
        said = msgspec.json.decode(message, type=kind)
        value = {"protocol": "p/1 ", "name": "mallory", "nonce": b"m" * 32, "mac": b"m" * 32}[place]
        return msgspec.json.encode(msgspec.structs.replace(said, **{place: value}))

    proof = one.receive(other.hello())
    assert proof is not None
    hello = one.hello() if field == "mac" else changed(one.hello(), Hello, field)
    answer = changed(proof, Proof, field) if field == "mac" else proof
    with pytest.raises(LinkRefusedError):
        _ = other.receive(hello), other.receive(answer)
    assert other.name is None


def test_two_brokers_that_both_dialled_a_stranger_are_not_made_a_link_by_it() -> None:
    one, other = dialling("one"), dialling("other")
    proof, _ = one.receive(other.hello()), other.receive(one.hello())
    assert proof is not None
    with pytest.raises(LinkRefusedError):
        other.receive(proof)


def test_the_secret_does_not_travel_and_no_two_greetings_are_alike() -> None:
    said = set()
    for _ in range(2):
        one, other = dialling(), listening()
        proof = one.receive(other.hello())
        other.receive(one.hello())
        assert proof is not None
        said |= {one.hello(), other.hello(), proof, other.receive(proof)}
    assert len(said) == 8
    for message in said:
        assert message is not None
        assert SECRET not in message
        assert len(message) <= GREETING_BYTES_MAX


def test_versions_names_and_certificates_must_agree() -> None:
    with pytest.raises(LinkRefusedError, match="different protocols, 'p/2' and 'p/1': update the older"):
        dialling().receive(listening(protocol="p/2").hello())
    with pytest.raises(LinkRefusedError, match="both ends are called 'one'"):
        dialling().receive(listening("one").hello())
    one = dialling()
    one.certificate_name = "third"
    with pytest.raises(LinkRefusedError, match="certificate is that of 'third', not of 'other'"):
        one.receive(listening().hello())


@given(st.lists(st.binary(max_size=100) | st.sampled_from([b"{}", b"null", b'{"mac":""}', b"[" * 1000]), max_size=4))
def test_no_garbage_gets_anybody_in(messages: list[bytes]) -> None:
    victim = listening()
    for message in messages:
        with pytest.raises(LinkRefusedError):
            victim.receive(message)
    assert victim.name is None


@given(st.binary(max_size=1000))
def test_a_reason_of_anybody_is_fit_for_a_log(reason: bytes) -> None:
    text = readable(reason)
    assert text.isprintable()
    assert len(text) <= 300
