"""The name that `fieldfare.store.subscription_store` had up to version 0.3, for programs that import from here."""

from __future__ import annotations

from fieldfare.store.subscription_store import SubscriptionStore, open_store

__all__ = ["SubscriptionStore", "open_store"]
