"""The ring's arithmetic, leaf sets and prefix tables, each beside a slow and obvious way to say the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fieldfare.pastry.ids import DIGITS, RING, digit, distance, is_closer, shared_digits
from fieldfare.pastry.leaf_set import LeafSet
from fieldfare.pastry.options import PastryOptions
from fieldfare.pastry.place import Place
from fieldfare.pastry.ports import Card, Contact, NodeId
from fieldfare.pastry.prefix_table import PrefixTable

# Ids that are near to each other, near to 0 from both sides, or anywhere.
IDS = st.one_of(
    st.integers(0, 40), st.integers(RING - 40, RING - 1), st.integers(0, RING - 1), st.integers(2**120, 2**120 + 300)
)
NODES = st.lists(IDS, min_size=1, max_size=40, unique=True)


def contact(node: NodeId) -> Contact:
    return Contact(node, Card(f"n{node}", f"a{node}", 1))


def digits_of(node: NodeId) -> str:
    return f"{node:032x}"


def clockwise(start: NodeId, nodes: list[NodeId]) -> list[NodeId]:
    """The other nodes in the order in which one meets them, going up from a node."""
    return sorted((node for node in nodes if node != start), key=lambda node: (node - start) % RING)


def closest(nodes: list[NodeId], key: NodeId) -> NodeId:
    return min(nodes, key=lambda node: (min((node - key) % RING, (key - node) % RING), node))


def leaf_set(nodes: list[NodeId], each_side: int = 4) -> LeafSet:
    made = LeafSet(contact(nodes[0]), each_side)
    for node in nodes[1:]:
        made.insert(contact(node))
    return made


@given(IDS, IDS)
def test_digits_are_those_of_the_hexadecimal_form(one: NodeId, other: NodeId) -> None:
    a, b = digits_of(one), digits_of(other)
    assert [digit(one, row) for row in range(DIGITS)] == [int(each, 16) for each in a]
    assert shared_digits(one, other) == next((i for i in range(DIGITS) if a[i] != b[i]), DIGITS)


@given(IDS, IDS, IDS)
def test_distance_is_the_shorter_way_around(one: NodeId, other: NodeId, key: NodeId) -> None:
    assert distance(one, other) == distance(other, one) <= RING // 2
    assert distance(one, other) in {(one - other) % RING, (other - one) % RING}
    assert is_closer(one, other, key) == (closest([one, other], key) == one and one != other)


@given(NODES, st.data())
def test_a_leaf_set_holds_the_next_nodes_of_each_side(nodes: list[NodeId], data: st.DataObject) -> None:
    made = leaf_set(nodes)
    gone = data.draw(st.lists(st.sampled_from(nodes[1:]), unique=True)) if len(nodes) > 1 else []
    for node in gone:
        was_in = node in made
        assert made.remove(node) == was_in
    left = [node for node in nodes if node not in gone]
    for node in left[1:]:
        made.insert(contact(node))  # what is not next to us was forgotten, and comes again
    up = clockwise(nodes[0], left)
    assert [each.id for each in made.leaves.after] == up[:4]
    assert [each.id for each in made.leaves.before] == up[::-1][:4]
    assert all((node in made) == (node in up[:4] or node in up[::-1][:4]) for node in nodes)
    assert not any(made.would_take(node) for node in left)


@given(NODES, IDS)
def test_the_closest_leaf_is_the_closest_node_if_the_key_is_in_range(nodes: list[NodeId], key: NodeId) -> None:
    made = leaf_set(nodes)
    if made.is_in_range(key):
        found = made.closest(key)
        assert (nodes[0] if found is None else found.id) == closest(nodes, key)
    else:
        assert len(nodes) > 8
        assert closest(nodes, key) != nodes[0]
    assert made.closest_first(key, 1)[0].id == closest([nodes[0], *(each.id for each in made)], key)


@given(NODES)
def test_neighbours_that_know_all_agree_on_the_leaves_that_they_share(nodes: list[NodeId]) -> None:
    order = [nodes[0], *clockwise(nodes[0], nodes)]
    made = [leaf_set([node, *(other for other in nodes if other != node)]) for node in order]
    for here, there in zip(made, made[1:] + made[:1], strict=True):
        assert here.hash_shared(with_successor=True) == there.hash_shared(with_successor=False)


@given(NODES.filter(lambda nodes: len(nodes) > 12))
def test_neighbours_of_which_one_misses_a_node_do_not_agree(nodes: list[NodeId]) -> None:
    up = clockwise(nodes[0], nodes)
    here, there = leaf_set(nodes), leaf_set([up[0], *(node for node in nodes if node not in {up[0], up[1]})])
    assert here.hash_shared(with_successor=True) != there.hash_shared(with_successor=False)
    known = {each.id for each in there}
    assert [each.id for each in here.unknown_to(up[0], known)] == [up[1]]


@given(NODES)
def test_nodes_that_know_all_have_nothing_that_the_other_should_have(nodes: list[NodeId]) -> None:
    made = {node: leaf_set([node, *(other for other in nodes if other != node)]) for node in nodes}
    for node, leaves in made.items():
        for leaf in leaves:
            assert not leaves.unknown_to(leaf.id, {each.id for each in made[leaf.id]}), node


@given(NODES)
def test_entries_of_a_prefix_table_share_the_prefix_of_their_row(nodes: list[NodeId]) -> None:
    me, table = digits_of(nodes[0]), PrefixTable(nodes[0])
    for node in nodes[1:]:
        table.offer(contact(node), 1.0, 1.0)
    taken = {(row, value) for row, value, _ in table.items()}
    for row, value, entry in table.items():
        assert digits_of(entry.id)[: row + 1] == me[:row] + f"{value:x}"
        assert me[row] != f"{value:x}"
        assert table.row(row).count(entry) == 1
    for node in nodes[1:]:
        row = shared_digits(nodes[0], node)
        assert (row, digit(node, row)) in taken
        assert not table.is_free(node)


def test_a_slot_of_the_prefix_table_goes_to_a_node_that_is_much_nearer() -> None:
    table, far, near = PrefixTable(0), contact(0xA << 124), contact(0xA << 124 | 1)
    table.offer(far, 0.1, None)
    table.offer(near, 0.09, 0.1)
    assert table.at(near.id) is far
    table.offer(near, 0.05, 0.1)
    assert list(table) == [near]
    assert not table.remove(far.id)
    assert table.remove(near.id)
    assert table.is_free(far.id)


@given(NODES, IDS)
def test_steps_between_nodes_that_know_some_others_end_at_the_closest(nodes: list[NodeId], key: NodeId) -> None:
    options = PastryOptions(leaves_each_side=2)
    places = {}
    for node in nodes:
        place = places[node] = Place(contact(node), options)
        up = clockwise(node, nodes)
        for other in {*up[:2], *up[::-1][:2], *up[:: max(1, len(up) // 3)]}:
            place.take(contact(other), 1.0, 1.0)
    here, steps = nodes[0], 0
    while (target := places[here].next_hop(key)) is not None:
        before = shared_digits(here, key), -distance(here, key)
        after = shared_digits(target.id, key), -distance(target.id, key)
        assert after > before or distance(target.id, key) <= distance(here, key)
        here, steps = target.id, steps + 1
        assert steps <= len(nodes)
    assert here == closest(nodes, key)


@given(NODES.filter(lambda nodes: len(nodes) > 2), IDS)
def test_a_node_can_be_passed_over(nodes: list[NodeId], key: NodeId) -> None:
    place = Place(contact(nodes[0]), PastryOptions(leaves_each_side=20))
    for node in nodes[1:]:
        place.take(contact(node), 1.0, 1.0)
    without = closest(nodes, key)
    found = place.next_hop(key, without=without)
    if without != nodes[0]:
        assert (nodes[0] if found is None else found.id) == closest([node for node in nodes if node != without], key)
