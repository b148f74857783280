"""Network addresses as texts that sort as the addresses do, so that every block of addresses is one interval.

An IPv4 address is 4 and eight hexadecimal digits, an IPv6 address 6 and 32 of them. An IPv6 address that stands for
an IPv4 one (::ffff:10.0.0.1) counts as that.
"""

from __future__ import annotations

import ipaddress


def sortable(address: str) -> str | None:
    """An address, sortable; None where the text is none."""
    try:
        found = ipaddress.ip_address(address.strip())
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is None:
            return None if found.scope_id else f"6{int(found):032x}"
        found = found.ipv4_mapped
    return f"4{int(found):08x}"


def block_bounds(block: str) -> tuple[str, str] | None:
    """The first and the last address of a block such as 10.0.0.0/8, sortable; None where the text is none."""
    try:
        network = ipaddress.ip_network(block.strip())
    except ValueError:
        return None
    first, last = sortable(str(network.network_address)), sortable(str(network.broadcast_address))
    return None if first is None or last is None else (first, last)


def block_text(first: str, last: str) -> str | None:
    """The block that has these bounds: what `block_bounds` takes; None where no single one has."""
    if first[:1] != last[:1] or first[:1] not in {"4", "6"}:
        return None
    address = ipaddress.IPv4Address if first[0] == "4" else ipaddress.IPv6Address
    try:
        blocks = list(ipaddress.summarize_address_range(address(int(first[1:], 16)), address(int(last[1:], 16))))
    except ValueError:
        return None
    return str(blocks[0]) if len(blocks) == 1 else None
