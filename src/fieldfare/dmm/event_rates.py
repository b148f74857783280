"""How many events visit each region at a peer: what the choice of primary attributes is made by."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from fieldfare.dmm.spaces import RegionName

_REGIONS_MAX = 10_000


@dataclass(slots=True)
class _Window:
    began_at: float
    count: int = 0
    rate: float = 0.0  # of the window before


class EventRates:
    """Events for each second, in windows of equal length. Regions that are asked for least recently are forgotten."""

    def __init__(self, window_seconds: float) -> None:
        self._window_seconds = window_seconds
        self._windows: OrderedDict[RegionName, _Window] = OrderedDict()

    def note(self, region: RegionName, now: float) -> None:
        """An event has visited a region."""
        self._at(region, now).count += 1

    def rate(self, region: RegionName, now: float) -> float:
        """Events for each second of late; while there is no full window, of the time since the first one."""
        if region not in self._windows:
            return 0.0
        window = self._at(region, now)
        return max(window.rate, window.count / self._window_seconds)

    def _at(self, region: RegionName, now: float) -> _Window:
        window = self._windows.get(region)
        if window is None:
            window = self._windows[region] = _Window(now)
            if len(self._windows) > _REGIONS_MAX:
                self._windows.popitem(last=False)
        self._windows.move_to_end(region)
        age = now - window.began_at
        if age >= self._window_seconds:
            is_old = age >= 2 * self._window_seconds
            window.rate = 0.0 if is_old else window.count / age
            window.began_at, window.count = now, 0
        return window
