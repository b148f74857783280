"""The store against a slow oracle: the whole state, kept at every version."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fieldfare.errors import DuplicateIdError, UnknownIdError
from fieldfare.store import SubscriptionStore, open_store

IDS = st.sets(st.integers(0, 6), min_size=1, max_size=4).map(sorted)


class Held(NamedTuple):
    number: int
    condition: str
    expires_seconds: float


class History(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store: SubscriptionStore = open_store(self.folder / "subscriptions.db")
        self.now_seconds = 0.0
        self.active: dict[int, Held] = {}
        self.states: dict[int, dict[int, Held]] = {0: {}}
        self.held: dict[str, int] = {}
        self.literal = 0

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    def end_expired(self) -> int:
        due = [identifier for identifier, held in self.active.items() if held.expires_seconds <= self.now_seconds]
        for identifier in due:
            del self.active[identifier]
        return len(due)

    @rule(ids=IDS, lifetime_seconds=st.none() | st.integers(1, 5), replace=st.booleans())
    def add(self, ids: list[int], lifetime_seconds: int | None, replace: bool) -> None:
        self.literal += 1
        given = dict.fromkeys(ids, f"x = {self.literal}")
        arguments = {"lifetime_seconds": lifetime_seconds, "now_seconds": self.now_seconds, "replace": replace}
        living = {identifier for identifier, held in self.active.items() if held.expires_seconds > self.now_seconds}
        if living & set(ids) and not replace:
            with pytest.raises(DuplicateIdError):
                self.store.add(given, **arguments)  # type: ignore[arg-type]
            return
        before = max(self.states)
        version = self.store.add(given, **arguments)  # type: ignore[arg-type]
        assert version == before + len(ids)
        self.end_expired()
        expires = float("inf") if lifetime_seconds is None else self.now_seconds + lifetime_seconds
        for number, identifier in enumerate(ids, start=before + 1):
            self.active[identifier] = Held(number, given[identifier], expires)
        self.states[version] = dict(self.active)

    @rule(ids=IDS)
    def remove(self, ids: list[int]) -> None:
        if not self.active.keys() >= set(ids):
            with pytest.raises(UnknownIdError):
                self.store.remove(ids)
            return
        for identifier in ids:
            del self.active[identifier]
        self.states[self.store.remove(ids)] = dict(self.active)

    @rule(seconds=st.integers(1, 4))
    def expire(self, seconds: int) -> None:
        self.now_seconds += seconds
        ended = self.end_expired()
        assert self.store.expire(self.now_seconds) == ended
        self.states[self.store.version()] = dict(self.active)

    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.states)))
        self.store.forget(version)
        self.states = {known: state for known, state in self.states.items() if known >= version}

    @rule(reader=st.sampled_from(["one", "two"]), data=st.data())
    def hold(self, reader: str, data: st.DataObject) -> None:
        self.held[reader] = data.draw(st.sampled_from(sorted(self.states)))
        self.store.hold(reader, self.held[reader], now_seconds=self.now_seconds)

    @rule(rows_max=st.integers(1, 3))
    def forget_unheld(self, rows_max: int) -> None:
        assert self.store.forget_unheld(now_seconds=self.now_seconds, rows_max=rows_max) <= rows_max
        if self.held:
            oldest = min(self.held.values())
            self.states = {known: state for known, state in self.states.items() if known >= oldest}

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(self.folder / "subscriptions.db", create=False)

    @invariant()
    def every_version_is_as_it_was(self) -> None:
        assert self.store.version() == max(self.states)
        for version, state in self.states.items():
            rows = self.store.active(version).table.to_pylist()
            expected = sorted((held.number, identifier, held.condition) for identifier, held in state.items())
            assert [tuple(row.values()) for row in rows] == expected

    @invariant()
    def changes_lead_from_any_version_to_the_last(self) -> None:
        for version, state in self.states.items():
            changes = self.store.changes(version)
            numbers = {held.number for held in state.values()}
            assert set(changes.ended.tolist()) <= numbers
            started = changes.started["number"].to_pylist()
            assert not numbers & set(started)
            last = {held.number for held in self.active.values()}
            assert numbers - set(changes.ended.tolist()) | set(started) == last


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
