"""Three laptops on one network, without a server: what is typed on one appears on those that want it.

Make a secret once, and bring it to all three. Then start this on each, with its own address in the network:

    $ export FIELDFARE_PEERS_SECRET="$(openssl rand -base64 32)"
    $ python three_laptops.py anna  192.168.1.7:7400
    $ python three_laptops.py ben   192.168.1.8:7400 --join 192.168.1.7:7400 --wants "kind = 'build' AND minutes > 5"
    $ python three_laptops.py carla 192.168.1.9:7400 --join 192.168.1.7:7400 --wants "kind IN ('lunch', 'build')"

and type lines such as `{"kind": "build", "minutes": 7, "text": "main is red"}`; Ctrl-D ends it. With `--folder NAME` a
laptop may be closed or crash: what it said, and what others said meanwhile, arrives when it is back, within the hour.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from typing import Any

import fieldfare
from fieldfare.client.events import Event
from fieldfare.errors import FieldfareError, RefusedError
from fieldfare.qos import Published

TOPIC = "office"
HOUR = Published(lifespan_seconds=3600)


async def run(given: argparse.Namespace) -> None:
    """Be a peer until the input ends."""
    secret = os.environ.get("FIELDFARE_PEERS_SECRET")  # peers on one machine can do without
    async with fieldfare.peer(
        given.join, listen=given.address, name=given.name, secret=secret, folder=given.folder
    ) as peer:
        durable = None if given.folder is None else "mine"
        await peer.subscribe(TOPIC, given.wants, show, name=durable)
        print(f"{peer.name} is at {peer.address}, and hears: {given.wants}", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                outcome = await peer.publish(TOPIC, line.encode(), qos=HOUR)
            except RefusedError as error:
                print(f"Not said: {error}", flush=True)
                continue
            asleep = f"; {', '.join(outcome.outstanding)} will hear it later" if outcome.outstanding else ""
            print(f"Said, and heard by {outcome.taken}{asleep}", flush=True)


def show(event: Event[Any]) -> None:
    """Print what somebody said."""
    print(f"{event.publisher}: {event.attributes}", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name")
    parser.add_argument("address", help="HOST:PORT of this laptop, where the others reach it by UDP")
    parser.add_argument("--join", metavar="HOST:PORT", help="a laptop that is there; the first one leaves this out")
    parser.add_argument("--wants", metavar="CONDITION", default="TRUE", help="which events to show, as a SQL condition")
    parser.add_argument("--folder", help="where to keep what was said and not heard by all, for when it is closed")
    try:
        asyncio.run(run(parser.parse_args()))
    except FieldfareError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
