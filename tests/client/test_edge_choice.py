"""Which edge a client tries next."""

from __future__ import annotations

import random

from fieldfare.client.edge_choice import KNOWN_MAX, EdgeChoice
from fieldfare.client.options import ClientOptions

OPTIONS = ClientOptions(patience_seconds=1.0, doubt_seconds=10.0)


def choice(*urls: str, seed: int = 1) -> EdgeChoice:
    return EdgeChoice(urls, random.Random(seed), OPTIONS, lambda url: not url.startswith("bad"))


def lost(*urls: str) -> tuple[EdgeChoice, str]:
    """A choice whose first edge was connected, and is not any more since moment 0."""
    made = choice(*urls)
    first = made.next(0.0, is_in_doubt=False)
    made.opened()
    made.lost(0.0)
    return made, first


def test_one_edge_is_tried_for_ever() -> None:
    made, first = lost("a")
    assert {made.next(float(at), is_in_doubt=at % 2 == 0) for at in range(100)} == {first} == {"a"}
    made.opened(["b", "c"])  # who was given one edge stays there
    made.lost(0.0)
    assert made.next(100.0, is_in_doubt=False) == "a"
    assert made.pause_seconds(5.0, 0.5, is_in_doubt=True) == 5.0


def test_clients_begin_at_any_of_them() -> None:
    assert {choice("a", "b", "c", seed=seed).next(0.0, is_in_doubt=False) for seed in range(50)} == {"a", "b", "c"}


def test_an_edge_that_was_never_reached_is_not_waited_for() -> None:
    made = choice("a", "b", "c")
    assert {made.next(0.0, is_in_doubt=False) for _ in range(3)} == {"a", "b", "c"}


def test_the_last_edge_is_tried_for_a_while_and_then_the_others() -> None:
    made, first = lost("a", "b", "c")
    assert [made.next(at, is_in_doubt=False) for at in (0.0, 0.5, 0.9)] == [first] * 3
    tried = [made.next(at, is_in_doubt=False) for at in (1.0, 2.0, 3.0)]
    assert tried[-1] == first
    assert set(tried) == {"a", "b", "c"}


def test_it_is_tried_for_longer_while_publications_are_in_doubt() -> None:
    made, first = lost("a", "b")
    assert [made.next(at, is_in_doubt=True) for at in (0.0, 5.0, 9.9)] == [first] * 3
    assert made.pause_seconds(5.0, 5.0, is_in_doubt=True) == 1.0
    assert made.next(10.0, is_in_doubt=True) != first
    assert made.pause_seconds(5.0, 10.0, is_in_doubt=True) == 5.0


def test_a_full_edge_names_others_which_are_tried_at_once() -> None:
    made = choice("a")
    made.next(0.0, is_in_doubt=False)
    assert made.full(["b", "bad", "a"])
    assert made.next(0.0, is_in_doubt=False) == "b"
    assert not made.full(["a", "b"])  # all are full
    assert {made.next(0.0, is_in_doubt=False) for _ in range(2)} == {"a", "b"}


def test_who_is_sent_on_goes_to_any_of_those_that_were_named() -> None:
    went = set()
    for seed in range(50):
        made = choice("a", seed=seed)
        made.next(0.0, is_in_doubt=False)
        made.full(["b", "c", "d"])
        went.add(made.next(0.0, is_in_doubt=False))
    assert went == {"b", "c", "d"}


def test_an_edge_that_lets_a_client_in_only_to_say_that_it_is_full_was_not_connected() -> None:
    made, first = lost("a", "b")
    other = made.next(1.0, is_in_doubt=False)
    made.opened()
    made.full([])
    made.lost(1.0)
    assert other != first
    assert made.next(1.0, is_in_doubt=False) == first


def test_the_last_edge_is_waited_for_although_it_is_full_while_publications_are_in_doubt() -> None:
    made, first = lost("a", "b")
    made.next(0.1, is_in_doubt=True)
    made.full(["b"])
    assert made.next(0.2, is_in_doubt=True) == first
    assert made.next(0.2, is_in_doubt=False) != first


def test_edges_that_were_named_are_learned_by_those_who_know_several() -> None:
    made = choice("a", "b")
    made.next(0.0, is_in_doubt=False)
    made.opened(["c", "bad", *(f"e{number}" for number in range(2 * KNOWN_MAX))])
    made.lost(0.0)
    tried = {made.next(100.0, is_in_doubt=False) for _ in range(2 * KNOWN_MAX)}
    assert {"a", "b", "c"} < tried
    assert "bad" not in tried
    assert len(tried) == KNOWN_MAX


def test_an_edge_that_denies_the_client_is_not_tried_again_unless_it_is_the_only_one() -> None:
    made, first = lost("a", "b")
    made.next(0.1, is_in_doubt=False)
    assert made.denied()
    assert {made.next(float(at), is_in_doubt=False) for at in range(10)} == {"a", "b"} - {first}
    assert not made.denied()
