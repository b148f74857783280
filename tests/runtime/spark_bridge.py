"""A bridge in a process of its own, to be killed: effects come in and messages go out, as lines of JSON.

Its edge is a list: what it was told is stored at once. Ends by the end of its input.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TypeAlias

import msgspec

from fieldfare.messages import HandedOver, HandEvents, HandSubscription, Input, PipelineMatched
from fieldfare.runtime.spark import SparkBridge, SparkOptions, SparkTopic


class Events(HandEvents, frozen=True, tag=True):
    pass


class Subscription(HandSubscription, frozen=True, tag=True):
    pass


class Handed(HandedOver, frozen=True, tag=True):
    pass


class Matched(PipelineMatched, frozen=True, tag=True):
    pass


class Ready(msgspec.Struct, frozen=True, tag=True):
    pass


Effect: TypeAlias = Events | Subscription
Said: TypeAlias = Handed | Matched | Ready


def say(message: Said) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


async def serve(folder: Path, stored: int, topic: SparkTopic) -> None:
    batches = [stored]

    def tell(message: Input) -> None:
        if isinstance(message, PipelineMatched):
            batches.append(message.batch)
            say(Matched(**msgspec.structs.asdict(message)))
        elif isinstance(message, HandedOver):
            say(Handed(**msgspec.structs.asdict(message)))

    bridge = SparkBridge(SparkOptions(folder, master="local[2,4]"))
    await bridge.start(tell, lambda _tenant, _topic: batches[-1], [topic])
    reader = asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    was_ready = False
    while True:
        try:
            line = await asyncio.wait_for(reader.readline(), 0.1)
        except TimeoutError:
            is_ready = bridge.why_not_ready() is None
            if is_ready and not was_ready:
                say(Ready())
            was_ready = is_ready
            continue
        if not line:
            break
        bridge.perform(msgspec.json.decode(line, type=Effect))
    await bridge.stop()


if __name__ == "__main__":
    known = SparkTopic("ours", "traffic", msgspec.json.decode(sys.argv[3], type=dict[str, str]))
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2]), known))
