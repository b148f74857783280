"""The evaluation of DMM and DMM-AR (the paper's section VI), with the real peers in the simulator.

    Muthusamy, Jacobsen: Infrastructure-less content-based publish/subscribe

settings        what the paper sets, what we set, the algorithms that are compared, and how much is done
workload        the paper's subscriptions and publications, and which of them match
metering        what peers send, counted by kind, in datagrams and in links of the network below
floors          how few links could do
laboratory      one run after the other, shared by the figures
experiment      one run: subscribe, publish, perhaps crash
outcome         what a run found
scalability     figures 8 to 11: by the number of subscriptions
delays          figures 12 and 13
state           figure 14
dimensionality  figures 15 and 16
crash           figure 17
loss            what is delivered while more and more is lost
replicas        what neighbours keep for a peer, in bytes and in seconds
figures         all of them by name
"""
