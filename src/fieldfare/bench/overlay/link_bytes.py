"""How many bytes the TCP connections of a port have carried, as the kernel counts them: the same measure for all.

Linux answers this over netlink (sock_diag, see its manual page, and `struct tcp_info` of linux/tcp.h), for sockets of
any process and without special rights. `ss --info` reads the same.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterator

_SOCK_DIAG = 4  # the netlink protocol
_SOCK_DIAG_BY_FAMILY = 20  # the only type of request
_REQUEST_DUMP = 0x301
_DONE, _ERROR = 3, 2  # types of messages that end an answer
_WITH_TCP_INFO, _TCP_INFO = 1 << 1, 2
_ESTABLISHED = 1 << 1
_HEADER_BYTES, _SOCKET_BYTES = 16, 72
_ACKED_AND_RECEIVED = 120  # where they stand in tcp_info, eight bytes each


def connection_bytes(port: int) -> int | None:
    """What all open connections to a port of this machine have carried, both ways; None where nobody tells."""
    if sys.platform != "linux":
        return None
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.send(_request(port))
        return sum(_counts(kernel))


def _request(port: int) -> bytes:
    """A request for the connections whose side on this machine has the port."""
    wanted = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, _WITH_TCP_INFO, _ESTABLISHED)
    anywhere = bytes(32) + struct.pack("=III", 0, 0xFFFF_FFFF, 0xFFFF_FFFF)  # addresses, interface, any cookie
    body = wanted + struct.pack("!HH", port, 0) + anywhere
    return struct.pack("=IHHII", _HEADER_BYTES + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0) + body


def _counts(kernel: socket.socket) -> Iterator[int]:
    """The bytes of each connection in an answer."""
    while True:
        data = kernel.recv(1 << 16)
        start = 0
        while start < len(data):
            length, kind = struct.unpack_from("=IH", data, start)
            if kind == _DONE:
                return
            if kind == _ERROR:
                raise OSError(-struct.unpack_from("=i", data, start + _HEADER_BYTES)[0], "sock_diag")
            yield _count(data[start + _HEADER_BYTES + _SOCKET_BYTES : start + length])
            start += _aligned(length)


def _count(attributes: bytes) -> int:
    start = 0
    while start < len(attributes):
        length, kind = struct.unpack_from("=HH", attributes, start)
        if kind == _TCP_INFO:
            acked, received = struct.unpack_from("=QQ", attributes, start + 4 + _ACKED_AND_RECEIVED)
            return int(acked + received)
        start += _aligned(length)
    return 0


def _aligned(length: int) -> int:
    return (length + 3) & ~3
