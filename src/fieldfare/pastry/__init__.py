"""Pastry: peers on a ring of 128-bit ids, which bring a message to the peer whose id is closest to a key.

Nodes are state machines without input and output; the asyncio host and the simulated one run them over datagrams.
What is built upon it implements `ports.Application` and is given a `ports.Ring`:

    group = ClosedGroup(secret)
    node = PastryNode(NodeStart("alice", group, address, seeds=("192.0.2.7:7400",)), application, rng)
    codec = group.codec()
    host = Host(node, Datagrams(codec.encode_line, codec.decode_packet, listen_at))  # fieldfare.runtime

`fieldfare.simulation.pastry.SimulatedRing` runs the same nodes by the thousand; `Withdraw` lets a node say goodbye.

    Rowstron, Druschel 2001      prefix tables, leaf sets, neighbourhood, joining, lazy repair
    Castro, Costa, Rowstron 2004  a node enters tables only when it was heard itself; acknowledgements for each hop
"""
