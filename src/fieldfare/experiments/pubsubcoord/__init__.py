"""PubSubCoord's evaluation (its section 3), run again: the figures 5, 6 and 7.

settings        what the paper sets, and how much is done
networks        isolated networks, their edges and routing brokers, in the simulator
metering        what an input costs a broker, measured
service_times   the same as a function of the input, for simulated brokers
locality        figure 5, and what content saves
scaling         figures 6a, 6b, 6d, 6e
joining         figures 6c and 6f, at a real ZooKeeper
latency_budgets figure 7
live            real processes in network namespaces, beside the simulator
figures         all of them by name
"""
