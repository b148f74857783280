"""`fieldfare bench overlay`: our edges and routing broker beside NATS leaf nodes and Zenoh routers, two hops apart."""
