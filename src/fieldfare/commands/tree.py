"""What `fieldfare brokers --url` prints: a tree as the broker at that address sees it."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.table import Column, Table

from fieldfare.errors import FieldfareError, InputError, NotConnectedError, refusal

if TYPE_CHECKING:
    from fieldfare.commands.connecting import Service
    from fieldfare.routing.tree.view import TreeView

_ANSWER_SECONDS = 10.0


def read_tree(service: Service) -> TreeView:
    """Ask a broker. An error that says why it does not answer, or refuses."""
    from fieldfare.routing.tree.view import TreeView

    if not service.url.startswith(("http://", "https://")):
        raise InputError(f"{service.url}: where a broker is for clients begins with http:// or https://")
    token = service.token()
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{service.url.rstrip('/')}/v1/tree", headers=headers)  # noqa: S310 - checked above
    tls = None if service.ca_file is None else ssl.create_default_context(cafile=service.ca_file)
    opener = urllib.request.build_opener(_NoRedirects(), urllib.request.HTTPSHandler(context=tls))
    try:
        with opener.open(request, timeout=_ANSWER_SECONDS) as answer:
            return msgspec.json.decode(answer.read(), type=TreeView)
    except urllib.error.HTTPError as error:
        raise _refused(service.url, error) from error
    except msgspec.MsgspecError as error:
        raise NotConnectedError(f"what answers at {service.url} is no broker of a tree") from error
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise NotConnectedError(f"cannot connect to {service.url}: {reason}\nIs the broker running?") from error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A broker sends nobody elsewhere, and a token is not for others."""

    def redirect_request(self, *_: object) -> None:
        return None


class _Problem(msgspec.Struct):
    code: str
    detail: str


def _refused(url: str, error: urllib.error.HTTPError) -> FieldfareError:
    try:
        problem = msgspec.json.decode(error.read(), type=_Problem)
    except msgspec.MsgspecError:
        return NotConnectedError(f"what answers at {url} is no broker of a tree: it says {error.code}")
    return refusal(problem.code, f"{url}: {problem.detail}")


def print_tree(tree: TreeView) -> None:
    """Brokers, links and topics as tables."""
    console = Console()
    places = [Column(name, overflow="fold") for name in ("address", "clients at")]  # cut off they would be of no use
    brokers = Table(
        "broker", "hops", "over", *places, "load", "topics", "behind", title=f"Brokers, seen by {tree.name}"
    )
    for broker in tree.brokers:
        brokers.add_row(
            broker.name,
            str(broker.hops),
            broker.over,
            broker.address,
            broker.url,
            f"{broker.load:.0%}",
            str(broker.topic_count),
            f"{broker.behind:,}",
        )
    links = Table("neighbour", "sent", "waiting", "window", "received", title=f"Links of {tree.name}, in bytes")
    for link in tree.links:
        counts = (link.sent_bytes, link.waiting_bytes, link.window_bytes, link.received_bytes)
        links.add_row(link.neighbour, *(f"{count:,}" for count in counts))
    topics = Table("topic", "brokers", "published at", "owed", title="Topics")
    for topic in tree.topics:
        topics.add_row(topic.topic, *map(", ".join, (topic.brokers, topic.publishing, topic.owed)))
    for table in (brokers, links, topics):
        console.print(table)
    if tree.away:
        console.print(f"Neighbours that are away: {', '.join(tree.away)}")
