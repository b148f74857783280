"""Publisher placement: watch where a publisher's events are delivered, and choose the broker it had better be at.

Two algorithms of "Publisher Placement Algorithms in Content-based Publish/Subscribe" (Cheung and Jacobsen), POP and
GRAPE, as state machines and functions that know no sockets, links or clocks. The tree of brokers tells them how each
traced publication passed a broker (`passages.Passage`) and which frames its neighbours sent, and does what they return
(`passages.Outcome`). A publisher's *first broker* is the one that it is connected to.

    options           thresholds, windows and weights, with the paper's defaults
    passages          what the tree tells placement, and what placement asks of the tree
    placement_frames  what brokers send each other for it

    pop_tracing       POP, phase 1: some publications are traced; deliveries are counted back along the path
    pop_averages      a publisher's table at one broker: running averages of the deliveries beyond each neighbour
    pop_selection     POP, phase 2: from broker to broker, towards where most deliveries are
    pop               both, as one machine for each broker

    grape_tracing     GRAPE, phase 1: sessions of consecutive publications, fetched once at their end
    trace_tree        the brokers of one session, with what they reported, as arrays
    tree_sums         messages and delays with the publisher at any broker, in one pass up and one down the tree
    grape_selection   GRAPE, phase 2: the brokers in the order of its priority and weight
    saving_error      how much of what a session shows may be chance
    grape             both, as one machine for each broker

    damping           whether a relocation is worth it, and not too soon
    arrivals          whether a broker takes in one more publisher
"""
