"""What is read out of the subscription store: states and changes as Arrow columns, or single subscriptions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fieldfare.model import SubscriptionId
from fieldfare.store.database import Row
from fieldfare.store.incoming import INTEGER, moment_of


@dataclass(frozen=True, slots=True)
class State:
    """The active subscriptions at a version: columns number, subscription_id and condition, in the order of number."""

    version: int
    table: pa.Table


@dataclass(frozen=True, slots=True)
class Changes:
    """How to come from an earlier version to `version`. What began and ended in between is in neither part."""

    version: int
    ended: npt.NDArray[np.int64]  # numbers of subscriptions that were active at the earlier version
    started: pa.Table  # as in a State


@dataclass(frozen=True, slots=True)
class StoredSubscription:
    """An active subscription with all that is known of it; its number is the version at which it began."""

    number: int
    subscription_id: SubscriptionId
    condition: str
    tenant: str
    topic: str
    created_at: datetime
    expires_at: datetime | None


def stored_subscription(row: Row, id_type: str | None) -> StoredSubscription:
    """The subscription in a row of the table."""
    number, text, condition, tenant, topic, created_at, expires_at = row
    return StoredSubscription(
        number,
        int(text) if id_type == INTEGER else text,
        condition,
        tenant,
        topic,
        moment_of(created_at),
        None if expires_at is None else moment_of(expires_at),
    )


def subscription_table(chunks: Iterable[list[Row]], id_type: str | None) -> pa.Table:
    """Rows of (number, subscription_id, condition) as columns."""
    text = pa.large_string()
    schema = pa.schema(
        [("number", pa.int64()), ("subscription_id", pa.int64() if id_type == INTEGER else text), ("condition", text)]
    )
    batches = []
    for rows in chunks:
        numbers, ids, conditions = zip(*rows, strict=True)
        columns = [pa.array(numbers, pa.int64()), pa.array(ids, text), pa.array(conditions, text)]
        columns[1] = columns[1].cast(schema.field(1).type)
        batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    return pa.Table.from_batches(batches, schema)
