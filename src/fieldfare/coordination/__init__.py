"""How brokers find each other: who lives, who owns which topic, who leads; and gossip, which needs no server.

What a broker asks for and is told is in `fieldfare.messages.coordination`. Of gossip, begin with `gossiping_node`:

    gossiping_node   a broker and its gossip, as one node
    gossip           one member: its rounds, and what it does about a datagram
    membership       news about the others: joined, told to the broker, spread
    myself           what a member says of itself; incarnations
    member_table     all that is known, and how it is joined and compared
    member_view      who is seen, and who is gone
    topic_board      topics: their owners, epochs, offers, and who is owed events
    prober           pings, and who does not answer
    rumours          what is new, and how often it is sent on
    comparing        two members find out what either lacks
    packing          which news go into which datagram
    worth_telling    which changes of loads and counts are news
"""
