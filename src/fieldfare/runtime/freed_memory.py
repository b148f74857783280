"""Keep memory that was freed, instead of giving it back to the system and asking for it again with the next message.

By default glibc gives back blocks of more than 128 KiB at once, and whatever is free at the end of its heap beyond as
much. A process through which large messages pass then spends most of its time on page faults: over a link, a frame of
100 kB takes three times the CPU time.
"""

from __future__ import annotations

import ctypes

_MIB = 1024 * 1024
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h
_BLOCK_BYTES = 32 * _MIB  # the most that glibc takes; larger blocks are given back at once
_KEPT_BYTES = 64 * _MIB  # at the end of the heap


def keep_freed_memory() -> bool:
    """From now on, in this process; whether the C library can do that."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library, or another system: it has rules of its own
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _BLOCK_BYTES) and mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES))
