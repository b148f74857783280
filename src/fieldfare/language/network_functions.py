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
