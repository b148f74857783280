"""Which place in an object store, as people write it, and how to reach it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from fieldfare.errors import InputError

SCHEMES = ("s3://", "s3a://", "gs://", "az://", "abfs://", "abfss://")
_URL = re.compile(r"[a-z][a-z0-9+.-]*:/", re.IGNORECASE)
_EXAMPLE = "a place in an object store is s3://bucket/path, gs://bucket/path or abfss://container@account.dfs.core.windows.net/path"


@dataclass(frozen=True, slots=True)
class Bucket:
    """A place in an object store. `settings` are obstore's own, such as `aws_endpoint`; they may hold secrets.

    What is not set is taken from the environment, or from the machine's role in its cloud.
    """

    url: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        account, at, _ = parts.netloc.rpartition("@")
        if at and (":" in account or not parts.scheme.startswith("abfs")):  # what stands there may be a password
            raise InputError(f"{parts.scheme}://…: {_EXAMPLE}; how to log in stands in a file of settings")
        if parts.query or parts.fragment:
            raise InputError(f"{self.url.partition('?')[0].partition('#')[0]}: {_EXAMPLE}, without '?' and '#'")
        if not self.url.startswith(SCHEMES) or not parts.netloc:
            raise InputError(f"{self.url}: {_EXAMPLE}")

    def __str__(self) -> str:
        return self.url.rstrip("/")


def is_bucket(place: str) -> bool:
    """Whether a place is in an object store."""
    return place.startswith(SCHEMES)


def is_url(place: str) -> bool:
    """Whether a place is written as a URL, of whatever kind; also one that `Path` has taken a slash from."""
    return _URL.match(place) is not None
