"""DMM and DMM-AR: peers on a Pastry ring that find, for every event, the peers that want it. No server is needed.

    Muthusamy, Jacobsen: Infrastructure-less content-based publish/subscribe

Conditions are boxes in spaces of attributes. A space is divided into regions, each kept by the peer closest to the
region's key: a search tree, whose leaves hold the boxes that touch them. An event is looked up at the one leaf that it
lies in, or, if it has ranges, at those that it touches.

    peer            the application on a ring: which part deals with which message
    peer_messages   what a program asks of its peer, and is told
    messages        what peers say to each other
    options         limits and times

    axis_codes, zcodes, regions, spaces     where values, boxes and events lie, the same for all peers
    leaf_walk, walks, tree_cache            finding the active leaves that something touches
    entries, region, region_book            what lies at a region, and its copies at neighbours
    sender_replicas, sending_again          copies that say only who sent entries, as in the paper
    keeper, visiting, handing_over          regions of a peer: visited, looked after, given to others
    split_plan, splitting, merging          how regions become smaller and larger
    linking, primaries, event_rates         how spaces of several attributes are found
    subscribing, own_subscriptions          what a peer itself wants, and what need not be placed
    publishing, outbox, taking              events of reliable topics, from end to end
    peer_load                               what a peer keeps and does for others
    peer_records, peer_log                  what survives a restart of a peer that keeps a log
    multicast                               best effort, along the reverse paths of subscriptions
    requests                                the one place where a peer waits for others
"""
