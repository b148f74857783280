"""The catalog of compiled versions: which base and which delta together hold the subscriptions that are active now.

A change of subscriptions makes a small delta at once. When the delta has grown, or the layout is to change, a new
base is made by a process in the background, while batches go on with the old one. What the store has to remember is
how it came from the base to now: the catalog holds that, and removes, some at a time, what nobody holds any more.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fieldfare.errors import HistoryError, SnapshotError, StoreError
from fieldfare.partitioning.layout import Layout
from fieldfare.partitioning.plan import LayoutPlan, Reshape
from fieldfare.store.base import UNFINISHED, Base, Order, build_base, newest_base, open_base
from fieldfare.store.delta import Delta, write_delta
from fieldfare.store.parts import Version
from fieldfare.store.subscription_store import SubscriptionStore, open_store

DELTA_SHARE_MAX = 0.05  # of the base's subscriptions
DELTA_SIZE_MIN = 20_000  # a smaller delta is not worth a new base, whatever its share
HISTORY_SIZE_MIN = 200_000  # changes since the base that are worth a new one, though most have undone each other
RENEWAL_SECONDS = 3_600.0  # from one renewal of the hold on the store's history to the next
TIDYING_SECONDS = 60.0  # until the next try, where the store could not be changed
FORGET_ROWS_MAX = 10_000  # at once: others who change the store wait meanwhile


@dataclass(frozen=True, slots=True)
class _Build:
    """A base being made by another process."""

    process: subprocess.Popen[str]
    order: Order


class Catalog:
    """The versions of one store's subscriptions in one folder of shared storage. Used by one process at a time.

    `reader` is the name by which the store keeps history for it; without one it holds and removes none.
    """

    def __init__(self, store: SubscriptionStore, snapshots: Path, order: Order, reader: str | None = None) -> None:
        self._store = store
        self._reader = reader
        self._held: int | None = None  # the version from which on the store keeps its history for us
        self._renewal_at = 0.0  # seconds since 1970
        self._tidying_at = 0.0  # seconds since 1970: not before
        self._is_forgetting = False  # there may be history left that nobody holds
        self._snapshots = snapshots
        self._order = order
        self._base: Base | None = None
        self._delta: Delta | None = None
        self._used: list[set[Path]] = []
        self._build: _Build | None = None
        self.problem: str | None = None  # what could not be done in the background, and why, in a sentence

    def open(self) -> None:
        """Take the newest base that fits, or make one; remove what an earlier run left."""
        self._snapshots.mkdir(parents=True, exist_ok=True)
        scope, plan = self._order.scope, self._order.plan
        self._base = newest_base(self._snapshots, self._store, scope, plan) or self._new_base()
        self._clean(keep={self._base.folder})

    @property
    def base(self) -> Base:
        """The base in use."""
        if self._base is None:
            raise SnapshotError("the catalog is not open")
        return self._base

    @property
    def layout(self) -> Layout:
        """The layout in use."""
        return self.base.layout

    @property
    def subscriptions(self) -> int:
        """How many subscriptions the last version holds."""
        change = 0 if self._delta is None else self._delta.added - self._delta.removed
        return self.base.manifest.subscriptions + change

    @property
    def is_building(self) -> bool:
        """A new base is on its way."""
        return self._build is not None

    def version(self, now_seconds: float) -> Version:
        """The subscriptions that are active now, compiled. The version before stays on disk until the next call."""
        self._adopt()
        self._base = self._base or self._new_base()
        self._store.expire(now_seconds)
        self._refresh_delta()
        self._tidy_history(now_seconds)
        base, delta = self.base, self._delta
        folders = {base.folder} | ({delta.folder} if delta else set())
        self._used = [*self._used[-1:], folders]
        self._clean(keep=set().union(*self._used))
        number = delta.version if delta else base.version
        count = base.manifest.subscriptions
        is_large = delta is not None and delta.size > max(DELTA_SIZE_MIN, DELTA_SHARE_MAX * count)
        if is_large or number - base.version > max(HISTORY_SIZE_MIN, count):
            self.rebuild()
        return Version(str(base.folder), str(delta.folder) if delta else None, number)

    def rebuild(self, reshape: Reshape | None = None, plan: LayoutPlan | None = None) -> bool:
        """Begin a new base in the background, unless one is being made."""
        if self._build is not None:
            return False
        layout = Reshape.same(self.layout) if reshape is None and plan is None else reshape
        order = Order(self._order.scope, plan or self._order.plan, layout)
        self._build = _Build(_start(self._store.address, self._snapshots, order), order)
        return True

    def discard(self) -> None:
        """A compiled version is damaged: make the next one from the store again, without using what is on disk."""
        if self._base is not None:
            shutil.rmtree(self._base.folder, ignore_errors=True)
        self._base = self._delta = None

    def close(self) -> None:
        """Stop the process in the background, if one runs."""
        if self._build is not None:
            self._build.process.kill()
            self._build.process.communicate()
            self._build = None

    def _new_base(self) -> Base:
        return build_base(self._store, self._snapshots, self._order)

    def _adopt(self) -> None:
        """Change to the base that was made in the background, if it is there."""
        if self._build is None or self._build.process.poll() is None:
            return
        build, self._build = self._build, None
        output, errors = build.process.communicate()
        if build.process.returncode == 0:
            self._base, self._delta = open_base(Path(output.strip())), None
            self._order, self.problem = build.order, None
        else:
            reason = errors.strip().rpartition("\n")[2]
            self.problem = f"a new base was not made: {reason}"

    def _refresh_delta(self) -> None:
        known = self._delta.version if self._delta else self.base.version
        if self._store.version() == known:
            return
        changes = self._store.changes(self.base.version, tenant=self._order.scope.tenant, topic=self._order.scope.topic)
        self._delta = write_delta(self.base, changes)

    def _tidy_history(self, now_seconds: float) -> None:
        """Keep the history that is needed and remove some of the rest, unless the store cannot be changed now.

        Batches only read the store, and must not wait for somebody who writes to it for long.
        """
        if self._reader is None or now_seconds < self._tidying_at:
            return
        try:
            self._hold_and_forget(self._reader, now_seconds)
        except HistoryError:
            raise
        except StoreError as error:
            self._tidying_at = now_seconds + TIDYING_SECONDS
            self.problem = f"ended subscriptions stay in the store for now: {error}"

    def _hold_and_forget(self, reader: str, now_seconds: float) -> None:
        """Hold the history from the base on, and remove some of what neither we nor other readers need."""
        if self._held != self.base.version or now_seconds >= self._renewal_at:
            self._store.hold(reader, self.base.version, now_seconds=now_seconds)
            self._held, self._renewal_at = self.base.version, now_seconds + RENEWAL_SECONDS
            self._is_forgetting = True
        if self._is_forgetting:
            removed = self._store.forget_unheld(now_seconds=now_seconds, rows_max=FORGET_ROWS_MAX)
            self._is_forgetting = removed == FORGET_ROWS_MAX

    def _clean(self, keep: set[Path]) -> None:
        """Remove folders that no batch uses. While a base is being made, unknown folders stay: one may be that base."""
        stale = ("delta-",) if self._build else ("delta-", "base-", UNFINISHED)
        for folder in self._snapshots.iterdir():
            if folder.name.startswith(stale) and folder not in keep:
                shutil.rmtree(folder, ignore_errors=True)


class _Task(msgspec.Struct, frozen=True):
    address: str
    snapshots: str
    order: Order


def _start(address: str, snapshots: Path, order: Order) -> subprocess.Popen[str]:
    """A process that makes a base and prints its folder. The task goes through a pipe: it may hold a password."""
    process = subprocess.Popen(
        [sys.executable, "-m", "fieldfare.store.catalog"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None  # noqa: S101 - it was asked for
    process.stdin.write(msgspec.json.encode(_Task(address, str(snapshots), order)).decode())
    process.stdin.close()
    process.stdin = None  # communicate() would flush it again
    return process


def _main() -> None:
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=_Task)
    with open_store(task.address, create=False) as store:
        base = build_base(store, Path(task.snapshots), task.order)
    sys.stdout.write(str(base.folder))


if __name__ == "__main__":
    _main()
