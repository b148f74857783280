"""How far a table had come when it was last written: it never goes back, unless somebody deletes or restores it.

A table keeps its marker itself. What the checkpoint remembers beside it tells a new table, which has no marker yet,
from one that was emptied under us: to go on there would leave out what was in it.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

import msgspec

from fieldfare.errors import TableError

NONE_YET = -1  # where the id of the last batch is asked for
_FILE = "reached.json"


class _Reached(msgspec.Struct, frozen=True):
    table: str  # a digest of its address, which may have a secret
    batch_id: int
    has_rows: bool


class Reached:
    """The last batch that a table was seen to have. `state` is a folder inside the checkpoint."""

    def __init__(self, state: Path, table: str, address: str) -> None:
        """`table` is what it is called in errors, `address` what tells it from others."""
        self._path, self._table = state / _FILE, table
        self._digest = blake2b(address.encode(), digest_size=16).hexdigest()

    def require(self, marker: int, *, is_there: bool = True) -> None:
        """Raise an error if the table has less than it had; `is_there`: whether it exists."""
        known = self._known()
        if marker < known.batch_id or (known.has_rows and not is_there):
            raise TableError(
                f"{self._table}: it had the batches up to {known.batch_id}, and does not have them now: it was "
                "deleted, made anew or restored from an older copy; bring it back, or use a new checkpoint and a new "
                "table"
            )

    def remember(self, marker: int, *, has_rows: bool = True) -> None:
        """The table has the batches up to this one. If the machine forgets it, only this check is weaker."""
        known = self._known()
        found = _Reached(self._digest, marker, known.has_rows or has_rows)
        if found != known:
            partial = self._path.with_suffix(".partial")
            partial.write_bytes(msgspec.json.encode(found))
            partial.rename(self._path)

    def _known(self) -> _Reached:
        """What is remembered of this table; of another one that the checkpoint wrote before, nothing."""
        nothing = _Reached(self._digest, NONE_YET, has_rows=False)
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=_Reached)
        except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
            return nothing
        return found if found.table == self._digest else nothing
