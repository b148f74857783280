"""A consumer of a shared subscription, as a program: it says what it gets and what it is done with, until it is killed.

`python consumer_program.py URL SECONDS`: SECONDS is how long it takes for an event. Every fifth event is refused once.
"""

from __future__ import annotations

import asyncio
import sys

import fieldfare
from fieldfare.client.options import ClientOptions
from fieldfare.qos import Consuming

CONSUMING = Consuming(is_shared=True, key="key", attempts_max=20, backoff_seconds=0.2, take_seconds=20.0)


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def main(url: str, seconds: float) -> None:
    options = ClientOptions(reconnect_delay_seconds_max=0.2)
    async with fieldfare.connect(url, options=options) as client:
        jobs = await client.subscribe("jobs", "number >= 0", name="shared", consuming=CONSUMING)
        say("ready")
        async for event in jobs:
            number, key = event.attributes["number"], event.attributes["key"]
            say("got", number, key, event.attempt)
            await asyncio.sleep(seconds)
            if number % 5 == 0 and event.attempt == 1:
                jobs.nack(event, "once more")
                say("refused", number, key, event.attempt)
            else:
                jobs.ack(event)
                say("done", number, key, event.attempt)


asyncio.run(main(sys.argv[1], float(sys.argv[2])))
