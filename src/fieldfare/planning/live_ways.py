"""What live ways have to do: a program with an index, edges, stars and trees of brokers, peers.

An edge works in rounds: what has come is read, matched in one call, logged with one flush, and written with one write
for each connection. A star sends an event to every edge where it is wanted, over one routing broker for each topic.
"""

from __future__ import annotations

import math

from fieldfare.planning.application import Application, Durability
from fieldfare.planning.costs import Costs
from fieldfare.planning.stations import Station
from fieldfare.planning.work import Path, Work

ROUND_EVENTS_MAX = 500  # publishers wait for answers, so that no more comes for one round
_RING_BASE = 16  # of Pastry: a hop decides a digit of an id


def in_process(application: Application, costs: Costs) -> Work:
    """An index that the program itself asks: no network, no log, no delivery."""
    match = costs.match[application.shape]
    seconds = match.seconds(application.subscriptions, application.matches_per_event)
    station = Station(
        name="program",
        round_seconds=match.table_call_seconds,
        costs={"matching": seconds},
        other_share=application.changes_per_second * costs.edge.change_seconds,
    )
    held = application.subscriptions * match.bytes_per_subscription
    return Work(paths=(Path(1.0, (station,)),), members=1, member_bytes=costs.process_bytes + held)


def one_edge(application: Application, costs: Costs) -> Work:
    """`fieldfare serve`."""
    station = edge_station(application, costs, application.subscriptions)
    return Work(
        paths=(Path(1.0, (station,), edge_delay(application, costs)),),
        members=1,
        member_bytes=edge_bytes(application, costs, 1),
        member_network=_larger(application, costs, 1.0, application.matches_per_event),
    )


def star(application: Application, costs: Costs, edges: int) -> Work:
    """Edges that share clients and subscriptions, and a routing broker between them."""
    if edges == 1:
        return one_edge(application, costs)
    reached, local = _reached(application, costs, edges)
    arrivals = (1.0 + reached) / edges  # at one edge, for an event of the application
    edge = _shared_edge(application, costs, edges, arrivals, links=1.0 + reached, origins=1.0)
    relay = Station(
        name="routing broker",
        round_seconds=costs.link.round_seconds,
        costs={"links": costs.link.event_seconds * (1.0 + reached)},
        tail_seconds=costs.link.tail_seconds,
    )
    delay = edge_delay(application, costs)
    hops = edge_delay(application, costs, 2.0) + 2 * costs.link.hop_seconds + application.network_seconds
    moved = application.event_bytes + costs.link.event_bytes
    carried = _larger(application, costs, 1.0, application.matches_per_event)
    return Work(
        paths=(Path(local, (edge,), delay), Path(1.0 - local, (edge, relay, edge), hops)),
        members=edges,
        helpers=1,
        member_bytes=edge_bytes(application, costs, edges),
        helper_bytes=costs.link.process_bytes,
        member_network=(carried + moved * (1.0 + reached)) / edges,
        helper_network=moved * max(1.0, reached),
        average_hops=1.0 + 2.0 * (1.0 - local),
        notes=("one topic has one routing broker; several topics would be spread over several",),
    )


def tree(application: Application, costs: Costs, brokers: int) -> Work:
    """Brokers in a balanced tree with two branches at each; every hop matches."""
    if brokers == 1:
        return one_edge(application, costs)
    reached, local = _reached(application, costs, brokers)
    distance = tree_distance(brokers)
    crossed = min(brokers - 1.0, reached * distance)  # links that an event takes: paths to its receivers share some
    arrivals = (1.0 + crossed) / brokers
    broker = _shared_edge(application, costs, brokers, arrivals, links=2.0 * crossed, origins=1.0 + crossed)
    moved = application.event_bytes + costs.link.event_bytes
    carried = _larger(application, costs, 1.0, application.matches_per_event)
    delay = edge_delay(application, costs)
    hops = edge_delay(application, costs, 1.0 + distance) + distance * costs.link.hop_seconds
    hops += application.network_seconds
    return Work(
        paths=(Path(local, (broker,), delay), Path(1.0 - local, (broker,) * (1 + round(distance)), hops)),
        members=brokers,
        member_bytes=edge_bytes(application, costs, brokers),
        member_network=(carried + 2.0 * moved * crossed) / brokers,
        average_hops=1.0 + distance * (1.0 - local),
    )


def peers(application: Application, costs: Costs, count: int) -> Work:
    """A ring of peers: a leaf finds who matches, and the publishing peer delivers."""
    cost, match = costs.peers, costs.match[application.shape]
    stored = application.subscriptions / count
    hops = max(1.0, math.log(count, _RING_BASE)) if count > 1 else 0.0
    messages = 2.0 * hops + application.matches_per_event
    publishing = 1.0 / min(count, application.publishers)  # a publishing peer is at one end of every message
    ends = (publishing + 1.0 / count) / 2
    arrivals = (publishing + messages * ends) if count > 1 else 1.0
    further = max(0.0, math.ceil((application.event_bytes + cost.message_bytes) / cost.piece_bytes) - 1.0)
    pieces = further * (hops + application.matches_per_event)  # what comes back from the leaf is small
    matching = match.call_seconds + match.seconds(stored, application.matches_per_event)
    seconds = {
        "messages": (cost.message_seconds * messages + cost.piece_seconds * pieces) * ends / arrivals,
        "matching": matching / count / arrivals,
    }
    peer = Station(
        name="peer",
        round_seconds=cost.round_seconds,
        costs=seconds,
        share=arrivals,
        tail_seconds=cost.tail_seconds,
        other_share=application.changes_per_second * (2.0 * hops + 1.0) * cost.message_seconds / count,
    )
    passed = 1 + round(hops) + 1  # the publisher, those on the way to the leaf, the subscriber
    held = stored * (match.bytes_per_subscription + cost.bytes_per_subscription)
    delay = (2.0 * hops + 1.0) * cost.hop_seconds + (hops + 1.0) * further * cost.piece_seconds
    return Work(
        paths=(Path(1.0, (peer,) * passed, delay + application.network_seconds),),
        members=count,
        member_bytes=cost.process_bytes + held,
        member_network=messages * (application.event_bytes + cost.message_bytes) / count,
        average_hops=2.0 * hops + 1.0,
    )


def edge_station(application: Application, costs: Costs, stored: float) -> Station:
    """An edge that serves all clients; `stored` is 0 where something else matches."""
    edge, match, wanted = costs.edge, costs.match[application.shape], application.matches_per_event
    moved = application.event_bytes * (1.0 + wanted) * edge.byte_seconds
    is_kept = application.durability is Durability.DISK
    return Station(
        name="edge",
        round_seconds=_edge_round(application, costs) + (match.call_seconds if stored else 0.0),
        costs={
            "events": edge.event_seconds + is_kept * edge.kept_event_seconds,
            "matching": match.seconds(stored, wanted),
            "deliveries": (edge.message_seconds + is_kept * edge.kept_message_seconds) * wanted + moved,
        },
        write_seconds=edge.write_seconds,
        writes_per_event=wanted,
        connections=application.open_connections,
        frame_seconds=edge.frame_seconds,
        subscriptions=application.subscriptions,
        events_max=ROUND_EVENTS_MAX,
        tail_seconds=edge.tail_seconds,
        other_share=application.changes_per_second * edge.change_seconds,
    )


def _shared_edge(
    application: Application, costs: Costs, edges: int, arrivals: float, *, links: float, origins: float
) -> Station:
    """One of several: what comes from publishers and over links, on average for one that arrives.

    `links` and `origins`: for an event of the application, how often edges handle it at a link, and match it against
    what others want.
    """
    alone = edge_station(application, costs, application.subscriptions / edges)
    match, visits = costs.match[application.shape], arrivals * edges
    own = application.matches_per_event / visits  # deliveries of one visit
    return Station(
        name="edge",
        round_seconds=alone.round_seconds,
        costs={
            "events": alone.costs["events"] / visits,  # what comes over a link has been read and checked
            "matching": match.seconds(application.subscriptions / edges, own)
            + origins / visits * match.seconds(min(match.subscriptions[0], edges - 1.0) or 1.0, 0.0),
            "links": costs.link.event_seconds * links / visits,
            "deliveries": alone.costs["deliveries"] / visits,
        },
        share=arrivals,
        write_seconds=costs.edge.write_seconds,
        writes_per_event=own,
        connections=max(1.0, application.open_connections / edges),
        frame_seconds=costs.edge.frame_seconds,
        subscriptions=max(1.0, application.subscriptions / edges),
        events_max=ROUND_EVENTS_MAX,
        tail_seconds=costs.edge.tail_seconds,
        other_share=alone.other_share / edges,
    )


def _edge_round(application: Application, costs: Costs) -> float:
    kept = costs.edge.kept_round_seconds if application.durability is Durability.DISK else 0.0
    return costs.edge.round_seconds + kept


def edge_delay(application: Application, costs: Costs, edges: float = 1.0) -> float:
    """What a delivery waits for beside rounds, where it passes so many edges: sockets, and disks."""
    flushes = edges if application.durability is Durability.DISK else 0.0
    return costs.edge.delay_seconds + flushes * costs.edge.flush_seconds


def _reached(application: Application, costs: Costs, edges: int) -> tuple[float, float]:
    """How many other edges an event is sent to, and the share of deliveries at the publisher's own."""
    local = application.locality if application.networks > 1 else 1.0 / edges
    far = application.matches_per_event * (1.0 - local)
    wanted = 1.0 - (1.0 - 1.0 / (edges - 1)) ** far if edges > 2 else -math.expm1(-far)
    in_vain = (1.0 - wanted) * costs.match[application.shape].in_vain_share
    return (edges - 1) * (wanted + in_vain), local


def tree_distance(brokers: int) -> float:
    """Links between two different brokers of a balanced binary tree, on average."""
    below = [0] * (brokers + 1)
    for broker in range(brokers, 0, -1):  # the parent of broker n is n // 2
        below[broker] += 1
        below[broker // 2] += below[broker]
    crossings = sum(size * (brokers - size) for size in below[2:])  # every link divides the brokers
    return crossings / (brokers * (brokers - 1) / 2) if brokers > 1 else 0.0


def edge_bytes(application: Application, costs: Costs, edges: int) -> float:
    """Memory of one of several edges."""
    edge, match = costs.edge, costs.match[application.shape]
    held = application.subscriptions * (edge.bytes_per_subscription + match.bytes_per_subscription)
    clients = application.open_connections + application.publishers
    return edge.process_bytes + (held + clients * edge.bytes_per_connection) / edges


def _larger(application: Application, costs: Costs, events_in: float, deliveries: float) -> float:
    """Bytes in or out for an event, whichever is more: a link carries both at once."""
    incoming = events_in * (application.event_bytes + costs.edge.delivery_bytes)
    return max(incoming, deliveries * (application.event_bytes + costs.edge.delivery_bytes))
