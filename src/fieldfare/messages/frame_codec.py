"""What every wire protocol of a link offers: frames become messages, and messages become frames again.

A message is what a transport carries in one piece. `lines.LineCodec` writes JSON, one frame on each line;
`broker_codec.BROKER_FRAMES` writes msgpack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

In_co = TypeVar("In_co", covariant=True)
Out_contra = TypeVar("Out_contra", contravariant=True)


class FrameCodec(Protocol[In_co, Out_contra]):
    """One end of a wire protocol: the frames that it reads, and those that it writes."""

    def encode(self, frames: Iterable[Out_contra]) -> Iterator[bytes]:
        """Messages that hold the frames: as few as FRAME_BYTES_MAX allows. A longer frame is a message of its own."""
        ...

    def decode(self, message: bytes) -> Sequence[In_co]:
        """The frames of a message; a msgspec.MsgspecError if one cannot be read."""
        ...
