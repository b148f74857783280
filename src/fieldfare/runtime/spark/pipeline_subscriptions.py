"""The edge's subscriptions in the store that the pipeline reads, under ids that no two tenants share.

The store follows the edge: changes are made as they are handed over, many at a time, and when an edge starts, the store
is made to hold exactly what the edge has. Ids that are not the bridge's are left alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import pyarrow as pa

from fieldfare.errors import FieldfareError
from fieldfare.messages import HandedOver, HandSubscription
from fieldfare.runtime.spark.event_lines import MARK
from fieldfare.runtime.spark.options import SparkTopic
from fieldfare.store.subscription_store import SubscriptionStore

_OURS, _MARKS = "s/", "m/"
_Row = tuple[str, str, str, str]  # subscription_id, condition, tenant, topic


def subscription_of(tenant: str, key: str) -> str:
    """The edge's own id of a subscription that the pipeline names."""
    return key.removeprefix(f"{_OURS}{tenant}/")


class PipelineSubscriptions:
    """Changes the store; for one thread at a time."""

    def __init__(self, store: SubscriptionStore) -> None:
        self._store = store

    def begin(self, topics: Iterable[SparkTopic]) -> None:
        """Let the store hold what the edge has: what was on its way when the edge ended may be missing, or too much."""
        wanted = {
            row[0]: row
            for topic in topics
            for row in (
                _mark(topic.tenant, topic.topic),
                *(_row(topic.tenant, topic.topic, name, text) for name, text in topic.subscriptions.items()),
            )
        }
        table = self._store.active().table
        found = dict(zip(table["subscription_id"].to_pylist(), table["condition"].to_pylist(), strict=True))
        self._add([row for key, row in wanted.items() if found.get(key) != row[1]])
        self._store.remove(
            key for key in found.keys() - wanted.keys() if isinstance(key, str) and key.startswith((_OURS, _MARKS))
        )

    def want_marks(self, tenant: str, topic: str) -> None:
        """Have the pipeline of a topic give marks back."""
        row = _mark(tenant, topic)
        if not self._store.known([row[0]]):
            self._add([row])

    def change(self, effects: Sequence[HandSubscription]) -> list[HandedOver]:
        """Add and remove, all together; or where something is wrong one by one, so that only that one fails."""
        try:
            self._change(effects)
        except FieldfareError as error:
            if len(effects) == 1:
                return [HandedOver(effects[0].number, str(error))]
            return [result for effect in effects for result in self.change([effect])]
        return [HandedOver(effect.number) for effect in effects]

    def _change(self, effects: Sequence[HandSubscription]) -> None:
        last = {f"{_OURS}{effect.tenant}/{effect.subscription}": effect for effect in effects}
        self._add(
            [
                _row(effect.tenant, effect.topic, effect.subscription, effect.condition)
                for effect in last.values()
                if effect.condition is not None
            ]
        )
        self._store.remove(self._store.known(key for key, effect in last.items() if effect.condition is None))

    def _add(self, rows: Sequence[_Row]) -> None:
        if rows:
            columns = [pa.array(column, pa.large_string()) for column in zip(*rows, strict=True)]
            table = pa.table(columns, ["subscription_id", "condition", "tenant", "topic"])
            self._store.add(table, now_seconds=time.time(), replace=True)


def _row(tenant: str, topic: str, subscription: str, condition: str) -> _Row:
    return f"{_OURS}{tenant}/{subscription}", condition, tenant, topic


def _mark(tenant: str, topic: str) -> _Row:
    return f"{_MARKS}{tenant}/{topic}", f"{MARK} IS NOT NULL", tenant, topic
