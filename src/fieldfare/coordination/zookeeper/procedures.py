"""Runs procedures: one at a time for each key, some at a time in all, and again what a lost connection interrupted.

A key says what is to be brought up to date, such as the count of a topic. What to write, or whom to tell, is looked up
when its procedure runs. So however often a key is requested meanwhile, the procedure runs once more, with the latest.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from fieldfare.coordination.zookeeper.znodes import (
    Answer,
    AnyRequest,
    InterruptedRequestError,
    Procedure,
    ZnodeError,
)
from fieldfare.messages import Input

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class MemberOptions:
    """Limits of what a broker asks of ZooKeeper."""

    writes_max: int = 8  # under way at a time
    reads_max: int = 64
    offers_max: int = 1000  # changes of topics' offers that wait
    load_seconds: float = 2.0  # a broker's load is announced no more often
    retry_seconds: float = 0.2  # after an interruption
    refused_seconds: float = 5.0  # until what ZooKeeper refused is tried again


class ZooKeeperPort(Protocol):
    """What a broker's work at ZooKeeper needs of the world it runs in."""

    def submit(self, request: AnyRequest, then: Callable[[Answer], None]) -> None:
        """Send a request; its answer, or its ZnodeError, is handed to a function later. Answers keep the order."""
        ...

    def tell(self, message: Input) -> None:
        """Tell the node."""
        ...

    def later(self, seconds: float, action: Callable[[], None]) -> object:
        """Do something after a time."""
        ...

    def report(self, problem: str) -> None:
        """Tell people that something has to be repaired."""
        ...


class Procedures(Generic[K]):
    """Procedures of one kind, by key. While it is closed, which it is at first, none begins."""

    def __init__(
        self, port: ZooKeeperPort, start: Callable[[K], Procedure[None]], in_hand_max: int, options: MemberOptions
    ) -> None:
        self._port, self._start, self._in_hand_max, self._options = port, start, in_hand_max, options
        self._due: dict[K, None] = {}
        self._in_hand: dict[K, bool] = {}  # whether it was requested again meanwhile
        self._is_open = False

    @property
    def is_open(self) -> bool:
        """Whether procedures begin."""
        return self._is_open

    def waits(self) -> list[str]:
        """What is not done, for people who look at a run that failed."""
        return [f"{key!r} is under way" for key in self._in_hand] + [f"{key!r} is due" for key in self._due]

    def open(self) -> None:
        """Begin with all that is due."""
        self._is_open = True
        self._begin()

    def close(self) -> None:
        """Begin nothing more. What is under way goes on as far as it can."""
        self._is_open = False

    def request(self, key: K) -> None:
        """Run the procedure of a key, soon, and once more if it is under way."""
        if key in self._in_hand:
            self._in_hand[key] = True
        else:
            self._due[key] = None
            self._begin()

    def _begin(self) -> None:
        while self._is_open and self._due and len(self._in_hand) < self._in_hand_max:
            key = next(iter(self._due))
            del self._due[key]
            self._in_hand[key] = False
            self._resume(key, self._start(key), None)

    def _resume(self, key: K, procedure: Procedure[None], answer: Answer) -> None:
        try:
            request = procedure.throw(answer) if isinstance(answer, ZnodeError) else procedure.send(answer)
        except StopIteration:
            self._finish(key)
        except InterruptedRequestError:
            self._finish(key, self._options.retry_seconds)
        except ZnodeError as error:
            self._port.report(f"{type(error).__name__}: {error}, for {key!r}")
            self._finish(key, self._options.refused_seconds)
        else:
            self._port.submit(request, lambda answer: self._resume(key, procedure, answer))

    def _finish(self, key: K, again_seconds: float | None = None) -> None:
        is_due_again = self._in_hand.pop(key)
        if again_seconds is not None:
            self._port.later(again_seconds, lambda: self.request(key))
        elif is_due_again:
            self._due[key] = None
        self._begin()
