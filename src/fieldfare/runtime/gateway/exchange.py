"""A short connection to the broker, for one request: ask, then take what comes."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self, TypeVar

from fieldfare.messages import (
    Accepted,
    ClientFrame,
    Deliver,
    Done,
    EdgeFrame,
    Identity,
    Listed,
    Position,
    Refused,
    Subscribed,
    Unsubscribed,
)
from fieldfare.runtime.gateway.mailbox import Mailbox, MailboxClosedError
from fieldfare.runtime.gateway.ports import Gateway
from fieldfare.runtime.gateway.problems import ProblemError, invalid, unavailable

REF = 1  # one question at a time needs one number only
POSITION_MAX = 2**63 - 1
A = TypeVar("A", Accepted, Subscribed, Unsubscribed, Done, Listed)


class Exchange:
    """What one HTTP request says to the broker, and what it hears."""

    def __init__(self, gateway: Gateway, identity: Identity) -> None:
        self._seconds_max = gateway.options.answer_seconds
        self._tells_log = bool(gateway.options.log_id())
        self._mailbox: Mailbox[EdgeFrame] = Mailbox(gateway.options.waiting_bytes_max)
        self._connection = gateway.broker.connect(identity, self._put, self._mailbox.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """The request is over."""
        self._connection.close()

    def send(self, frame: ClientFrame) -> None:
        """Say what has no answer."""
        self._connection.send(frame)

    def position(self, place: str | None) -> tuple[Position | None, str | None]:
        """The position and the log that a client names, as frames have them."""
        number, _, log = (place or "").partition("@")
        position = int(number) if number else None
        if position is not None and position > POSITION_MAX:
            raise invalid("there is no such position")
        return position, self.log(log)

    def log(self, named: str) -> str | None:
        """The log that a client names, or none. None: this service tells nobody of logs."""
        return named if self._tells_log else None

    async def ask(self, frame: ClientFrame, answer_type: type[A]) -> tuple[A, list[EdgeFrame]]:
        """The answer to a frame with `ref=REF`, and what came with it; a ProblemError if it is refused."""
        self.send(frame)
        came: list[EdgeFrame] = []
        try:
            async with asyncio.timeout(self._seconds_max):
                while True:
                    came += await self.take()
                    for number, answer in enumerate(came):
                        if isinstance(answer, answer_type):
                            return answer, came[:number] + came[number + 1 :]
                        if isinstance(answer, Refused):
                            raise ProblemError.of_refusal(answer)
        except TimeoutError:
            raise ProblemError(
                504, "timeout", "no answer in time: it may or may not have happened; send it again with the same ids"
            ) from None

    async def take(self) -> list[EdgeFrame]:
        """All that came, once something has."""
        try:
            return await self._mailbox.take()
        except MailboxClosedError as error:
            raise unavailable(str(error)) from error

    def _put(self, frames: list[EdgeFrame]) -> None:
        for frame in frames:
            self._mailbox.put(frame, _size_bytes(frame))


def _size_bytes(frame: EdgeFrame) -> int:
    return sum(memoryview(event).nbytes for event in frame.events) if isinstance(frame, Deliver) else 64
