"""`fieldfare placement`: where the publishers of a tree are, and what moving them has brought."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fieldfare.commands.connecting import DEFAULT_URL, CaFile, Service, TokenPath, Url
from fieldfare.commands.tables import print_table

if TYPE_CHECKING:
    from rich.table import Table


def placement(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines in place of a table.")] = False,
    url: Url = DEFAULT_URL,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Show the publishers of a tree's broker that POP or GRAPE watches: traces, the last decision, predicted gains.

    A cost is that of one event: messages between brokers, seconds or hops, summed over its deliveries. The broker is
    asked about its own publishers: ask each broker by its URL.

    Example: `fieldfare placement --url http://127.0.0.1:7380`
    """
    publishers = Service(url, token_file, ca_file).run(lambda client: client.placement())
    if as_json:
        for publisher in publishers:
            typer.echo(json.dumps(publisher))
    else:
        print_table(_table(publishers))


def _table(publishers: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table("publisher", "broker", "came from", "traced", "last decision", "cost of an event", title="Publishers")
    for each in publishers:
        table.add_row(
            each["publisher"],
            each["broker"],
            each["source"] or "",
            f"{each['traced']:,}",
            each["verdict"] or "not enough was traced yet",
            _costs(each),
        )
    return table


def _costs(publisher: dict[str, Any]) -> str:
    """The cost before a move, what was predicted and what came; or what it is here."""
    measure, here = publisher["measure"], publisher["cost_here"]
    now = "not known yet" if here is None else f"{here:.3g} {measure}"
    if publisher["cost_before"] is None:
        return "" if here is None else now
    return f"{publisher['cost_before']:.3g} → predicted {publisher['cost_predicted']:.3g}, now {now}"
