"""The evaluation of POP and GRAPE (the paper's section V): on a model of a tree, on real brokers, and live.

Tracing, selection and damping are the code of `fieldfare.placement` everywhere, frame by frame. On the model, events
are not matched or stored but counted; utilisation is arrival rate times service time; waiting is that of a queue with
random arrivals and equal service (M/D/1); a relocation takes no time, and frames of placement take neither time nor any
share of a broker. Figures `brokers` and `moving` run the brokers of a tree in the simulator, and `live` as processes.
The stock quotes are generated.

settings         what the paper sets, and how much is done
stock_quotes     generated quotes, and the paper's three kinds of subscription
workloads        publishers and subscribers in a tree: enterprise and random
load_model       rates, utilisation, delays and hops, with publishers at given brokers
strategies       POP and GRAPE on the model
best_placements  the best placements, by trying all brokers
state_size       how much memory placement holds
laboratory       strategies on workloads, averaged over seeds
comparison       figures 5, 6a to 6d, 6h and 6i: all strategies, by how many brokers have subscribers
waiting_times    figures 6e to 6g: pings, selection and relocation
tuning           figure 7: weights and thresholds; and what damping does
selection        how long choosing a broker takes
tree_simulation  the brokers of a tree in the simulator, with the workload's clients
tree_comparison  the model beside them
tree_moving      the same with publishers that move by themselves
live_tree        the brokers of a tree as processes
live             the simulator beside them
figures          all of them by name
"""
