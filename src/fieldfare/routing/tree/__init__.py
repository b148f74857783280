"""The tree overlay: brokers that are linked without a cycle, each an edge for its clients and a relay for the others.

    tree_broker      a node around an edge: brings the parts together, and stands between the edge and the tree
    neighbours       links to the neighbours, dialled again when they break, and bridges over one that stays away
    presence         who is in the tree, and over which neighbour
    advertisements   which brokers serve a topic, and what may be published there
    wants            what is wanted beyond each link of a topic, in versions; covering keeps it small
    streams          events on their way from neighbour to neighbour: matched at every broker, stored only where wanted
    published_here   what may be published at this broker
    publisher_placement, publisher_clients   POP or GRAPE for what passes, and what is asked of publishers' clients
    local_edge       the edge of the same process, which cannot tell the tree from a routing broker
    topology_file    a whole tree in one file, checked before anything starts
    view             the tree as one broker sees it, for people

An edge does here what it does in a star (see `routing.overlay`): it owns its cursors, takes ranges that continue them,
and asks an origin to go on where they do not. What is different is between the edges. A relay keeps positions, no
events: when it fails, or a link, or a window is full, receivers see that a range does not continue what they have, and
are sent what is missing from the origin's log (`PassOn`), while all others go on with the streams.
"""
