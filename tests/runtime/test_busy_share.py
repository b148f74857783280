"""How busy a routing broker says that it is."""

from __future__ import annotations

import time

import pytest

from fieldfare.runtime.busy_share import BusyShare


def test_a_moment_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, used = 100.0, 3.0
    monkeypatch.setattr(time, "monotonic", lambda: wall)
    monkeypatch.setattr(time, "process_time", lambda: used)
    share = BusyShare()
    wall, used = 100.5, 3.5  # a start takes all of a processor
    assert share() == 0.0
    wall, used = 105.0, 4.0
    assert share() == pytest.approx(0.2)
    wall = 105.1
    assert share() == pytest.approx(0.2)
    wall = 115.1
    assert share() == 0.0
