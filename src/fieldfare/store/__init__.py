"""What outlives processes: subscriptions and what is compiled from them, a node's journal, a pipeline's output.

subscription_store   all subscriptions that ever were, with their versions; `sqlite` and `postgres` hold the tables
catalog              the compiled subscriptions: a base and a delta for each version that is in use
journal              the log of a node: events and other records; `folder` is its disk
outputs              what the pipeline has committed, for readers
"""

from __future__ import annotations

from fieldfare.store.subscription_store import Changes, State, StoredSubscription, SubscriptionStore, open_store

__all__ = ["Changes", "State", "StoredSubscription", "SubscriptionStore", "open_store"]
