"""Z-codes: strings of zeros and ones that name the regions of a space, each half of the region that its prefix names.

The empty code is the whole space. A code with one more digit is its lower (0) or upper (1) half along one axis; which
axis is decided by the space (see regions.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, TypeAlias

from msgspec import Meta

ZCode: TypeAlias = Annotated[str, Meta(pattern="^[01]*$", max_length=16_384)]
ROOT: ZCode = ""


def parent_of(code: ZCode) -> ZCode:
    """The region of which this is a half; the whole space has none."""
    return code[:-1]


def children_of(code: ZCode) -> tuple[ZCode, ZCode]:
    """The two halves of a region."""
    return code + "0", code + "1"


def sibling_of(code: ZCode) -> ZCode:
    """The other half of the same region."""
    return code[:-1] + ("1" if code[-1] == "0" else "0")


def siblings_on_path(path: ZCode, after: int, upto: int) -> Iterator[ZCode]:
    """The siblings of the prefixes of a path, from those of `after` + 1 digits to those of `upto` digits.

    Together with the prefix of `upto` digits they are the prefix of `after` digits, divided into disjoint regions.
    """
    for length in range(after + 1, upto + 1):
        yield sibling_of(path[:length])
