"""Brokers as state machines: what happened goes in, what is to be done comes out, and nothing else happens.

`edge` is the broker that clients connect to. Hosts run it: `fieldfare.runtime` for real, `fieldfare.simulation` under a
virtual clock.
"""
