"""A workload of stock quotes: POP and GRAPE section V.

A condition is written twice from the same draws: as text for the index, as columns for peers and brute force.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fieldfare.bench.workload import (
    Codes,
    Column,
    Equals,
    Floats,
    Size,
    Workload,
    above,
    conditions_table,
    strings,
    subscription_ids,
    zipf,
)

SYMBOLS = 500
RARE_SHARE, MEDIUM_SHARE = 0.70, 0.25  # the rest asks for the symbol only
RARE_QUANTILES = (0.86, 0.94)  # thresholds between these take about 10% of a symbol's events
MEDIUM_QUANTILES = (0.24, 0.34)  # and two independent ones between these about 50%


def quotes(name: str, size: Size, rng: np.random.Generator) -> Workload:
    """Stock quotes as in POP and GRAPE section V: each symbol publishes alike, subscribers follow Zipf."""
    symbols = _symbols(rng)
    scale = np.round(rng.lognormal(12.0, 1.0, SYMBOLS))  # the usual volume of each symbol
    wanted = rng.choice(SYMBOLS, size.subscriptions, p=zipf(SYMBOLS)).astype(np.int32)
    kind = rng.random(size.subscriptions)
    rare, medium = kind < RARE_SHARE, (kind >= RARE_SHARE) & (kind < RARE_SHARE + MEDIUM_SHARE)
    difference = _thresholds(_high_low_diff(100_000, rng), RARE_QUANTILES, size.subscriptions, rng)
    turnover = np.round(_thresholds(_turnover(100_000, rng), MEDIUM_QUANTILES, size.subscriptions, rng) * scale[wanted])
    gain = _thresholds(_open_close_diff(100_000, rng), MEDIUM_QUANTILES, size.subscriptions, rng)
    columns: dict[str, Column] = {
        "symbol": Equals(symbols, wanted),
        "high_low_diff": above(difference, rare),
        "volume": above(turnover, medium),
        "open_close_diff": above(gain, medium),
    }
    texts = [f"symbol = '{symbols[code]}'" for code in wanted.tolist()]
    for row in np.flatnonzero(rare).tolist():
        texts[row] += f" AND high_low_diff > {difference[row]}"
    for row in np.flatnonzero(medium).tolist():
        texts[row] += f" AND volume > {int(turnover[row])} AND open_close_diff > {gain[row]}"
    ids = subscription_ids(size.subscriptions)
    published = rng.integers(0, SYMBOLS, size.events, dtype=np.int32)
    events = _quotes_events(symbols, published, scale, rng)
    values = {attribute: events[attribute].to_numpy() for attribute in columns if attribute != "symbol"}
    values = {"symbol": published} | values | {"volume": values["volume"].astype(np.float64)}
    return Workload(name, ids, columns, values, events, conditions_table(ids, texts))


def _quotes_events(symbols: tuple[str, ...], published: Codes, scale: Floats, rng: np.random.Generator) -> pa.Table:
    """One day's quote per event. Whatever subscriptions do not ask for travels along."""
    count = len(published)
    high_low, open_close = _high_low_diff(count, rng), _open_close_diff(count, rng)
    opening = np.round(scale[published] ** 0.3, 2)
    return pa.table(
        {
            "symbol": strings(symbols, published),
            "open": opening,
            "close": np.round(opening * (1.0 + open_close), 2),
            "volume": np.round(_turnover(count, rng) * scale[published]).astype(np.int64),
            "open_close_diff": open_close,
            "high_low_diff": high_low,
        }
    )


def _symbols(rng: np.random.Generator) -> tuple[str, ...]:
    letters = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    numbers = rng.choice(26**4, SYMBOLS, replace=False)
    return tuple("".join(letters[number // 26 ** np.arange(4) % 26]) for number in numbers.tolist())


def _high_low_diff(count: int, rng: np.random.Generator) -> Floats:
    return np.round(rng.lognormal(-3.6, 0.6, count), 5)


def _open_close_diff(count: int, rng: np.random.Generator) -> Floats:
    return np.round(rng.standard_t(4, count) * 0.012, 5)


def _turnover(count: int, rng: np.random.Generator) -> Floats:
    """Volume as a multiple of the symbol's usual volume."""
    return rng.lognormal(0.0, 0.8, count)


def _thresholds(sample: Floats, quantiles: tuple[float, float], count: int, rng: np.random.Generator) -> Floats:
    """Thresholds that vary between two quantiles of a sample."""
    return np.round(np.quantile(sample, rng.uniform(*quantiles, count)), 5)
