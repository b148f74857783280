"""What the pipeline asks of an object store, through obstore, which knows S3, GCS and Azure's.

An object appears whole or not at all. One can be put on condition that there is none of its name (`create`): of several
who try, one succeeds, which is what commits stand on. Everything that fails becomes an error that says whether the
same may work later, and that has no secret of the settings in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from fieldfare.errors import BucketError, BucketUnavailableError, InputError, MissingDependencyError
from fieldfare.pipeline.bucket.address import Bucket
from fieldfare.pipeline.secrets import without_secrets

try:
    import obstore
    from obstore import exceptions
    from obstore.store import from_url
except ImportError as error:
    raise MissingDependencyError("object stores need obstore: pip install 'fieldfare[objects]'") from error

# The pipeline waits and tries again itself, so that it can be stopped meanwhile.
_RETRIES = {"max_retries": 3, "retry_timeout": timedelta(seconds=15)}
_OF_CLIENT = {  # settings of HTTP, which obstore takes by themselves
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_ca_certificate",
    "proxy_excludes",
    "proxy_url",
    "root_certificate",
    "timeout",
    "user_agent",
}
_LASTING = (
    exceptions.InvalidPathError,
    exceptions.NotSupportedError,
    exceptions.PermissionDeniedError,
    exceptions.UnauthenticatedError,
    exceptions.UnknownConfigurationKeyError,
)
_REFUSED = ("NoSuchBucket", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ContainerNotFound")


if TYPE_CHECKING:
    from obstore.store import ObjectStore


class FoundObject(NamedTuple):
    """An object of a listing; `key` counts from the place that was listed."""

    key: str
    nbytes: int
    changed_at: int  # microseconds since 1970


class Objects:
    """The objects below a place. Keys count from there."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def __str__(self) -> str:
        return str(self._bucket)

    def create(self, key: str, content: bytes) -> bool:
        """Put a new object. False: there is one of that name, which stays as it is."""
        with self._errors(key) as store:
            try:
                obstore.put(store, key, content, mode="create", use_multipart=False)
            except exceptions.AlreadyExistsError:
                return False
        return True

    def upload(self, key: str, content: bytes | IO[bytes]) -> None:
        """Put an object under a name that nobody else uses; it appears when all of it is there."""
        with self._errors(key) as store:
            obstore.put(store, key, content)

    def read(self, key: str) -> bytes | None:
        """The content of an object; None if there is none."""
        with self._errors(key) as store:
            try:
                return bytes(obstore.get(store, key).bytes())
            except (FileNotFoundError, exceptions.NotFoundError):
                return None

    def read_small(self, key: str, bytes_max: int) -> tuple[int, bytes | None]:
        """The size of an object, and its content unless it is larger than that. FileNotFoundError if there is none."""
        with self._errors(key) as store:
            try:
                found = obstore.get(store, key)
            except exceptions.NotFoundError as error:
                raise FileNotFoundError(f"{self}/{key}: there is no such object any more") from error
            size = int(found.meta["size"])
            return size, bytes(found.bytes()) if size <= bytes_max else None

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """A part of an object. FileNotFoundError if there is none."""
        with self._errors(key) as store:
            try:
                return bytes(obstore.get_range(store, key, start=start, length=length))
            except exceptions.NotFoundError as error:
                raise FileNotFoundError(f"{self}/{key}: there is no such object any more") from error

    def size(self, key: str) -> int:
        """The size of an object. FileNotFoundError if there is none."""
        with self._errors(key) as store:
            try:
                return int(obstore.head(store, key)["size"])
            except exceptions.NotFoundError as error:
                raise FileNotFoundError(f"{self}/{key}: there is no such object any more") from error

    def here(self) -> list[FoundObject]:
        """The objects of this place, without those of places below it."""
        with self._errors() as store:
            return [_found(meta) for meta in obstore.list_with_delimiter(store)["objects"]]

    def below(self, prefix: str | None = None, after: str | None = None) -> Iterator[FoundObject]:
        """All objects below a place of this one, in the order of their names, perhaps only those after a name."""
        with self._errors(prefix or "") as store:
            for some in obstore.list(store, prefix, offset=after):
                yield from map(_found, some)

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects; those that are gone are no error."""
        doomed = list(keys)
        if doomed:
            with self._errors() as store:
                obstore.delete(store, doomed)

    @contextmanager
    def _errors(self, key: str = "") -> Iterator[ObjectStore]:
        place = f"{self}/{key}".rstrip("/")
        try:
            yield _opened(self._bucket.url, tuple(sorted(self._bucket.settings.items())))
        except FileNotFoundError:
            raise
        except (exceptions.BaseError, OSError) as error:
            reason = without_secrets(str(error).strip().splitlines()[0], self._bucket.settings)
            text = str(error)
            if isinstance(error, _LASTING) or any(word in text for word in _REFUSED):
                raise BucketError(f"{place}: {reason}: look at its name, its settings and your rights") from None
            raise BucketUnavailableError(f"{place}: {reason}: it is tried again") from None


@lru_cache(maxsize=16)
def _opened(url: str, settings: tuple[tuple[str, str], ...]) -> ObjectStore:
    config: dict[str, Any] = {name: value for name, value in settings if name.lower() not in _OF_CLIENT}
    client: dict[str, Any] = {name.lower(): _flag(value) for name, value in settings if name.lower() in _OF_CLIENT}
    try:
        return from_url(url, config=config, client_options=client, retry_config=_RETRIES)  # type: ignore[call-overload,no-any-return]
    except (exceptions.BaseError, ValueError, TypeError) as error:
        reason = without_secrets(str(error).strip(), dict(settings))
        raise InputError(f"{url}: its settings cannot be used: {reason}") from None


def _flag(value: str) -> str | bool:
    return value.lower() == "true" if value.lower() in {"true", "false"} else value


def _found(meta: Any) -> FoundObject:
    return FoundObject(meta["path"], meta["size"], int(meta["last_modified"].timestamp() * 1e6))
