"""Subscriptions that outlive processes: a durable, versioned log of them, and what is compiled from it.

`log` is what people hold, and knows no database by name; `sqlite` and `postgres` are the two there are.
"""

from __future__ import annotations

from fieldfare.store.log import Changes, State, StoredSubscription, SubscriptionStore, open_store

__all__ = ["Changes", "State", "StoredSubscription", "SubscriptionStore", "open_store"]
